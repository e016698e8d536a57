//! The ring of a feed: what was read last, bounded in bytes, and where each subscriber stands in it. Subscribers are led
//! by position and not by the order of messages: what comes next for one is what leads on from where it is, from the main
//! watch, from a backfill beside it, or a list. So what was read for a late one reaches nobody who has no use for it, and
//! reading from upstream waits for nobody: whom the ring has passed comes back from its own position.
//!
//! What subscribers lack is worked out from where they stand ([`Ring::wanted`]), never remembered: a backfill that broke
//! off, or a subscriber that left, needs no bookkeeping.

mod leading;
mod lists;
mod log;
mod subscriber;
mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_core::message::{Change, FeedMessage, ListChunk, ListId};
use weir_core::statement::{Event, Statement};
use weir_core::{History, ResourceVersion};

pub use lists::KEEP_LIST;
use lists::Lists;
use log::Log;
use subscriber::{Stage, Subscriber};
pub use subscriber::{Standing, SubscriberId};
pub use wanted::Wanted;

/// How long a subscriber may leave unread what others may wait for, a chunk of a list or a part of a backfill, before it is
/// passed.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How much a ring holds, in object bytes.
#[derive(Clone, Copy, Debug)]
pub struct RingBounds {
    /// The log of the main watch, and once more as much for a backfill.
    pub log_bytes: usize,
    /// Lists.
    pub list_bytes: usize,
}

/// What was read last.
#[derive(Debug)]
pub struct Ring {
    log: Log,
    backfill: Log,
    /// Where the backfill that is being read has come to.
    backfilled: Option<ResourceVersion>,
    lists: Lists,
    subscribers: BTreeMap<SubscriberId, Subscriber>,
    history: History,
    /// A history of which something false was told.
    doubted: Option<History>,
    position: Option<ResourceVersion>,
    /// Upstream has no log from here or before, at any instance.
    lost: Option<ResourceVersion>,
    /// Upstream is known to have come to here.
    vouched: ResourceVersion,
    now: Duration,
    /// Subscribers began to want something.
    wants_more: bool,
}

/// What a subscriber finds in the ring.
#[derive(Clone, Debug)]
pub enum Next {
    /// The next message. The same one for all who are handed it.
    Message(Arc<FeedMessage>),
    /// Nothing yet.
    Nothing,
    /// The ring went past the subscriber: it has to subscribe again, from its own position.
    Behind,
}

// === impl Ring ===

impl Ring {
    /// An empty ring.
    pub fn new(bounds: RingBounds) -> Self {
        Self {
            log: Log::new(bounds.log_bytes),
            backfill: Log::new(bounds.log_bytes),
            backfilled: None,
            lists: Lists::new(bounds.list_bytes),
            subscribers: BTreeMap::new(),
            history: History::FIRST,
            doubted: None,
            position: None,
            lost: None,
            vouched: ResourceVersion::ZERO,
            now: Duration::ZERO,
            wants_more: false,
        }
    }

    /// How far the main watch has come; `None` before it has begun.
    pub fn position(&self) -> Option<ResourceVersion> {
        self.position
    }

    /// Which history is read.
    pub fn history(&self) -> History {
        self.history
    }

    /// How many subscribers there are.
    pub fn subscribers(&self) -> usize {
        self.subscribers.len()
    }

    /// The highest position that a subscriber has, of the history that is read.
    pub fn highest_standing(&self) -> Option<ResourceVersion> {
        self.present().filter_map(|subscriber| subscriber.reached).max()
    }

    // --- what is read from upstream

    /// The main watch begins here: behind a list, or where the first subscribers stood.
    pub fn begin(&mut self, at: ResourceVersion) {
        self.position = self.position.max(Some(at));
        if self.lost == Some(at) {
            // Nothing was written since: the log from here is there again, and the list behind it is no news.
            self.lost = Some(ResourceVersion::new(at.get().saturating_sub(1)));
            self.place_where(|_, subscriber| subscriber.reached == Some(at), Self::place);
        }
    }

    /// Adds what the main watch said. The oldest goes when the ring is full, read or not.
    pub fn push(&mut self, statement: Statement<Change>) {
        self.begin(statement.to());
        self.log.push(statement);
    }

    /// Upstream's history went back, or a subscriber knew that it had: nothing that was read counts.
    pub fn restored(&mut self, history: History) {
        self.log.clear();
        self.backfill.clear();
        self.backfilled = None;
        self.lists.clear();
        self.history = history;
        self.position = None;
        self.lost = None;
        self.vouched = ResourceVersion::ZERO;
        let mut subscribers = std::mem::take(&mut self.subscribers);
        subscribers.values_mut().for_each(|subscriber| self.place_anew(subscriber));
        self.subscribers = subscribers;
        self.wants_more = true;
    }

    /// What was told of this history is false. It is wanted of the reader that it begins the next one; who tells of a history
    /// that is over says nothing new.
    pub fn doubt(&mut self, history: History) {
        self.doubted = self.doubted.max(Some(history));
        self.wants_more = true;
    }

    /// No instance has the log from `after` any more: whom the ring cannot lead on from there or before needs a list.
    pub fn lost(&mut self, after: ResourceVersion) {
        self.lost = self.lost.max(Some(after));
        self.place_where(|_, subscriber| subscriber.is_backfilled(), Self::place);
    }

