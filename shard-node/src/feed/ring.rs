//! The ring of a feed: the last messages, bounded in bytes, and where each subscriber stands in them. Reading from
//! upstream never waits for a subscriber: one that the ring has passed is behind, and comes back from its own position.
//!
//! List chunks are the exception that a reader of upstream may wait for ([`Ring::has_room`]): a list can be larger than
//! the ring and cannot be resumed in the middle.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_core::message::{Change, FeedMessage};
use weir_core::statement::{Event, Statement};
use weir_core::{History, ResourceVersion};

/// Names one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// The last messages of a feed.
#[derive(Debug)]
pub struct Ring {
    max_bytes: usize,
    bytes: usize,
    first: u64,
    messages: VecDeque<(Arc<FeedMessage>, usize)>,
    subscribers: BTreeMap<SubscriberId, Subscriber>,
    position: ResourceVersion,
    /// The newest message is a part of a list that is not its last.
    is_mid_list: bool,
    /// The history that is read.
    history: History,
    /// How often upstream's history went back.
    histories: u64,
    /// Where the messages of the present history begin.
    history_start: u64,
}

/// Where a subscriber stands.
#[derive(Clone, Copy, Debug)]
struct Subscriber {
    /// Its next message; `None` once the ring went past it.
    next: Option<u64>,
    /// How often the history had gone back when it got here; what it must be told counts as told.
    told: u64,
    /// Its content is of a history that is over, and the message that said so is gone or behind it.
    must_be_told: bool,
}

/// What a subscriber lacks and the ring does not hold: the feed has to read it from upstream again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The log from here on.
    Log(ResourceVersion),
    /// A list.
    List,
}

/// What a subscriber finds in the ring.
#[derive(Clone, Debug)]
pub enum Next {
    /// The next message.
    Message(Arc<FeedMessage>),
    /// Nothing new.
    Nothing,
    /// The ring went past the subscriber: it has to subscribe again, from its own position.
    Behind,
}

// === impl Ring ===

