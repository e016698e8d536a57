//! Which nodes hang, and how far they are, judged round by round. Time alone judges nobody: a node hangs when it leaves a
//! question unanswered while others go on answering theirs. Only where there is no other, this node's own rounds count.

use std::collections::HashMap;

use weir_core::{GroupVersionResource, History, ResourceVersion};
use weir_daemon::members::{NodeAddress, others_went_on};
use weir_proto::read::MirrorWindow;

/// Rounds in which nearly all others answered while a node did not: 1 s after the one that asked it.
const OTHERS_WENT_ON: u32 = 3;
/// Rounds of this node alone: 5 s.
const ALONE: u32 = 14;

/// What is known of the other nodes.
#[derive(Debug, Default)]
pub(super) struct Pulse(HashMap<NodeAddress, Seen>);

/// What is known of one.
#[derive(Debug, Default)]
struct Seen {
    windows: Vec<MirrorWindow>,
    is_asked: bool,
    /// Whether it has answered since the last round.
    has_answered: bool,
    /// Rounds since it was asked, and those of them in which nearly all others answered.
    rounds: u32,
    rounds_of_others: u32,
    is_down: bool,
}

// === impl Pulse ===

impl Pulse {
    /// Begins a round among these nodes. Returns whom to ask.
    pub(super) fn round(&mut self, nodes: &[NodeAddress]) -> Vec<NodeAddress> {
        self.0.retain(|address, _| nodes.contains(address));
        for address in nodes {
            self.0.entry(address.clone()).or_default();
        }
        let (up, answered) = self.up_and_answered();
        let mut due = Vec::new();
        for address in nodes {
            let Some(seen) = self.0.get_mut(address) else { continue };
            let others = up - usize::from(!seen.is_down);
            let others_answered = answered - usize::from(std::mem::take(&mut seen.has_answered));
            if seen.is_asked {
                seen.rounds += 1;
                seen.rounds_of_others += u32::from(others_went_on(others_answered, others));
            } else {
                seen.is_asked = true;
                due.push(address.clone());
            }
        }
        due
    }

    /// A node has answered.
    pub(super) fn on_answer(&mut self, address: &NodeAddress, windows: Vec<MirrorWindow>) {
        if let Some(seen) = self.0.get_mut(address) {
            *seen = Seen { windows, has_answered: true, ..Seen::default() };
        }
    }

    /// A node cannot be asked. True if it could be before.
    pub(super) fn on_failure(&mut self, address: &NodeAddress) -> bool {
        let Some(seen) = self.0.get_mut(address) else { return false };
        let was_up = !seen.is_down;
        *seen = Seen { is_down: true, ..Seen::default() };
        was_up
    }

    /// Whether it leaves a question unanswered while others go on.
    pub(super) fn is_hanging(&self, address: &NodeAddress) -> bool {
        let has_others = self.0.iter().any(|(other, seen)| other != address && !seen.is_down);
        self.0.get(address).is_some_and(|seen| {
            seen.rounds_of_others >= OTHERS_WENT_ON || (!has_others && seen.rounds >= ALONE)
        })
    }

    /// Whether it could not be asked the last time.
    pub(super) fn is_down(&self, address: &NodeAddress) -> bool {
        self.0.get(address).is_some_and(|seen| seen.is_down)
    }

    /// How many are not known to be down, and how many of them have answered since the last round.
    fn up_and_answered(&self) -> (usize, usize) {
        let up = self.0.values().filter(|seen| !seen.is_down);
        up.fold((0, 0), |(up, answered), seen| (up + 1, answered + usize::from(seen.has_answered)))
    }

    /// How far anybody has come, in the newest history that anybody holds.
    pub(super) fn newest(&self, mirror: &GroupVersionResource) -> Option<(History, ResourceVersion)> {
        let windows = self.0.values().flat_map(|seen| &seen.windows);
        let held = windows.filter(|one| one.mirror == *mirror);
        held.filter_map(|one| Some((one.history, one.window?.frontier))).max()
    }
}

#[cfg(test)]
mod tests {
    use weir_core::SourceId;
    use weir_core::window::Window;

