//! What must hold at a proxy whenever its merges were told something. What clients see is judged by the checker; this is about
//! what they would not notice: interests that ended for no reason, and promises that were taken back.
//!
//! An interest may end only when every replica of one of its ranges has refused the range's position. The merges do not say
//! where a range stands, but no range stands below what the interest promised, and the floor of a store only rises.

use std::collections::BTreeMap;

use weir_core::message::ToNode;
use weir_core::{History, ResourceVersion};
use weir_proxy::merge::{InterestId, Output};

use crate::proxy::{Proxy, Scene};

/// What a proxy promised.
#[derive(Debug)]
pub(crate) struct Look {
    history: History,
    frontier: ResourceVersion,
    interests: BTreeMap<InterestId, ResourceVersion>,
    moves: u64,
}

// === impl Proxy ===

impl Proxy {
    /// What is promised now.
    pub(crate) fn look(&self) -> Look {
        let promised = |id: &InterestId| Some((*id, self.merges.frontier_of(*id)?));
        Look {
            history: self.merges.history(),
            frontier: self.merges.frontier(),
            interests: self.hubs.keys().filter_map(promised).collect(),
            moves: self.merges.moves(),
        }
    }

    /// Judges what became of it.
    pub(crate) fn judge(&mut self, before: &Look, outputs: &[Output], scene: &mut Scene<'_>) {
        let now = self.look();
        scene.reached.moved += (now.moves - before.moves) as usize;
        self.count_lagging(outputs, scene);
        if now.history != before.history {
            self.judge_restore(&now, before, outputs);
            return;
        }
        assert!(
            now.frontier >= before.frontier,
            "the frontier fell from {} to {}",
            before.frontier,
            now.frontier
        );
        for (id, promised) in &now.interests {
            let earlier = before.interests.get(id);
            assert!(
                earlier.is_none_or(|earlier| promised >= earlier),
                "{id:?} fell from {earlier:?} to {promised}"
            );
            // Where it was opened is what its client said.
            if *promised > self.hubs[id].after {
                self.promised = self.promised.max(*promised);
            }
        }
        for output in outputs {
            if let Output::Ended(id, _) = output {
                self.judge_end(*id, before, scene);
            }
        }
    }

    fn judge_restore(&mut self, now: &Look, before: &Look, outputs: &[Output]) {
        assert!(now.history > before.history, "the later history counts");
        for output in outputs {
            if let Output::Restored(highest) = output {
                let promised = self.promised;
                assert!(
                    *highest >= promised,
                    "{promised} was promised, and may be resumed: only {highest} may not"
                );
            }
        }
        self.promised = ResourceVersion::ZERO;
    }

    fn judge_end(&self, id: InterestId, before: &Look, scene: &Scene<'_>) {
        let promised = before.interests.get(&id).copied().unwrap_or(self.hubs[&id].after);
        let wanted = self.hubs[&id].interest.slots();
        let can_nobody_lead_on = scene.slots.iter().any(|shard| {
            let replicas = self
                .lines
                .iter()
                .zip(scene.nodes)
                .filter(|(line, node)| line.serves(before.history) && node.slots.covers(shard));
            let replicas: Vec<_> = replicas.collect();
            let concerns = !shard.intersection(&wanted).is_empty() && !replicas.is_empty();
            let mut refusing = replicas.iter().filter(|(line, node)| line.is_past(promised, node));
            concerns
                && refusing.next().is_some()
                && replicas.iter().all(|(line, node)| line.is_denied || line.is_past(promised, node))
        });
        let replicas = || self.lines.iter().zip(scene.nodes).map(|(line, node)| line.describe(node));
        assert!(
            can_nobody_lead_on,
            "{id:?} ended at {promised}, where a replica could have led on: {:#?}",
            replicas().collect::<Vec<_>>()
        );
    }

    fn count_lagging(&self, outputs: &[Output], scene: &mut Scene<'_>) {
        let opened = outputs.iter().filter_map(|output| match output {
            Output::Send(node, ToNode::Open(_)) => Some(*node),
            _ => None,
        });
        let lags =
            |node| self.lines.iter().any(|line| line.node == node && line.said() < self.merges.frontier());
        scene.reached.moved_to_lagging += opened.filter(|node| lags(*node)).count();
    }
}
