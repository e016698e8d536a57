//! The one log under all instances: what etcd is to real ones. Every state of every object since the last compaction,
//! and every event in order.
//!
//! One revision counter serves all resources, so a collection's revisions have gaps. A compaction removes only what no
//! instance still has to read, whatever revision it names: instances that lag keep what they hold.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use weir_core::ResourceVersion;

use crate::catalog::ResourceId;
use crate::object::{Object, StoreKey};

/// One life of the log: restoring a backup starts the next. Revisions of two histories are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct History(pub u32);

/// What an event did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventType {
    /// The object came into being.
    Added,
    /// It was changed.
    Modified,
    /// It was deleted.
    Deleted,
}

/// One change, as it stands in the log.
#[derive(Debug, Clone)]
pub struct LogEvent {
    /// The life of the log that it belongs to.
    pub history: History,
    /// Its revision.
    pub rv: ResourceVersion,
    /// The collection.
    pub resource: ResourceId,
    /// What happened.
    pub event: EventType,
    /// The new object; for a deletion the last one, under the revision of the deletion.
    pub object: Arc<Object>,
    /// What it replaced.
    pub previous: Option<Arc<Object>>,
}

/// The state of all collections over time.
#[derive(Debug, Clone)]
pub struct Log {
    history: History,
    head: ResourceVersion,
    compacted: ResourceVersion,
    dropped: ResourceVersion,
    tables: Vec<Table>,
}

/// One collection over time.
#[derive(Debug, Clone, Default)]
struct Table {
    versions: BTreeMap<StoreKey, Vec<Version>>,
    events: VecDeque<Arc<LogEvent>>,
}

#[derive(Debug, Clone)]
struct Version {
    rv: ResourceVersion,
    object: Option<Arc<Object>>,
}

// === impl LogEvent ===

impl LogEvent {
    /// The key of the object it is about.
    pub fn key(&self) -> &StoreKey {
        self.object.key()
    }

    /// The uid of the object it is about.
    pub fn uid(&self) -> &str {
        self.object.uid()
    }
}

// === impl Log ===

impl Log {
    /// An empty log that stands at a revision.
    pub fn starting_at(head: ResourceVersion) -> Self {
        let (compacted, dropped) = (ResourceVersion::ZERO, ResourceVersion::ZERO);
        Self { history: History(0), head, compacted, dropped, tables: Vec::new() }
    }

    /// The life it is in.
    pub fn history(&self) -> History {
        self.history
    }

    /// Its newest revision.
    pub fn head(&self) -> ResourceVersion {
        self.head
    }

    /// The lowest revision that may still be read exactly.
    pub fn compacted(&self) -> ResourceVersion {
        self.compacted
    }

    /// The object of a key as it was at a revision.
    pub fn get(&self, resource: ResourceId, key: &StoreKey, at: ResourceVersion) -> Option<&Arc<Object>> {
        self.table(resource)?.versions.get(key).and_then(|versions| Version::of(versions, at))
    }

