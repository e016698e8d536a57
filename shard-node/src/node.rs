//! One mirror on one shard node: the store and the interests registered over it. Everything that happens in one step
//! under the lock of this type (registering and saying where, installing a list and ending what it made too old) is one
//! method here.
//!
//! Messages to a session leave in the order in which they are returned; a caller that reordered them would break joining.

pub mod cell;
mod registry;
mod sessions;
#[cfg(test)]
mod tests;

use std::time::Duration;

use weir_core::message::{
    Change, EventKind, FeedMessage, FromNode, ListChunk, NamesEdit, Open, OpenId, ToNode,
};
use weir_core::statement::{Gap, SourceId, Statement};
use weir_core::window::Window;
use weir_core::{History, ObjectKey, ResourceVersion, SlotSet, WindowBounds};

use crate::store::{Applied, Listed, Now, Store};
use registry::Registry;
use sessions::{Batch, Sessions};

/// Names one session: one proxy's stream of one mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// What one session has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// How many registrations, and names in them.
    pub count: usize,
    /// Whether the id in question is one of them.
    pub has_id: bool,
    /// The change that would be the next one, where the id is of a name set.
    pub next_edit: Option<NamesEdit>,
}

/// A message and the session that it is for.
pub type Outgoing = (SessionId, FromNode);

/// One mirror's shard: store, registered interests, sessions.
#[derive(Debug)]
pub struct Node {
    store: Store,
    registry: Registry,
    sessions: Sessions,
}

// === impl Node ===

impl Node {
    /// A node that holds nothing yet.
    pub fn new(slots: SlotSet, bounds: WindowBounds) -> Self {
        Self {
            store: Store::new(slots, bounds),
            registry: Registry::default(),
            sessions: Sessions::default(),
        }
    }

    /// The store, for questions about snapshot and log.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How many interests are registered.
    pub fn interests(&self) -> usize {
        self.registry.len()
    }

    /// What a session has registered.
    pub fn registered(&self, session: SessionId, id: OpenId) -> Registered {
        let next_edit = self.registry.next_edit(session, id);
        Registered { next_edit, ..self.sessions.registered(session, id) }
    }

    /// Opens a session and says where it begins.
    pub fn attach(&mut self, session: SessionId) -> Vec<Outgoing> {
        let at = self.frontier();
        self.sessions.attach(session, at);
        let history = FromNode::History(self.store.history());
        vec![(session, history), (session, FromNode::Said(Statement::nothing(self.source(), at, at)))]
    }

    /// Ends a session with all its registrations.
    pub fn detach(&mut self, session: SessionId) {
        self.sessions.detach(session);
        self.registry.remove_session(session);
    }

    /// Takes what the feed says. A gap changes nothing; the caller subscribes again from the position in it.
    pub fn on_feed(&mut self, message: FeedMessage, now: Now) -> Result<Vec<Outgoing>, Gap> {
        match message {
            FeedMessage::Statement(statement) => self.on_statement(statement, now),
            FeedMessage::List(chunk) => Ok(self.on_list(chunk)),
            FeedMessage::Restored(history) => Ok(self.on_restored(history)),
        }
    }

    /// Takes what a session says.
    pub fn on_session(&mut self, session: SessionId, message: ToNode) -> Vec<Outgoing> {
        match message {
            ToNode::Open(open) => self.open(session, open, None),
            ToNode::OpenNames(open, names) => self.open(session, open, Some(names)),
            ToNode::Names(change) => {
                let (id, edit, at) = (change.id, change.edit, self.frontier());
                let Some(names) = self.registry.edit(session, change) else { return Vec::new() };
                self.sessions.weigh(session, id, names);
                vec![(session, FromNode::Named { id, edit, at })]
            }
            ToNode::Close(id) => {
                if self.sessions.close(session, id) {
                    self.registry.remove(session, id);
                }
                Vec::new()
            }
            ToNode::Credit(id, credit) => {
                self.sessions.grant(session, id, credit);
                Vec::new()
            }
        }
    }

    /// Lets the window move with time.
    pub fn trim(&mut self, now: Now) {
        self.store.trim(now);
    }

    /// Drops the oldest events of an age, see [`Store::cut`].
    pub fn cut(&mut self, older: (Duration, Now), max_events: usize) -> (usize, usize) {
        self.store.cut(older, max_events)
    }

    fn open(&mut self, session: SessionId, open: Open, names: Option<Vec<ObjectKey>>) -> Vec<Outgoing> {
        if !self.store.slots().covers(&open.slots) {
            return vec![(session, FromNode::NotMine(open.id))];
        }
        let (id, at) = (open.id, self.frontier());
        if !self.sessions.open(session, &open) {
            return Vec::new();
        }
        match names {
            None => self.registry.insert(session, open),
            Some(names) => {
                let names = self.registry.insert_names(session, open, names);
                self.sessions.weigh(session, id, names);
            }
        }
        vec![(session, FromNode::Live { id, at })]
    }

    fn on_statement(&mut self, statement: Statement<Change>, now: Now) -> Result<Vec<Outgoing>, Gap> {
        let before = self.frontier();
        let applied = self.store.apply(statement, now)?;
        let after = self.frontier();
        if after == before {
            return Ok(Vec::new());
        }
        let mut batch = Batch::new(self.source(), after);
        for change in &applied {
            self.say(change, &mut batch);
        }
        Ok(self.sessions.finish(batch))
    }

    /// Puts one change into the batch of every session that it concerns.
    fn say(&mut self, applied: &Applied, batch: &mut Batch) {
        let Applied { previous, change } = applied;
        let seen = self.registry.seen_by(previous.as_ref(), change);
        let mut gone = None;
        for hit in seen {
            let object = match hit.kind {
                EventKind::Deleted => {
                    let Some(previous) = previous else { continue };
                    Some(gone.get_or_insert_with(|| crate::store::gone(previous, change)).clone())
                }
                EventKind::Added | EventKind::Modified => None,
            };
            if self.sessions.say(&hit, (change, object), batch) {
                self.registry.remove(hit.session, hit.id);
            }
        }
    }

    fn on_list(&mut self, chunk: ListChunk) -> Vec<Outgoing> {
        match self.store.list(chunk) {
            Listed::Staged | Listed::Ignored => Vec::new(),
            Listed::Installed(at) => {
                self.registry.clear();
                self.sessions.end_all(self.source(), at)
            }
        }
    }

    /// What is held is of a history that is over, unless the news is old.
    fn on_restored(&mut self, history: History) -> Vec<Outgoing> {
        if history <= self.store.history() {
            return Vec::new();
        }
        if self.store.window().is_none() {
            self.store.clear(history);
            return self.sessions.tell(|| FromNode::History(history));
        }
        let highest = self.store.highest();
        self.store.clear(history);
        self.registry.clear();
        self.sessions.restored(highest, history)
    }

    fn frontier(&self) -> ResourceVersion {
        self.window().map_or(ResourceVersion::ZERO, |window| window.frontier)
    }

    fn source(&self) -> SourceId {
        self.store.source().unwrap_or(SourceId(0))
    }

    /// Floor and frontier of the store.
    pub fn window(&self) -> Option<Window> {
        self.store.window()
    }
}

/// One registration that sees a change.
#[derive(Clone, Copy, Debug)]
struct Hit {
    session: SessionId,
    id: OpenId,
    kind: EventKind,
}