impl Ring {
    /// An empty ring of at most `max_bytes` of object bytes.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            bytes: 0,
            first: 0,
            messages: VecDeque::new(),
            subscribers: BTreeMap::new(),
            position: ResourceVersion::ZERO,
            is_mid_list: false,
            history: History::FIRST,
            histories: 0,
            history_start: 0,
        }
    }

    /// The end of the last statement, or the revision of the last whole list.
    pub fn position(&self) -> ResourceVersion {
        self.position
    }

    /// Adds what was read. The oldest messages go when the ring is full, read or not.
    pub fn push(&mut self, message: FeedMessage) {
        match &message {
            FeedMessage::Statement(statement) => self.position = self.position.max(statement.to()),
            FeedMessage::List(chunk) if chunk.is_last => self.position = self.position.max(chunk.at),
            FeedMessage::List(_) => {}
            FeedMessage::Restored(history) => {
                self.history = *history;
                self.position = ResourceVersion::ZERO;
            }
        }
        let is_restored = matches!(&message, FeedMessage::Restored(_));
        self.is_mid_list = matches!(&message, FeedMessage::List(chunk) if !chunk.is_last);
        let bytes = bytes_of(&message);
        self.bytes += bytes;
        self.messages.push_back((Arc::new(message), bytes));
        if is_restored {
            self.histories += 1;
            self.history_start = self.end();
        }
        while self.bytes > self.max_bytes && self.messages.len() > 1 {
            self.pop();
        }
    }

    /// Whether a list chunk can be added without passing a subscriber.
    pub fn has_room(&self) -> bool {
        self.bytes * 2 <= self.max_bytes || self.read_by_all() >= self.end()
    }

    /// A subscriber that has everything up to `after` (`None` if it has no content). What comes next for it is what leads it
    /// on from there; what of that is no longer here is returned, for the feed to read again.
    ///
    /// Numbers of two histories say nothing about each other: a subscriber that missed the end of the last one is told
    /// first, and then begins with a list.
    pub fn subscribe(&mut self, id: SubscriberId, after: Option<ResourceVersion>) -> Option<Lack> {
        let told = match (self.subscribers.get(&id), after) {
            (_, None) => self.histories,
            (Some(known), Some(_)) if !known.must_be_told => known.told,
            (Some(_) | None, Some(_)) => 0,
        };
        let must_be_told = told < self.histories;
        let after = after.filter(|_| !must_be_told);
        let (found, next) = self.lead_from(after);
        let told = self.histories;
        self.subscribers.insert(id, Subscriber { next: Some(next), told, must_be_told });
        match after {
            _ if found => None,
            Some(after) => Some(Lack::Log(after)),
            None => Some(Lack::List),
        }
    }

    /// What comes next for a subscriber.
    pub fn next(&mut self, id: SubscriberId) -> Next {
        let (first, end) = (self.first, self.end());
        let history = self.history;
        let Some(subscriber) = self.subscribers.get_mut(&id) else { return Next::Behind };
        if std::mem::take(&mut subscriber.must_be_told) {
            return Next::Message(Arc::new(FeedMessage::Restored(history)));
        }
        let Some(next) = subscriber.next else { return Next::Behind };
        if next >= end {
            return Next::Nothing;
        }
        let Some((message, _)) = next.checked_sub(first).and_then(|index| self.messages.get(index as usize))
        else {
            subscriber.next = None;
            return Next::Behind;
        };
        subscriber.next = Some(next + 1);
        subscriber.told += u64::from(matches!(**message, FeedMessage::Restored(_)));
        Next::Message(message.clone())
    }

    /// Drops what every subscriber has read and no late one could use: all but the statements within half of the bound.
    pub fn shrink(&mut self) {
        let read = self.read_by_all();
        while self.first < read && (self.bytes * 2 > self.max_bytes || self.front_is_list()) {
            self.pop();
        }
    }

    /// The message that leads on from `after`, or the end, and whether the end does. The log behind the newest list comes
    /// first: whoever is led through a list begins anew with it.
    fn lead_from(&self, after: Option<ResourceVersion>) -> (bool, u64) {
        let start = self.history_start.max(self.first);
        let present = || (start..self.end()).map(|index| (index, self.message(index)));
        let is_list = |message: &FeedMessage| matches!(message, FeedMessage::List(_));
        let behind_lists = present().rfind(|(_, message)| is_list(message)).map_or(start, |(index, _)| index);
        let states = |message: &FeedMessage| match message {
            FeedMessage::Statement(said) => {
                after.is_some_and(|after| said.after() <= after && after < said.to())
            }
            FeedMessage::List(_) | FeedMessage::Restored(_) => false,
        };
        // The rest of a list leads nobody on who has not read its beginning.
        if after == Some(self.position) && !self.position.is_zero() && !self.is_mid_list {
            return (true, self.end());
        }
        let found = present()
            .find(|(index, message)| *index >= behind_lists && states(message))
            .or_else(|| present().find(|(_, message)| states(message)))
            .or_else(|| present().find(|(index, _)| self.is_whole_list(*index)));
        found.map_or((false, self.end()), |(index, _)| (true, index))
    }

    /// Whether a list begins here and its end is here too, or still to come; one that was given up half-way leads nowhere.
    fn is_whole_list(&self, index: u64) -> bool {
        let list = match self.message(index) {
            FeedMessage::List(chunk) if chunk.seq == 0 => chunk.list,
            FeedMessage::List(_) | FeedMessage::Statement(_) | FeedMessage::Restored(_) => return false,
        };
        for index in index..self.end() {
            match self.message(index) {
                FeedMessage::List(chunk) if chunk.list == list && chunk.is_last => return true,
                FeedMessage::List(chunk) if chunk.list == list => {}
                FeedMessage::List(_) | FeedMessage::Statement(_) | FeedMessage::Restored(_) => return false,
            }
        }
        true
    }

    fn message(&self, index: u64) -> &FeedMessage {
        &self.messages[(index - self.first) as usize].0
    }

    /// Before which message everything was read by everybody.
    fn read_by_all(&self) -> u64 {
        self.subscribers.values().filter_map(|subscriber| subscriber.next).min().unwrap_or(self.end())
    }

    fn front_is_list(&self) -> bool {
        self.messages.front().is_some_and(|(message, _)| matches!(**message, FeedMessage::List(_)))
    }

    fn pop(&mut self) {
        if let Some((_, bytes)) = self.messages.pop_front() {
            self.bytes -= bytes;
            self.first += 1;
        }
    }

    fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }
}

/// Joins the events read in one go into one statement. `to` is the last event's position or that of a bookmark behind it.
pub fn statement_of(
    source: weir_core::SourceId,
    after: ResourceVersion,
    changes: Vec<Change>,
    bookmark: Option<ResourceVersion>,
) -> Result<Statement<Change>, weir_core::statement::Malformed> {
    let last = changes.last().map_or(after, Event::rv);
    Statement::new(source, after, last.max(bookmark.unwrap_or(after)), changes)
}

fn bytes_of(message: &FeedMessage) -> usize {
    let overhead = size_of::<FeedMessage>();
    match message {
        FeedMessage::Statement(statement) => {
            overhead + statement.events().iter().map(|change| change.object.bytes().len()).sum::<usize>()
        }
        FeedMessage::List(chunk) => {
            overhead + chunk.objects.iter().map(|object| object.bytes().len()).sum::<usize>()
        }
        FeedMessage::Restored(_) => overhead,
    }
}

#[cfg(test)]
mod tests;