    /// The objects whose key begins with a prefix and is at or past a start, as they were at a revision, in the
    /// order of keys.
    pub fn scan<'a>(
        &'a self,
        resource: ResourceId,
        (prefix, from): (&'a str, &'a str),
        at: ResourceVersion,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let range = (Bound::Included(from.max(prefix)), Bound::Unbounded);
        self.table(resource)
            .into_iter()
            .flat_map(move |table| table.versions.range::<str, _>(range))
            .take_while(move |(key, _)| key.as_str().starts_with(prefix))
            .filter_map(move |(_, versions)| Version::of(versions, at))
    }

    /// The events of a collection in `(after, to]`, in order.
    pub fn events(
        &self,
        resource: ResourceId,
        after: ResourceVersion,
        to: ResourceVersion,
    ) -> impl DoubleEndedIterator<Item = &Arc<LogEvent>> {
        let events = self.table(resource).map(|table| &table.events);
        let bound = |rv| events.map_or(0, |events| events.partition_point(|event| event.rv <= rv));
        let (first, last) = (bound(after), bound(to.max(after)));
        events.into_iter().flat_map(move |events| events.range(first..last))
    }

    /// The revision of the newest event of a collection in `(after, to]`.
    pub fn newest(
        &self,
        resource: ResourceId,
        after: ResourceVersion,
        to: ResourceVersion,
    ) -> Option<ResourceVersion> {
        self.events(resource, after, to).next_back().map(|event| event.rv)
    }

    /// The lowest revision after which all events are still kept.
    pub fn first_kept(&self) -> ResourceVersion {
        self.dropped
    }

    /// Writes one change at the next revision, which the object must carry, and hands back its event.
    pub fn append(&mut self, resource: ResourceId, event: EventType, object: Object) -> Arc<LogEvent> {
        let rv = self.head.next();
        debug_assert_eq!(object.rv(), rv, "an object is written under its own revision");
        let (history, object) = (self.history, Arc::new(object));
        let table = self.table_mut(resource);
        let versions = table.versions.entry(object.key().clone()).or_default();
        let previous = versions.last().and_then(|version| version.object.clone());
        let current = (event != EventType::Deleted).then(|| Arc::clone(&object));
        versions.push(Version { rv, object: current });
        let event = Arc::new(LogEvent { history, rv, resource, event, object, previous });
        table.events.push_back(Arc::clone(&event));
        self.head = rv;
        event
    }

    /// Makes revisions below `at` unreadable. What `needed` and later states need stays.
    pub fn compact(&mut self, at: ResourceVersion, needed: ResourceVersion) {
        self.compacted = self.compacted.max(at.min(self.head));
        let keep_from = self.compacted.min(needed);
        for table in &mut self.tables {
            table.versions.retain(|_, versions| Version::forget(versions, keep_from));
        }
    }

    /// Drops events at or below a revision. A watch from before can no longer be answered by anyone.
    pub fn drop_events(&mut self, up_to: ResourceVersion) {
        self.dropped = self.dropped.max(up_to.min(self.head));
        for table in &mut self.tables {
            let count = table.events.partition_point(|event| event.rv <= up_to);
            table.events.drain(..count);
        }
    }

    /// Continues from an older copy of itself, as another history.
    pub fn restore(&mut self, backup: &Self) {
        let history = History(self.history.0 + 1);
        *self = Self { history, ..backup.clone() };
    }

    /// Replaces every kept state of a collection's objects by what `change` makes of it; revisions stay.
    pub fn rewrite(&mut self, resource: ResourceId, change: impl Fn(&Object) -> Option<Object>) {
        let versions = self.table_mut(resource).versions.values_mut().flatten();
        for object in versions.filter_map(|version| version.object.as_mut()) {
            if let Some(changed) = change(object) {
                *object = Arc::new(changed);
            }
        }
    }

    fn table(&self, resource: ResourceId) -> Option<&Table> {
        self.tables.get(resource.0)
    }

    fn table_mut(&mut self, resource: ResourceId) -> &mut Table {
        if self.tables.len() <= resource.0 {
            self.tables.resize_with(resource.0 + 1, Table::default);
        }
        &mut self.tables[resource.0]
    }
}

// === impl Version ===

impl Version {
    fn of(versions: &[Self], at: ResourceVersion) -> Option<&Arc<Object>> {
        let count = versions.partition_point(|version| version.rv <= at);
        versions[..count].last()?.object.as_ref()
    }

    /// Drops what no read at or past a revision sees; false if nothing is left.
    fn forget(versions: &mut Vec<Self>, keep_from: ResourceVersion) -> bool {
        let count = versions.partition_point(|version| version.rv <= keep_from);
        versions.drain(..count.saturating_sub(1));
        let is_gone = |version: &Self| version.rv <= keep_from && version.object.is_none();
        !(versions.len() == 1 && is_gone(&versions[0]))
    }
}
