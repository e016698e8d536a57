//! One instance of the simulated apiserver: how far it has read the one log, and what its watch history still holds.
//!
//! An instance is behind the log only while it is told to be. What it shows of a collection may be older still: a
//! quiet collection's revision moves only when somebody asks for a fresh read or a progress notice comes, as upstream.

use std::collections::{BTreeSet, HashMap};

use weir_core::ResourceVersion;

use crate::catalog::ResourceId;
use crate::log::Log;

/// How an instance follows the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It has every event at once.
    Current,
    /// It stays this many revisions behind.
    Behind(u64),
    /// It stands still.
    Held,
}

/// How a stream ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// As if its time were up.
    Clean,
    /// With its connection.
    Broken,
}

/// The state of one instance. All of it is lost at a restart, but for the pace.
#[derive(Debug, Clone)]
pub struct Instance {
    applied: ResourceVersion,
    started: ResourceVersion,
    noticed: ResourceVersion,
    noticed_of: HashMap<ResourceId, ResourceVersion>,
    floors: HashMap<ResourceId, ResourceVersion>,
    ends: HashMap<ResourceId, u64>,
    lost: BTreeSet<ResourceVersion>,
    pace: Pace,
    epoch: u64,
    last_end: StreamEnd,
}

// === impl Instance ===

impl Instance {
    /// An instance that starts on a log: its history begins at the present.
    pub(crate) fn starting_on(log: &Log) -> Self {
        Self {
            applied: log.head(),
            started: log.head(),
            noticed: log.head(),
            noticed_of: HashMap::new(),
            floors: HashMap::new(),
            ends: HashMap::new(),
            lost: BTreeSet::new(),
            pace: Pace::Current,
            epoch: 0,
            last_end: StreamEnd::Clean,
        }
    }

    /// The revision up to which it has read the log.
    pub fn applied(&self) -> ResourceVersion {
        self.applied
    }

    /// The revision at which its caches were made.
    pub fn started(&self) -> ResourceVersion {
        self.started
    }

    /// How it follows the log.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// The revision it shows for a collection.
    pub fn shown(&self, log: &Log, resource: ResourceId) -> ResourceVersion {
        let noticed = self.noticed_of.get(&resource).copied().unwrap_or(self.noticed).max(self.noticed);
        log.newest(resource, noticed, self.applied).unwrap_or(noticed)
    }

    /// The lowest revision after which its watch history of a collection is complete, when it keeps `capacity`
    /// events of each.
    pub fn floor(&self, log: &Log, resource: ResourceId, capacity: usize) -> ResourceVersion {
        let raised = self.floors.get(&resource).copied().unwrap_or(ResourceVersion::ZERO);
        let base = self.started.max(raised).max(log.first_kept());
        let overwritten = log.events(resource, base, self.applied).rev().nth(capacity);
        overwritten.map_or(base, |event| event.rv)
    }

    /// The number that a stream opened now belongs to; another one later means that it has ended.
    pub fn epoch_of(&self, resource: ResourceId) -> u64 {
        self.epoch + self.ends.get(&resource).copied().unwrap_or(0)
    }

    /// How the streams ended that ended last.
    pub fn last_end(&self) -> StreamEnd {
        self.last_end
    }

    /// Whether its watches pass over the event of a revision, as a lost one.
    pub fn has_lost(&self, rv: ResourceVersion) -> bool {
        self.lost.contains(&rv)
    }

    /// Reads on in the log as far as its pace allows; never back.
    pub(crate) fn follow(&mut self, log: &Log) {
        let to = match self.pace {
            Pace::Current => log.head(),
            Pace::Behind(revisions) => ResourceVersion::new(log.head().get().saturating_sub(revisions)),
            Pace::Held => self.applied,
        };
        self.applied = self.applied.max(to);
    }

    /// Takes another pace.
    pub(crate) fn set_pace(&mut self, pace: Pace, log: &Log) {
        self.pace = pace;
        self.follow(log);
    }

    /// A progress notice for one collection: somebody asked for a fresh read of it.
    pub(crate) fn notice(&mut self, resource: ResourceId) {
        self.noticed_of.insert(resource, self.applied);
    }

    /// A progress notice for all collections, as etcd sends from time to time.
    pub(crate) fn notice_all(&mut self) {
        self.noticed = self.applied;
        self.noticed_of.clear();
    }

    /// Ends every stream that is open.
    pub(crate) fn end_streams(&mut self, how: StreamEnd) {
        self.epoch += 1;
        self.last_end = how;
    }

    /// Ends every stream of a collection that is open, cleanly.
    pub(crate) fn end_streams_of(&mut self, resource: ResourceId) {
        self.last_end = StreamEnd::Clean;
        *self.ends.entry(resource).or_default() += 1;
    }

    /// Forgets the watch history of a collection.
    pub(crate) fn forget_history(&mut self, resource: ResourceId) {
        self.floors.insert(resource, self.applied);
    }

    /// Plants the loss of one event in all its watches.
    pub(crate) fn lose(&mut self, rv: ResourceVersion) {
        self.lost.insert(rv);
    }

    /// Starts anew at the present of the log: all streams break, all history is gone.
    pub(crate) fn restart(&mut self, log: &Log) {
        let (pace, epoch) = (self.pace, self.epoch + 1);
        let (ends, last_end) = (std::mem::take(&mut self.ends), StreamEnd::Broken);
        *self = Self { pace, epoch, ends, last_end, ..Self::starting_on(log) };
    }
}
