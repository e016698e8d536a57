//! The ring of a feed: the last messages, bounded in bytes, and where each subscriber stands in them. Reading from
//! upstream never waits for a subscriber: one that the ring has passed is behind, and comes back from its own position.
//!
//! List chunks are the exception that a reader of upstream may wait for ([`Ring::has_room`]): a list can be larger than
//! the ring and cannot be resumed in the middle.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weir_core::ResourceVersion;
use weir_core::message::{Change, FeedMessage};
use weir_core::statement::{Event, Statement};

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
    subscribers: BTreeMap<SubscriberId, u64>,
    position: ResourceVersion,
    /// The newest message is a part of a list that is not its last.
    is_mid_list: bool,
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
            FeedMessage::Restored => self.position = ResourceVersion::ZERO,
        }
        self.is_mid_list = matches!(&message, FeedMessage::List(chunk) if !chunk.is_last);
        let bytes = bytes_of(&message);
        self.bytes += bytes;
        self.messages.push_back((Arc::new(message), bytes));
        while self.bytes > self.max_bytes && self.messages.len() > 1 {
            self.pop();
        }
    }

    /// Whether a list chunk can be added without passing a subscriber.
    pub fn has_room(&self) -> bool {
        self.bytes * 2 <= self.max_bytes || self.subscribers.values().all(|next| *next >= self.end())
    }

    /// A subscriber that has everything up to `after` (nothing if it has no content). False when the ring cannot lead it
    /// on from there, so that the feed must read upstream again from `after`.
    pub fn subscribe(&mut self, id: SubscriberId, after: Option<ResourceVersion>) -> bool {
        let leads_on = |message: &FeedMessage| match message {
            FeedMessage::Statement(statement) => after.is_some_and(|after| statement.after() <= after && after <= statement.to()),
            FeedMessage::List(chunk) => chunk.seq == 0,
            FeedMessage::Restored => true,
        };
        let found = self.messages.iter().position(|(message, _)| leads_on(message));
        // The rest of a list leads nobody on who has not read its beginning.
        let is_level = after == Some(self.position) && !self.position.is_zero() && !self.is_mid_list;
        let next = match found {
            Some(index) => self.first + index as u64,
            None => self.end(),
        };
        self.subscribers.insert(id, next);
        found.is_some() || is_level
    }

    /// Forgets a subscriber.
    pub fn unsubscribe(&mut self, id: SubscriberId) {
        self.subscribers.remove(&id);
    }

    /// What comes next for a subscriber.
    pub fn next(&mut self, id: SubscriberId) -> Next {
        let end = self.end();
        let Some(next) = self.subscribers.get_mut(&id) else { return Next::Behind };
        if *next >= end {
            return Next::Nothing;
        }
        let Some(index) = next.checked_sub(self.first) else {
            self.subscribers.remove(&id);
            return Next::Behind;
        };
        *next += 1;
        self.messages.get(index as usize).map_or(Next::Nothing, |(message, _)| Next::Message(message.clone()))
    }

    /// Drops what every subscriber has read and no late one could use: all but the statements within half of the bound.
    pub fn shrink(&mut self) {
        let read = self.subscribers.values().min().copied().unwrap_or(self.end());
        while self.first < read && (self.bytes * 2 > self.max_bytes || self.front_is_list()) {
            self.pop();
        }
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
        FeedMessage::List(chunk) => overhead + chunk.objects.iter().map(|object| object.bytes().len()).sum::<usize>(),
        FeedMessage::Restored => overhead,
    }
}
