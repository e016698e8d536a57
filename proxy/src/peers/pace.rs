//! Which node hangs: one that says nothing while the others go on. Every node says something several times a second, so its
//! silence is counted in steps in which nearly all others were heard, and not in seconds: on a machine that is merely slow
//! all are heard less, such steps are rare, and nobody is left.

use std::collections::BTreeMap;

use weir_daemon::members::others_went_on;

/// Steps of silence, in each of which the others went on, after which a node is left.
const MAX_SILENT: u32 = 4;

/// What was heard of each node so far.
#[derive(Debug, Default)]
pub struct Pace {
    nodes: BTreeMap<usize, Heard>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Heard {
    beats: u64,
    silent: u32,
}

// === impl Pace ===

impl Pace {
    /// One step: how often each node that has a session was heard in all. The nodes that hang.
    pub fn step(&mut self, beats: impl IntoIterator<Item = (usize, u64)>) -> Vec<usize> {
        let beats: BTreeMap<usize, u64> = beats.into_iter().collect();
        self.nodes.retain(|node, _| beats.contains_key(node));
        let was_heard =
            |node: &usize, count: &u64| self.nodes.get(node).is_none_or(|before| before.beats != *count);
        let heard = beats.iter().filter(|(node, count)| was_heard(node, count)).count();
        let mut hanging = Vec::new();
        for (node, count) in &beats {
            let is_new = !self.nodes.contains_key(node);
            let before = self.nodes.entry(*node).or_default();
            if is_new || before.beats != *count {
                *before = Heard { beats: *count, silent: 0 };
            } else if others_went_on(heard, beats.len() - 1) {
                before.silent += 1;
                if before.silent >= MAX_SILENT {
                    hanging.push(*node);
                }
            }
        }
        hanging
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_silent_while_the_others_are_heard_is_left_after_some_steps() {
        let mut pace = Pace::default();
        for step in 0..20 {
            let hanging = pace.step([(0, step), (1, step.min(5)), (2, step)]);
            let expected = step >= 5 + u64::from(MAX_SILENT);
            assert_eq!(hanging.contains(&1), expected, "step {step}");
            assert!(!hanging.contains(&0) && !hanging.contains(&2));
        }
    }

    #[test]
    fn when_nobody_is_heard_nobody_hangs() {
        let mut pace = Pace::default();
        for _ in 0..50 {
            assert!(pace.step([(0, 7), (1, 7), (2, 7)]).is_empty());
        }
        assert!(pace.step([(0, 8), (1, 7), (2, 7)]).is_empty(), "one of two others is too few");
    }

    #[test]
    fn a_node_alone_is_never_left_and_a_new_one_has_its_time() {
        let mut pace = Pace::default();
        for _ in 0..50 {
            assert!(pace.step([(0, 7)]).is_empty());
        }
        for step in 0..u64::from(MAX_SILENT) {
            assert!(pace.step([(0, 8 + step), (1, 0)]).is_empty(), "step {step}");
        }
        assert_eq!(pace.step([(0, 100), (1, 0)]), [1]);
    }
}
