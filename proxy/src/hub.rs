//! The hub of one interest: its merged, short log, from which all its clients read by position. A client is a cursor, never
//! a queue: a slow one costs nothing here and finds its place again by number.
//!
//! The hub begins where the interest was opened. A client older than its floor reads the shards' logs until it has come
//! to the floor; reading on from the floor itself would lose what lies between.

pub mod fanout;
pub mod follow;
pub mod lag;
pub mod lease;
pub mod pace;

use std::collections::VecDeque;

use weir_core::ResourceVersion;
use weir_core::message::InterestEvent;

use crate::merge::End;

/// How much a hub keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubBounds {
    /// At most this many events.
    pub max_events: usize,
    /// At most this many bytes of objects, most of which the stores hold anyway.
    pub max_bytes: usize,
}

/// The merged log of one interest.
#[derive(Debug)]
pub struct Hub {
    bounds: HubBounds,
    floor: ResourceVersion,
    events: VecDeque<InterestEvent>,
    bytes: usize,
    end: Option<End>,
}

/// What a cursor finds.
#[derive(Clone, Debug)]
pub enum Read {
    /// The next events; the cursor moves to the last of them.
    Events(Vec<InterestEvent>),
    /// Nothing yet.
    Nothing,
    /// The hub begins after the cursor: read the shards' logs up to here first.
    Behind(ResourceVersion),
    /// The interest has ended, and the cursor has read all that there was.
    Ended(End),
}

// === impl HubBounds ===

impl Default for HubBounds {
    /// 4,096 events, or 8 MiB: some seconds of a busy collection, so that a client that is a little slow needs no log.
    fn default() -> Self {
        Self { max_events: 4_096, max_bytes: 8 << 20 }
    }
}

// === impl Hub ===

impl Hub {
    /// A hub that begins after `floor`.
    pub fn new(floor: ResourceVersion, bounds: HubBounds) -> Self {
        Self { bounds, floor, events: VecDeque::new(), bytes: 0, end: None }
    }

    /// The lowest position from which the hub is complete.
    pub fn floor(&self) -> ResourceVersion {
        self.floor
    }

    /// The bytes of its objects.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds released events; the oldest go when a bound is reached.
    pub fn push(&mut self, events: Vec<InterestEvent>) {
        for event in events {
            self.bytes += event.object.bytes().len();
            self.events.push_back(event);
        }
        while self.events.len() > self.bounds.max_events || self.bytes > self.bounds.max_bytes {
            let Some(event) = self.events.pop_front() else { break };
            self.bytes -= event.object.bytes().len();
            self.floor = event.rv;
        }
    }

    /// Ends the hub. Nothing is added afterwards.
    pub fn end(&mut self, end: End) {
        self.end = Some(end);
    }

    /// At most `max` events after the cursor.
    pub fn read(&self, cursor: ResourceVersion, max: usize) -> Read {
        if cursor < self.floor {
            return self.end.map_or(Read::Behind(self.floor), Read::Ended);
        }
        let first = self.events.partition_point(|event| event.rv <= cursor);
        if first == self.events.len() {
            return self.end.map_or(Read::Nothing, Read::Ended);
        }
        Read::Events(self.events.range(first..).take(max).cloned().collect())
    }
}

#[cfg(test)]
pub(crate) mod tests;
