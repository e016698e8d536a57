//! The invariants of the merges, written out: counts equal what is there, bounds hold, nothing waits that could be released.
//! Costs a walk over everything, so it is for tests and for looking into a running process.

use super::range::Range;
use super::{Merges, NodeIndex};

// === impl Merges ===

impl Merges {
    /// How many events wait in the buffers of the ranges that follow a node.
    pub fn buffered(&self, node: NodeIndex) -> usize {
        let ranges = self.merges.values().flat_map(|merge| merge.ranges.values());
        ranges.filter(|range| range.node() == Some(node)).map(Range::buffered).sum()
    }

    /// Panics if counts are wrong or a bound is broken; `chunk` is the most events that one answer of a log may hold. For
    /// tests, and for looking into a running process.
    pub fn check(&self, chunk: usize) {
        for (id, merge) in &self.merges {
            let frontier = merge.frontier(&self.nodes);
            assert!(merge.buffer.keys().all(|rv| *rv > frontier), "what can be released is released");
            assert_eq!(self.waiting.contains(id), !merge.buffer.is_empty(), "who waits");
            for (shard, range) in &merge.ranges {
                let buffered = merge.buffer.values().filter(|one| one.shard == *shard).count();
                assert_eq!(range.buffered(), buffered, "events of a range");
                let held = buffered + range.waiting();
                assert!(held <= 2 * self.credit.0 as usize + chunk, "a range holds {held} events");
                assert!(range.node().is_some() || self.homeless.contains(id), "who follows nobody is known");
                let registered =
                    range.node().zip(range.registration()).map(|(node, open)| self.range_of(node, open));
                assert!(
                    registered.is_none_or(|found| found == Some((*id, *shard))),
                    "registrations are known"
                );
            }
        }
        let known: usize = self.nodes.iter().map(|(_, node)| node.registrations.len()).sum();
        let ranges = self.merges.values().flat_map(|merge| merge.ranges.values());
        assert_eq!(
            known,
            ranges.filter(|range| range.registration().is_some()).count(),
            "no registration is left over"
        );
    }
}