    /// Upstream has proved to have come to `revision`.
    pub fn vouch(&mut self, revision: ResourceVersion) {
        self.vouched = self.vouched.max(revision);
    }

    /// A backfill is read from here on.
    pub fn begin_backfill(&mut self, after: ResourceVersion) {
        if self.backfill.end().is_some_and(|end| after < end) {
            // Who still read there is led on by the new one when it comes by.
            self.backfill.clear();
        }
        self.backfilled = Some(after);
    }

    /// Adds what the backfill said. True if it is done: it met the main watch, or nobody wants it any more.
    pub fn push_backfill(&mut self, statement: Statement<Change>) -> bool {
        self.backfilled = self.backfilled.max(Some(statement.to()));
        self.backfill.push(statement);
        let is_done = self.backfilled >= self.position || self.backfill_readers().next().is_none();
        self.backfilled.take_if(|_| is_done);
        is_done
    }

    /// The backfill came to its end or broke off; who lacks more is found among the wanted again.
    pub fn end_backfill(&mut self) {
        self.backfilled = None;
    }

    /// The instance no longer has the log from where the backfill stands: who stands there or before needs a list.
    pub fn expire_backfill(&mut self) {
        let Some(expired) = self.backfilled.take() else { return };
        let is_expired = |ring: &Self, subscriber: &Subscriber| {
            let is_expired = |at| at <= expired && !ring.leads_from(at) && !ring.is_level(at);
            subscriber.is_backfilled() && subscriber.reached.is_some_and(is_expired)
        };
        self.place_where(is_expired, Self::lead_to_list);
    }

    /// Whether so many bytes of a backfill can be added: they fit, or its fastest reader has everything. What slower ones
    /// then lose is read again for them; one of them is the fastest next, so each backfill brings somebody to its end.
    pub fn has_backfill_room(&self, bytes: usize) -> bool {
        let fastest = self.backfill_readers().max();
        self.backfill.has_room(bytes) || fastest.is_none_or(|reached| Some(reached) >= self.backfill.end())
    }

    /// A list is going to be read, for all that need one now and those that come before its beginning is gone.
    pub fn begin_list(&mut self, list: ListId) {
        self.give_up_list();
        self.lists.begin(list);
        let needs_list = |ring: &Self, subscriber: &Subscriber| match subscriber.stage {
            Stage::NextList => true,
            // What log they still find leads only to where it was lost.
            Stage::Log | Stage::Backfill => subscriber.reached <= ring.lost,
            Stage::List(_) | Stage::Passed => false,
        };
        self.place_where(needs_list, Self::lead_to_list);
    }

    /// Whether so many bytes of a list can be added; if not, its readers must read first.
    pub fn has_list_room(&mut self, bytes: usize) -> bool {
        let readers = self.list_readers();
        self.lists.make_room(bytes, &readers)
    }

    /// Adds a chunk of the list that is being read.
    pub fn push_list(&mut self, chunk: ListChunk) {
        self.vouch(chunk.at);
        self.lists.push(chunk);
    }

    /// The list that is being read came to nothing.
    pub fn give_up_list(&mut self) {
        let Some(list) = self.lists.give_up() else { return };
        let reads_it = |_: &Self, subscriber: &Subscriber| subscriber.reads(list);
        self.place_where(reads_it, Self::place);
    }

    /// The connection is gone: what was read beside the main watch breaks off.
    pub fn disconnect(&mut self) {
        self.end_backfill();
        self.give_up_list();
    }

    /// Lets time pass: lists that were kept long enough go, and with them what every subscriber has read.
    pub fn pass_time(&mut self, now: Duration) {
        self.now = now;
        self.pass_idle();
        let readers = self.list_readers();
        self.lists.pass_time(now, &readers);
        let (mut read, mut backfilled) = (ResourceVersion::MAX, ResourceVersion::MAX);
        for subscriber in self.present() {
            let reached = subscriber.reached.unwrap_or(ResourceVersion::MAX);
            read = read.min(reached);
            if subscriber.is_backfilled() {
                backfilled = backfilled.min(reached);
            }
        }
        self.log.shrink(read);
        self.backfill.drop_up_to(backfilled);
    }
}

// === impl Subscriber ===

impl Subscriber {
    /// Whether it waits for a backfill or reads one.
    fn is_backfilled(&self) -> bool {
        self.stage == Stage::Backfill
    }

    fn reads(&self, list: ListId) -> bool {
        matches!(self.stage, Stage::List(place) if place.list == list)
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

/// What a message counts for in a bound.
pub fn bytes_of(message: &FeedMessage) -> usize {
    let overhead = size_of::<FeedMessage>();
    match message {
        FeedMessage::Statement(statement) => bytes_of_statement(statement),
        FeedMessage::List(chunk) => {
            overhead + chunk.objects.iter().map(|object| object.bytes().len()).sum::<usize>()
        }
        FeedMessage::Restored(_) => overhead,
    }
}

/// The same for a statement.
pub fn bytes_of_statement(statement: &Statement<Change>) -> usize {
    let objects = statement.events().iter().map(|change| change.object.bytes().len());
    size_of::<FeedMessage>() + objects.sum::<usize>()
}

#[cfg(test)]
mod tests;
