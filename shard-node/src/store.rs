//! The store of one mirror on one shard: every object with its versions inside the window, and the log that made them.
//! It answers two questions, `snapshot(R)` and `log(R..)`, exactly or not at all.
//!
//! An empty log proves nothing: what can be answered is decided by floor and frontier only, and checked again for every
//! chunk, since the window moves while a list is read.

mod chain;
mod check;
mod log;
mod snapshot;
mod staging;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use weir_core::message::{Change, ChangeKind, ListChunk, Unanswered};
use weir_core::statement::{Gap, Progress, SourceId, Statement};
use weir_core::window::Window;
use weir_core::{History, Object, ObjectKey, ResourceVersion, SlotSet, WindowBounds};

use chain::Chain;
use log::{Entry, Log};
use staging::{Added, Staging};

pub(crate) use log::gone;

/// A moment, counted from any fixed start; the store never reads a clock.
pub type Now = Duration;

/// The objects and the log of one shard of one mirror.
#[derive(Debug)]
pub struct Store {
    slots: SlotSet,
    bounds: WindowBounds,
    held: Option<Held>,
    staging: Staging,
    highest: ResourceVersion,
    history: History,
}

/// What a store has once a list was installed.
#[derive(Debug)]
struct Held {
    source: SourceId,
    progress: Progress,
    floor: ResourceVersion,
    keys: BTreeMap<ObjectKey, Chain>,
    /// (uid hash, key) of every version inside the window: the second order, for shard ranges.
    by_hash: BTreeSet<(u64, ObjectKey)>,
    log: Log,
    live_objects: usize,
    live_bytes: usize,
}

/// One change as the store applied it, for matching.
#[derive(Clone, Debug)]
pub struct Applied {
    /// What was there before; its uid is the same.
    pub previous: Option<Arc<Object>>,
    /// The change.
    pub change: Change,
}

/// How much a store holds; bytes are accounted, see [`Object::size`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Objects that exist now.
    pub live_objects: usize,
    /// Their bytes.
    pub live_bytes: usize,
    /// Events in the log.
    pub log_events: usize,
    /// Bytes that only the log keeps.
    pub log_bytes: usize,
}

/// What became of a chunk of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// Staged; more chunks are to come.
    Staged,
    /// The list is the store's content now; floor and frontier are its revision.
    Installed(ResourceVersion),
    /// The list was not needed, or a chunk of it is missing.
    Ignored,
}

// === impl Store ===

impl Store {
    /// An empty store for these slots.
    pub fn new(slots: SlotSet, bounds: WindowBounds) -> Self {
        Self {
            slots,
            bounds,
            held: None,
            staging: Staging::default(),
            highest: ResourceVersion::ZERO,
            history: History::FIRST,
        }
    }

    /// The slots it holds.
    pub fn slots(&self) -> SlotSet {
        self.slots
    }

    /// Floor and frontier; `None` while nothing was installed.
    pub fn window(&self) -> Option<Window> {
        self.held.as_ref().map(Held::window)
    }

    /// Who vouched for the newest statement.
    pub fn source(&self) -> Option<SourceId> {
        self.held.as_ref().map(|held| held.source)
    }

    /// The highest frontier that this store ever stated, over all that it held.
    pub fn highest(&self) -> ResourceVersion {
        self.highest
    }

    /// What is held.
    pub fn holdings(&self) -> Holdings {
        self.held.as_ref().map(Held::holdings).unwrap_or_default()
    }

    /// Takes log content. Returns the changes that were new, or the gap that keeps the statement out.
    pub fn apply(&mut self, statement: Statement<Change>, now: Now) -> Result<Vec<Applied>, Gap> {
        let Some(held) = &mut self.held else {
            return Err(Gap { position: ResourceVersion::ZERO, after: statement.after() });
        };
        let source = statement.source();
        let fresh = held.progress.take(statement)?;
        held.source = source;
        let applied: Vec<Applied> = fresh.map(|change| held.put(change, now)).collect();
        self.highest = self.highest.max(held.progress.position());
        self.staging.drop_up_to(held.progress.position());
        held.trim(&self.bounds, now);
        Ok(applied)
    }

    /// Takes a chunk of a list. The whole list is installed in one step with its last chunk, if the store is empty or the
    /// list is newer; the log begins anew there.
    pub fn list(&mut self, chunk: ListChunk) -> Listed {
        let at = chunk.at;
        if self.held.as_ref().is_some_and(|held| at <= held.progress.position()) {
            return Listed::Ignored;
        }
        let objects = match self.staging.add(chunk) {
            Added::Part => return Listed::Staged,
            Added::OutOfTurn => return Listed::Ignored,
            Added::Whole(objects) => objects,
        };
        self.staging.drop_up_to(at);
        self.held = Some(Held::from_list(at, objects));
        self.highest = self.highest.max(at);
        Listed::Installed(at)
    }

