//! Watches: where a stream starts, what it carries, when it ends.
//!
//! A watch is a position in the log, not a queue: whoever polls it reads on from there. Its end without a word is
//! upstream's way too (a timeout, a restart, a history that was overwritten); only a bad start is an ERROR event.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_core::{ResourceVersion, Status};

use crate::catalog::ResourceId;
use crate::instance::StreamEnd;
use crate::log::{EventType, LogEvent};
use crate::object::Object;
use crate::read::{ListVersion, Patience, Reader, Step};
use crate::refusal::{self, TooOld};
use crate::selection::Selection;

/// Where a watch starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFrom {
    /// With the events after a revision.
    After(ResourceVersion),
    /// With the state as ADDED events, then what follows it.
    Initial(ListVersion),
    /// With what follows the state, without showing it.
    Now(ListVersion),
}

/// Which bookmarks a watch carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bookmarks {
    /// None.
    None,
    /// Plain ones.
    Plain,
    /// Plain ones, and one that marks the end of the initial state.
    WithEndMark,
}

/// One watch request.
#[derive(Debug, Clone)]
pub struct WatchQuery {
    /// The collection.
    pub resource: ResourceId,
    /// One namespace of it, or all.
    pub namespace: Option<String>,
    /// What is wanted of it.
    pub selection: Selection,
    /// Where it starts.
    pub from: WatchFrom,
    /// Which bookmarks it carries.
    pub bookmarks: Bookmarks,
}

/// One thing that a watch says.
#[derive(Debug, Clone)]
pub enum WatchItem {
    /// An object that came, changed or left, as this watch sees it.
    Change {
        /// ADDED, MODIFIED or DELETED.
        event: EventType,
        /// The object to show.
        object: Arc<Object>,
    },
    /// A promise that everything up to a revision was said.
    Bookmark {
        /// That revision.
        rv: ResourceVersion,
        /// Whether it marks the end of the initial state.
        marks_end: EndMark,
    },
}

/// Whether a bookmark carries the annotation of the end of the initial state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndMark {
    /// It does.
    Initial,
    /// It does not.
    No,
}

/// What follows a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// More is there.
    More,
    /// Nothing until the instance reads on.
    Idle,
    /// The stream has ended, cleanly.
    Ended,
    /// The stream has ended with its connection.
    Broken,
}

/// A running watch on one instance.
#[derive(Debug, Clone)]
pub struct Watch {
    query: WatchQuery,
    epoch: u64,
    position: ResourceVersion,
    baseline: ResourceVersion,
    initial: VecDeque<Arc<Object>>,
    end_mark: Option<ResourceVersion>,
}

// === impl Watch ===

impl Watch {
    /// The request that it answers.
    pub fn query(&self) -> &WatchQuery {
        &self.query
    }

    /// Whether plain bookmarks may come.
    pub fn has_bookmarks(&self) -> bool {
        self.query.bookmarks != Bookmarks::None
    }

    fn sees(&self, object: &Object) -> bool {
        let in_namespace = self.query.namespace.as_deref().is_none_or(|own| own == object.key().namespace());
        in_namespace && self.query.selection.matches(object)
    }
}

// === impl Reader ===