    use super::*;

    fn nodes(count: u16) -> Vec<NodeAddress> {
        (1..=count).map(|port| format!("127.0.0.1:{port}").parse().unwrap()).collect()
    }

    #[test]
    fn a_node_hangs_when_the_others_go_on_without_it() {
        let (nodes, mut pulse) = (nodes(3), Pulse::default());
        for round in 0..=OTHERS_WENT_ON {
            assert!(!pulse.is_hanging(&nodes[0]), "round {round}");
            for asked in pulse.round(&nodes) {
                if asked != nodes[0] {
                    pulse.on_answer(&asked, Vec::new());
                }
            }
        }
        assert!(pulse.is_hanging(&nodes[0]));
        assert!(!pulse.is_hanging(&nodes[1]) && !pulse.is_hanging(&nodes[2]));
        pulse.on_answer(&nodes[0], Vec::new());
        assert!(!pulse.is_hanging(&nodes[0]), "it is back");
    }

    #[test]
    fn nobody_hangs_when_only_few_others_answer() {
        let (nodes, mut pulse) = (nodes(5), Pulse::default());
        for _ in 0..100 {
            for asked in pulse.round(&nodes) {
                if asked == nodes[3] || asked == nodes[4] {
                    pulse.on_answer(&asked, Vec::new());
                }
            }
        }
        assert!(nodes.iter().all(|node| !pulse.is_hanging(node)), "this machine is slow for most");
        for node in &nodes[..2] {
            pulse.on_failure(node);
        }
        for _ in 0..=OTHERS_WENT_ON {
            for asked in pulse.round(&nodes) {
                match asked == nodes[3] || asked == nodes[4] {
                    true => pulse.on_answer(&asked, Vec::new()),
                    false if asked == nodes[2] => {}
                    false => drop(pulse.on_failure(&asked)),
                }
            }
        }
        assert!(pulse.is_hanging(&nodes[2]), "those that are down count for nothing");
    }

    #[test]
    fn nobody_hangs_when_nobody_answers() {
        let (nodes, mut pulse) = (nodes(3), Pulse::default());
        for _ in 0..100 {
            pulse.round(&nodes);
        }
        assert!(nodes.iter().all(|node| !pulse.is_hanging(node)), "this machine is slow");
    }

    #[test]
    fn a_single_other_node_is_given_longer() {
        let (nodes, mut pulse) = (nodes(1), Pulse::default());
        assert_eq!(pulse.round(&nodes), nodes);
        for _ in 1..ALONE {
            assert!(pulse.round(&nodes).is_empty(), "asked once");
        }
        assert!(!pulse.is_hanging(&nodes[0]));
        pulse.round(&nodes);
        assert!(pulse.is_hanging(&nodes[0]));
    }

    #[test]
    fn the_newest_is_of_the_newest_history_and_of_those_that_are_there() {
        let (nodes, mut pulse) = (nodes(2), Pulse::default());
        let mirror = GroupVersionResource::new("", "v1", "pods");
        let window = |history, frontier| MirrorWindow {
            mirror: mirror.clone(),
            source: SourceId(1),
            window: Some(Window { floor: ResourceVersion::new(1), frontier: ResourceVersion::new(frontier) }),
            history: History::new(history),
        };
        let newest = |pulse: &Pulse| pulse.newest(&mirror).map(|(history, rv)| (history.get(), rv.get()));
        pulse.round(&nodes);
        pulse.on_answer(&nodes[0], vec![window(0, 70)]);
        assert_eq!(newest(&pulse), Some((0, 70)));
        pulse.on_answer(&nodes[1], vec![window(1, 30)]);
        assert_eq!(newest(&pulse), Some((1, 30)));
        assert!(pulse.on_failure(&nodes[1]) && !pulse.on_failure(&nodes[1]), "told once");
        assert!(pulse.is_down(&nodes[1]) && !pulse.is_down(&nodes[0]));
        assert_eq!(newest(&pulse), Some((0, 70)));
        pulse.round(&nodes[1..]);
        assert_eq!(newest(&pulse), None, "no longer named");
    }
}
