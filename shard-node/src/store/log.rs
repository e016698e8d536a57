//! The ring of recent changes. An entry keeps the replaced version alive, so that exact snapshots and selector
//! transitions inside the window can be answered; both leave memory together.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use weir_core::interest::Interest;
use weir_core::message::{Change, ChangeKind, EventKind, InterestEvent, LogRequest, Unanswered};
use weir_core::statement::Statement;
use weir_core::{Object, ResourceVersion, WindowBounds};

use super::{Now, Store};

/// Entries looked at under one hold of the lock. 2,000 × 0.12 µs of matching (docs/performance.md) is a
/// quarter of a millisecond.
const MAX_SCANNED: usize = 2_000;

/// One change with what it replaced.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) previous: Option<Arc<Object>>,
    pub(super) change: Change,
    pub(super) at: Now,
}

/// The recent changes, oldest first.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    bytes: usize,
}

// === impl Log ===

impl Log {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    /// Takes out the oldest entry if a bound says so.
    pub(super) fn pop_beyond(&mut self, bounds: &WindowBounds, live_bytes: usize, now: Now) -> Option<Entry> {
        let age = now.saturating_sub(self.entries.front()?.at);
        let max_bytes = (live_bytes / 100 * bounds.max_percent_of_live).max(bounds.free_bytes);
        let is_over = self.entries.len() > bounds.max_events || self.bytes > max_bytes;
        if age <= bounds.max_age && !(is_over && age >= bounds.min_age) {
            return None;
        }
        self.pop()
    }

    /// Takes out the oldest entry if it is of this age.
    pub(super) fn pop_older(&mut self, age: Duration, now: Now) -> Option<Entry> {
        if now.saturating_sub(self.entries.front()?.at) < age {
            return None;
        }
        self.pop()
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.bytes();
        if self.entries.capacity() > 4 * self.entries.len() + 64 {
            self.entries.shrink_to(2 * self.entries.len());
        }
        Some(entry)
    }

    /// The position of the oldest entry.
    pub(super) fn lowest(&self) -> Option<ResourceVersion> {
        self.entries.front().map(|entry| entry.change.rv)
    }

    /// Panics if the entries do not rise inside (floor, frontier], or do not add up.
    pub(super) fn check_invariants(&self, floor: ResourceVersion, frontier: ResourceVersion) {
        let mut last = floor;
        for entry in &self.entries {
            assert!(
                last < entry.change.rv && entry.change.rv <= frontier,
                "the log rises from floor to frontier"
            );
            last = entry.change.rv;
        }
        assert_eq!(self.bytes, self.entries.iter().map(Entry::bytes).sum::<usize>(), "bytes of the log");
    }

    /// The entries after `after`.
    fn after(&self, after: ResourceVersion) -> impl Iterator<Item = &Entry> {
        let first = self.entries.partition_point(|entry| entry.change.rv <= after);
        self.entries.range(first..)
    }
}

// === impl Entry ===

impl Entry {
    /// What leaves memory with the entry.
    fn bytes(&self) -> usize {
        let deleted = match self.change.kind {
            ChangeKind::Delete => self.change.object.size(),
            ChangeKind::Put => 0,
        };
        size_of::<Self>() + deleted + self.previous.as_ref().map_or(0, |object| object.size())
    }
}

// === impl Store ===

impl Store {
    /// The events of an interest in (after, to], or the first part of them. The statement's end says how far it goes; it
    /// never goes beyond the frontier.
    pub fn log(&self, request: &LogRequest) -> Result<Statement<InterestEvent>, Unanswered> {
        let held = self.held_at(request.history, &request.slots)?;
        let window = held.window();
        if request.after < window.floor {
            return Err(Unanswered::TooOld { floor: window.floor });
        }
        if request.after > window.frontier {
            return Err(Unanswered::NotReached { frontier: window.frontier });
        }
        let mut to = request.to.min(window.frontier).max(request.after);
        let mut events = Vec::new();
        let mut reached = request.after;
        for (scanned, entry) in held.log.after(request.after).enumerate() {
            if entry.change.rv > to {
                break;
            }
            if scanned == MAX_SCANNED {
                to = reached;
                break;
            }
            reached = entry.change.rv;
            if request.slots.contains(entry.change.object.slot()) {
                events.extend(seen_by(&request.interest, entry.previous.as_ref(), &entry.change));
            }
        }
        Ok(Statement::new(held.source, request.after, to, events).expect("the log rises strictly"))
    }
}

/// The event as an interest sees it.
pub(crate) fn seen_by(
    interest: &Interest,
    previous: Option<&Arc<Object>>,
    change: &Change,
) -> Option<InterestEvent> {
    let current = match change.kind {
        ChangeKind::Put => Some(&*change.object),
        ChangeKind::Delete => None,
    };
    let kind = interest.event_kind(previous.map(|object| &**object), current)?;
    let object = match kind {
        EventKind::Added | EventKind::Modified => change.object.clone(),
        EventKind::Deleted => gone(previous?, change),
    };
    Some(InterestEvent { rv: change.rv, kind, object })
}

/// What those see who lose the object: upstream's own last content if it was deleted, else the previous version carrying
/// the event's resourceVersion.
pub(crate) fn gone(previous: &Arc<Object>, change: &Change) -> Arc<Object> {
    match change.kind {
        ChangeKind::Delete => change.object.clone(),
        ChangeKind::Put => Arc::new(previous.with_rv(change.rv)),
    }
}
