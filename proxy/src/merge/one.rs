//! One open interest: its ranges, and the events that wait until every range has come as far. A range that hangs holds back
//! the others' events, never their positions.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::ResourceVersion;
use weir_core::interest::Interest;
use weir_core::message::{InterestEvent, OpenId};

use super::ShardIndex;
use super::nodes::Nodes;
use super::range::Range;

/// One open interest.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) interest: Arc<Interest>,
    pub(super) ranges: BTreeMap<ShardIndex, Range>,
    /// Events that wait for the other ranges.
    pub(super) buffer: BTreeMap<ResourceVersion, Buffered>,
    pub(super) released: ResourceVersion,
}

/// An event that waits for the other ranges.
#[derive(Debug)]
pub(super) struct Buffered {
    pub(super) shard: ShardIndex,
    /// The registration whose credit it used; none if it came from the log.
    pub(super) sent_by: Option<OpenId>,
    pub(super) event: InterestEvent,
}

// === impl Merge ===

impl Merge {
    pub(super) fn frontier(&self, nodes: &Nodes) -> ResourceVersion {
        let of_ranges = self.ranges.values().map(|range| range.position(nodes.said(range.node())));
        // Without a range there is nothing to wait for, and nothing that could be promised either.
        of_ranges.min().unwrap_or(self.released)
    }

    /// Takes the events up to `frontier` out of the buffer.
    pub(super) fn release(&mut self, frontier: ResourceVersion) -> Vec<InterestEvent> {
        let rest = self.buffer.split_off(&frontier.next());
        let ready = std::mem::replace(&mut self.buffer, rest);
        for one in ready.values() {
            if let Some(range) = self.ranges.get_mut(&one.shard) {
                range.on_released(one.sent_by);
            }
        }
        let events: Vec<InterestEvent> = ready.into_values().map(|one| one.event).collect();
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            debug_assert!(self.released < first.rv, "released twice or out of order");
            self.released = last.rv;
        }
        events
    }
}