    /// Which of upstream's histories the content is of.
    pub fn history(&self) -> History {
        self.history
    }

    /// Drops everything: what comes is of another history.
    pub fn clear(&mut self, history: History) {
        self.history = history;
        self.held = None;
        self.staging = Staging::default();
    }

    /// Lets the window move with time where no event moves it.
    pub fn trim(&mut self, now: Now) {
        if let Some(held) = &mut self.held {
            held.trim(&self.bounds, now);
        }
    }

    /// Drops the oldest `max_events` of those that are of this age or older, whatever the bounds say. How many went, and how
    /// many bytes with them.
    pub fn cut(&mut self, (age, now): (Duration, Now), max_events: usize) -> (usize, usize) {
        let Some(held) = &mut self.held else { return (0, 0) };
        let (mut events, before) = (0, held.log.bytes());
        while events < max_events
            && let Some(entry) = held.log.pop_older(age, now)
        {
            held.drop_entry(&entry);
            events += 1;
        }
        (events, before - held.log.bytes())
    }

    fn held_at(&self, history: History, slots: &SlotSet) -> Result<&Held, Unanswered> {
        if !self.slots.covers(slots) {
            return Err(Unanswered::NotMine);
        }
        if self.history != history {
            return Err(Unanswered::Empty);
        }
        self.held.as_ref().ok_or(Unanswered::Empty)
    }
}

// === impl Held ===

impl Held {
    fn from_list(at: ResourceVersion, objects: Vec<Arc<Object>>) -> Self {
        Self {
            source: SourceId(0),
            progress: Progress::starting_at(at),
            floor: at,
            log: Log::default(),
            live_objects: objects.len(),
            live_bytes: objects.iter().map(|object| object.size()).sum(),
            // Collected and not inserted one by one: that makes full nodes of both trees, at half the memory.
            by_hash: objects.iter().map(|object| (object.uid_hash(), object.key().clone())).collect(),
            keys: objects.into_iter().map(|object| (object.key().clone(), Chain::of(object))).collect(),
        }
    }

    fn window(&self) -> Window {
        Window { floor: self.floor, frontier: self.progress.position() }
    }

    fn holdings(&self) -> Holdings {
        Holdings {
            live_objects: self.live_objects,
            live_bytes: self.live_bytes,
            log_events: self.log.len(),
            log_bytes: self.log.bytes(),
        }
    }

    fn put(&mut self, change: Change, now: Now) -> Applied {
        let key = change.object.key().clone();
        let chain = self.keys.entry(key.clone()).or_default();
        let previous = chain.newest().cloned();
        match change.kind {
            ChangeKind::Put => {
                self.by_hash.insert((change.object.uid_hash(), key));
                self.live_objects += usize::from(previous.is_none());
                self.live_bytes += change.object.size();
                chain.push(change.rv, Some(change.object.clone()));
            }
            ChangeKind::Delete => {
                self.live_objects -= usize::from(previous.is_some());
                chain.push(change.rv, None);
            }
        }
        self.live_bytes -= previous.as_ref().map_or(0, |object| object.size());
        self.log.push(Entry { previous: previous.clone(), change: change.clone(), at: now });
        Applied { previous, change }
    }

    fn trim(&mut self, bounds: &WindowBounds, now: Now) {
        while let Some(entry) = self.log.pop_beyond(bounds, self.live_bytes, now) {
            self.drop_entry(&entry);
        }
    }

    /// What follows from an entry that left the log.
    fn drop_entry(&mut self, entry: &Entry) {
        self.floor = entry.change.rv;
        self.forget_before(entry);
    }

    /// Drops the versions that the entry replaced, and the key when only its deletion is left.
    fn forget_before(&mut self, entry: &Entry) {
        let key = entry.change.object.key();
        let Some(chain) = self.keys.get_mut(key) else { return };
        let mut dropped = chain.drop_before(entry.change.rv);
        let is_gone = chain.is_only_a_deletion();
        dropped.retain(|object| is_gone || !chain.has_uid_hash(object.uid_hash()));
        for object in dropped {
            self.by_hash.remove(&(object.uid_hash(), key.clone()));
        }
        if is_gone {
            self.keys.remove(key);
        }
    }
}
