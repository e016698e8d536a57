//! The nodes as the merges know them: which shards each can serve, how far it has come, and which of a shard's replicas is
//! chosen. Views of other processes play no part: a node serves what it said that it holds, on a session that stands.
//!
//! A replica that is behind is as good as any other for a position that it has reached; the one furthest ahead is chosen
//! because it has something to say soonest.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_core::message::OpenId;
use weir_core::{History, ResourceVersion, SlotSet};

use super::{InterestId, NodeIndex, ShardIndex};

/// One node on a session that stands.
#[derive(Debug)]
pub(super) struct NodeState {
    slots: SlotSet,
    /// The history that it said it is of.
    pub(super) history: History,
    /// The end of the last statement said on the present session.
    pub(super) said: ResourceVersion,
    /// Which range each live registration belongs to.
    pub(super) registrations: HashMap<OpenId, (InterestId, ShardIndex)>,
    /// Ranges whose question the node could not answer yet; asked again when it says something.
    pub(super) unanswered: BTreeSet<(InterestId, ShardIndex)>,
    /// Others went on without it: it is taken only where there is no other, until it has caught up.
    pub(super) is_avoided: bool,
}

/// The shards of the space, and who serves them.
#[derive(Debug)]
pub(super) struct Nodes {
    shards: Vec<SlotSet>,
    chosen: Vec<Option<NodeIndex>>,
    up: BTreeMap<NodeIndex, NodeState>,
    /// The history that counts: the highest that was heard of.
    pub(super) history: History,
    /// How often a shard went from one node to another.
    moves: u64,
}

// === impl Nodes ===

impl Nodes {
    pub(super) fn new(shards: Vec<SlotSet>) -> Self {
        let chosen = vec![None; shards.len()];
        Self { shards, chosen, up: BTreeMap::new(), history: History::FIRST, moves: 0 }
    }

    /// The shards with their slots.
    pub(super) fn shards(&self) -> impl Iterator<Item = (ShardIndex, SlotSet)> {
        self.shards.iter().enumerate().map(|(index, slots)| (ShardIndex(index), *slots))
    }

    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    pub(super) fn get(&self, node: NodeIndex) -> Option<&NodeState> {
        self.up.get(&node)
    }

    pub(super) fn get_mut(&mut self, node: NodeIndex) -> Option<&mut NodeState> {
        self.up.get_mut(&node)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeIndex, &NodeState)> {
        self.up.iter().map(|(index, node)| (*index, node))
    }

    /// A session stands.
    pub(super) fn insert(&mut self, node: NodeIndex, slots: SlotSet) {
        self.up.insert(node, NodeState::new(slots));
    }

    /// The session is gone. What it had said.
    pub(super) fn remove(&mut self, node: NodeIndex) -> Option<NodeState> {
        self.up.remove(&node)
    }

    /// How far the node has come; zero for one that is gone.
    pub(super) fn said(&self, node: Option<NodeIndex>) -> ResourceVersion {
        node.and_then(|node| self.up.get(&node)).map_or(ResourceVersion::ZERO, |node| node.said)
    }

    /// How far the replica of each shard that is furthest ahead has come, the least of them; `None` while a shard has none.
    pub(super) fn frontier(&self) -> Option<ResourceVersion> {
        let furthest = |(shard, _)| self.serving(shard).map(|(_, node)| node.said).max();
        self.shards().map(furthest).min().flatten()
    }

    /// The nodes that can serve a shard now.
    pub(super) fn serving(&self, shard: ShardIndex) -> impl Iterator<Item = (NodeIndex, &NodeState)> {
        let slots = self.shards[shard.0];
        self.iter().filter(move |(_, node)| {
            node.history == self.history && !node.said.is_zero() && node.slots.covers(&slots)
        })
    }

    /// The node for a shard: the one that is chosen already, as long as it serves and nobody does better.
    pub(super) fn choose(&mut self, shard: ShardIndex) -> Option<NodeIndex> {
        let present = self.chosen[shard.0];
        let stays = present.filter(|node| {
            let mut serving = self.serving(shard);
            serving.any(|(index, state)| index == *node && !state.is_avoided)
        });
        let best = stays.or_else(|| self.best(shard, |_| true));
        if best.is_some() && best != present {
            self.moves += u64::from(present.is_some());
            self.chosen[shard.0] = best;
        }
        best
    }

    /// The best node for a shard among those that a range takes.
    pub(super) fn best(&self, shard: ShardIndex, takes: impl Fn(NodeIndex) -> bool) -> Option<NodeIndex> {
        let serving = self.serving(shard).filter(|(index, _)| takes(*index));
        serving.max_by_key(|(index, node)| (!node.is_avoided, node.said, *index)).map(|(index, _)| index)
    }
}

// === impl NodeState ===

impl NodeState {
    fn new(slots: SlotSet) -> Self {
        Self {
            slots,
            history: History::FIRST,
            said: ResourceVersion::ZERO,
            registrations: HashMap::new(),
            unanswered: BTreeSet::new(),
            is_avoided: false,
        }
    }

    /// The node does not hold what it was asked for: it serves nothing until its next session.
    pub(super) fn holds_nothing(&mut self) {
        self.slots = SlotSet::EMPTY;
    }
}
