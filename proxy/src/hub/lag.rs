//! Which node lags: one that did not come to where a replica of its shard was, while that replica went on and on. Judged by
//! steps in which the replica went on, and not by a clock: where nothing happens, or everything is slow, nobody lags.

use std::collections::BTreeMap;

use weir_core::ResourceVersion;

use crate::merge::NodeIndex;

/// Steps in which a replica went on without the node, after which the node is left.
const MAX_STEPS: u32 = 10;

/// Nodes that have been behind, and for how long.
#[derive(Debug, Default)]
pub struct Lag(BTreeMap<NodeIndex, Behind>);

/// A node that is behind a replica.
#[derive(Clone, Copy, Debug)]
struct Behind {
    /// Where the replica was when it began.
    of: ResourceVersion,
    /// Where the replica was last.
    seen: ResourceVersion,
    steps: u32,
}

// === impl Lag ===

impl Lag {
    /// One step: the nodes that are followed, with how far each has come and how far the furthest replica of its shard. The
    /// nodes to leave.
    pub fn step(&mut self, followed: Vec<(NodeIndex, ResourceVersion, ResourceVersion)>) -> Vec<NodeIndex> {
        self.0.retain(|node, _| followed.iter().any(|(followed, ..)| followed == node));
        let mut left = Vec::new();
        for (node, said, furthest) in followed {
            let behind = self.0.entry(node).or_insert(Behind { of: furthest, seen: furthest, steps: 0 });
            if said >= behind.of {
                *behind = Behind { of: furthest, seen: furthest, steps: 0 };
                continue;
            }
            if furthest > behind.seen {
                behind.seen = furthest;
                behind.steps += 1;
            }
            if behind.steps >= MAX_STEPS {
                left.push(node);
            }
        }
        self.0.retain(|node, _| !left.contains(node));
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rv(number: u64) -> ResourceVersion {
        ResourceVersion::new(number)
    }

    #[test]
    fn a_node_that_stands_still_while_a_replica_goes_on_is_left() {
        let mut lag = Lag::default();
        let left = (1..40).map(|at| (at, lag.step(vec![(NodeIndex(0), rv(at.min(5)), rv(at))])));
        let first = left.filter(|(_, left)| !left.is_empty()).map(|(at, _)| at).next();
        assert_eq!(first, Some(5 + 1 + u64::from(MAX_STEPS)));
    }

    #[test]
    fn a_node_that_is_always_a_little_behind_is_kept() {
        let mut lag = Lag::default();
        for at in 10..500 {
            assert!(lag.step(vec![(NodeIndex(0), rv(at - 7), rv(at))]).is_empty(), "{at}");
        }
    }

    #[test]
    fn nobody_lags_where_nothing_happens() {
        let mut lag = Lag::default();
        for _ in 0..500 {
            assert!(lag.step(vec![(NodeIndex(0), rv(3), rv(9))]).is_empty());
        }
    }
}