impl Reader<'_> {
    /// Opens a watch. `capacity` bounds the instance's history in events.
    ///
    /// # Errors
    /// What has to be said as the one ERROR event of the stream.
    pub(crate) fn open_watch(
        &mut self,
        query: &WatchQuery,
        capacity: usize,
        patience: Patience,
    ) -> Result<Step<Watch>, Status> {
        match query.from {
            WatchFrom::After(from) => self.resume(query, from, capacity).map(Step::Ready),
            WatchFrom::Initial(version) | WatchFrom::Now(version) => self.begin(query, version, patience),
        }
    }

    /// Reads on: at most `max` things.
    pub(crate) fn read_on(&self, watch: &mut Watch, max: usize, capacity: usize) -> (Vec<WatchItem>, Then) {
        let resource = watch.query.resource;
        if watch.epoch != self.instance.epoch_of(resource) {
            let then = match self.instance.last_end() {
                StreamEnd::Clean => Then::Ended,
                StreamEnd::Broken => Then::Broken,
            };
            return (Vec::new(), then);
        }
        if watch.position < self.floor(resource, capacity) {
            return (Vec::new(), Then::Ended);
        }
        let mut items = self.initial_items(watch, max);
        let to = self.reach();
        for event in self.log.events(resource, watch.position, to) {
            if items.len() >= max {
                return (items, Then::More);
            }
            watch.position = event.rv;
            if !self.instance.has_lost(event.rv) {
                items.extend(self.shown_to(watch, event));
            }
        }
        if items.len() >= max && !watch.initial.is_empty() {
            return (items, Then::More);
        }
        watch.position = watch.position.max(to);
        (items, Then::Idle)
    }

    /// The bookmark that is due now, if its revision is past where the watch began.
    pub(crate) fn bookmark(&self, watch: &Watch) -> Option<WatchItem> {
        let resource = watch.query.resource;
        let rv = self.instance.shown(self.log, resource);
        let is_complete = self.log.newest(resource, watch.position, rv).is_none();
        let is_due = self.info.is_cached() && is_complete && watch.initial.is_empty() && rv > watch.baseline;
        is_due.then_some(WatchItem::Bookmark { rv, marks_end: EndMark::No })
    }

    fn resume(&self, query: &WatchQuery, from: ResourceVersion, capacity: usize) -> Result<Watch, Status> {
        let lowest = self.floor(query.resource, capacity);
        if from < lowest {
            let is_cached = self.info.is_cached();
            let too_old = if is_cached { TooOld::Watch { from, lowest } } else { TooOld::UncachedWatch };
            return Err(refusal::expired(too_old));
        }
        let replayed = self.log.newest(query.resource, from, self.reach());
        Ok(self.watch(query, from, replayed.unwrap_or(from)))
    }

    fn begin(
        &mut self,
        query: &WatchQuery,
        version: ListVersion,
        patience: Patience,
    ) -> Result<Step<Watch>, Status> {
        let needs = match version {
            ListVersion::NotOlderThan(rv) | ListVersion::Consistent(rv) => rv,
            ListVersion::Any | ListVersion::Exact(_) | ListVersion::Token { .. } | ListVersion::Direct => {
                ResourceVersion::ZERO
            }
        };
        if self.info.is_cached() {
            self.catch_up(query.resource, version);
        }
        let at = if self.info.is_cached() {
            self.instance.shown(self.log, query.resource)
        } else {
            self.log.head()
        };
        if at < needs {
            return match patience {
                Patience::Waits if self.info.is_cached() => Ok(Step::Wait(needs)),
                Patience::Waits | Patience::Exhausted => Err(refusal::too_new(needs, at, 1)),
            };
        }
        let mut watch = self.watch(query, at, at);
        if matches!(query.from, WatchFrom::Initial(_)) {
            let prefix = query.namespace.as_ref().map_or_else(String::new, |own| format!("{own}/"));
            let state = self.log.scan(query.resource, (&prefix, &prefix), at);
            watch.initial = state.filter(|object| query.selection.matches(object)).map(Arc::clone).collect();
            watch.end_mark = (query.bookmarks == Bookmarks::WithEndMark).then_some(at);
        }
        Ok(Step::Ready(watch))
    }

    fn watch(&self, query: &WatchQuery, position: ResourceVersion, baseline: ResourceVersion) -> Watch {
        Watch {
            query: query.clone(),
            epoch: self.instance.epoch_of(query.resource),
            position,
            baseline,
            initial: VecDeque::new(),
            end_mark: None,
        }
    }

    fn initial_items(&self, watch: &mut Watch, max: usize) -> Vec<WatchItem> {
        let count = watch.initial.len().min(max);
        let added = |object| WatchItem::Change { event: EventType::Added, object };
        let mut items: Vec<_> = watch.initial.drain(..count).map(added).collect();
        if watch.initial.is_empty()
            && let Some(rv) = watch.end_mark.take()
        {
            items.push(WatchItem::Bookmark { rv, marks_end: EndMark::Initial });
        }
        items
    }

    /// What an event is to a watch: an object that starts to match was added, one that stops to match deleted.
    fn shown_to(&self, watch: &Watch, event: &LogEvent) -> Option<WatchItem> {
        let matched = event.previous.as_ref().filter(|previous| watch.sees(previous));
        let matches = event.event != EventType::Deleted && watch.sees(&event.object);
        let (event, object) = match (matched, matches) {
            (None, false) => return None,
            (None, true) => (EventType::Added, Arc::clone(&event.object)),
            (Some(_), true) => (EventType::Modified, Arc::clone(&event.object)),
            (Some(_), false) if event.event == EventType::Deleted => {
                (EventType::Deleted, Arc::clone(&event.object))
            }
            (Some(previous), false) => (EventType::Deleted, Arc::new(previous.at(self.info, event.rv))),
        };
        Some(WatchItem::Change { event, object })
    }

    fn reach(&self) -> ResourceVersion {
        if self.info.is_cached() { self.instance.applied() } else { self.log.head() }
    }

    fn floor(&self, resource: ResourceId, capacity: usize) -> ResourceVersion {
        if self.info.is_cached() {
            self.instance.floor(self.log, resource, capacity)
        } else {
            self.log.compacted().max(self.log.first_kept())
        }
    }
}
