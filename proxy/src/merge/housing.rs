//! Which node each range follows, and what happens when that changes: sessions come and go, nodes hang, refuse, or go over to
//! another history. A range keeps its position and its buffer through all of it; what an old node still says means nothing.

use weir_core::message::{OpenId, ToNode};
use weir_core::{History, ResourceVersion, SlotSet};

use super::{End, InterestId, Merges, NodeIndex, Output, ShardIndex};

// === impl Merges ===

impl Merges {
    /// A session with a node that holds these slots stands; it takes the place of an older one, of which nothing more may be
    /// handed in. What the node says first tells whether it can serve.
    pub fn on_session(&mut self, node: NodeIndex, slots: SlotSet) -> Vec<Output> {
        let outputs = self.on_session_lost(node);
        self.nodes.insert(node, slots);
        outputs
    }

    /// The session with a node is gone. Every range that followed it goes on from its own position at another node, with what
    /// it has buffered, or waits for one.
    pub fn on_session_lost(&mut self, node: NodeIndex) -> Vec<Output> {
        let Some(lost) = self.nodes.remove(node) else { return Vec::new() };
        for (id, merge) in &mut self.merges {
            for range in merge.ranges.values_mut() {
                // What comes back under this number may hold more than what was lost.
                range.forgive(node);
                if range.node() == Some(node) {
                    range.on_lost(lost.said);
                    self.homeless.insert(*id);
                }
            }
        }
        self.house_all(Vec::new())
    }

    /// Others have gone on without this node: its ranges go on elsewhere, where there is another.
    pub fn avoid(&mut self, node: NodeIndex) -> Vec<Output> {
        let Some(state) = self.nodes.get_mut(node) else { return Vec::new() };
        state.is_avoided = true;
        let mut outputs = Vec::new();
        let ids: Vec<InterestId> = self.merges.keys().copied().collect();
        for id in ids {
            outputs = self.leave(id, node, outputs);
        }
        self.house_all(outputs)
    }

    /// What the node said is over: what it holds now is nothing, of this history.
    pub(super) fn emptied(&mut self, node: NodeIndex, history: History) -> Vec<Output> {
        let Some(state) = self.nodes.get_mut(node) else { return Vec::new() };
        state.history = history;
        let said = std::mem::take(&mut state.said);
        // What was under way to it when it said so is registered there by now.
        let registrations = std::mem::take(&mut state.registrations).into_keys();
        let closed = registrations.map(|open| Output::Send(node, ToNode::Close(open))).collect();
        for (id, merge) in &mut self.merges {
            for range in merge.ranges.values_mut().filter(|range| range.node() == Some(node)) {
                range.on_lost(said);
                self.homeless.insert(*id);
            }
        }
        closed
    }

    /// A history was heard of, from a node that had come to `highest` before it. A later one than the present ends everything
    /// that is open. Of the present one it may say that clients of others were shown more than was known.
    pub(super) fn on_history(&mut self, history: History, highest: ResourceVersion) -> Vec<Output> {
        if history < self.nodes.history {
            return Vec::new();
        }
        if history == self.nodes.history {
            let is_news = highest > self.refused;
            self.refused = self.refused.max(highest);
            return if is_news { vec![Output::Refused(highest)] } else { Vec::new() };
        }
        self.nodes.history = history;
        let is_first = self.frontier.is_zero() && self.merges.is_empty();
        self.frontier = ResourceVersion::ZERO;
        let highest = std::mem::take(&mut self.highest).max(highest);
        let ids: Vec<InterestId> = self.merges.keys().copied().collect();
        let mut outputs: Vec<Output> = ids.into_iter().flat_map(|id| self.end(id, End::Restored)).collect();
        self.refused = highest;
        if !is_first {
            outputs.push(Output::Restored(highest));
        }
        outputs
    }

    /// The node does not hold what it said that it holds.
    pub(super) fn on_not_mine(&mut self, node: NodeIndex, open: OpenId) -> Vec<Output> {
        if self.forget(node, open).is_none() {
            return Vec::new();
        }
        if let Some(state) = self.nodes.get_mut(node) {
            state.holds_nothing();
        }
        let ids: Vec<InterestId> = self.merges.keys().copied().collect();
        let outputs = ids.into_iter().fold(Vec::new(), |outputs, id| self.leave(id, node, outputs));
        self.house_all(outputs)
    }

    /// The node began anew behind what it had said to a registration. A range that another node had led further than that may
    /// be ahead of where this one begins now: it registers again, and is told.
    pub(super) fn on_too_old(&mut self, node: NodeIndex, open: OpenId) -> Vec<Output> {
        let said = self.nodes.said(Some(node));
        let Some(at) = self.forget(node, open) else { return Vec::new() };
        let range = self.merges.get_mut(&at.0).and_then(|merge| merge.ranges.get_mut(&at.1));
        if range.is_some_and(|range| range.on_ended(said)) {
            return self.after_change(at.0, Vec::new());
        }
        self.refused(node, at)
    }

    /// The node cannot lead a range on from where it is: another one may, and if none can, nobody can.
    pub(super) fn refused(&mut self, node: NodeIndex, (id, shard): (InterestId, ShardIndex)) -> Vec<Output> {
        let Some(merge) = self.merges.get_mut(&id) else { return Vec::new() };
        let Some(range) = merge.ranges.get_mut(&shard) else { return Vec::new() };
        let registration = range.registration();
        range.on_lost(self.nodes.said(Some(node)));
        range.refuse(node);
        self.homeless.insert(id);
        let mut outputs = Vec::new();
        if let Some(open) = registration
            && self.forget(node, open).is_some()
        {
            outputs.push(Output::Send(node, ToNode::Close(open)));
        }
        self.house(id, outputs)
    }

    /// The ranges of an interest that follow the node leave it, where another could take them.
    pub(super) fn leave(&mut self, id: InterestId, node: NodeIndex, mut outputs: Vec<Output>) -> Vec<Output> {
        let said = self.nodes.said(Some(node));
        let Some(merge) = self.merges.get_mut(&id) else { return outputs };
        let mut closed = Vec::new();
        for (shard, range) in merge.ranges.iter_mut().filter(|(_, range)| range.node() == Some(node)) {
            if self.nodes.best(*shard, |other| range.takes(other)) == Some(node) {
                continue;
            }
            closed.extend(range.registration());
            range.on_lost(said);
            self.homeless.insert(id);
        }
        for open in closed {
            self.forget(node, open);
            outputs.push(Output::Send(node, ToNode::Close(open)));
        }
        outputs
    }

    /// Finds nodes for all ranges that follow none.
    pub(super) fn house_all(&mut self, outputs: Vec<Output>) -> Vec<Output> {
        let homeless: Vec<InterestId> = self.homeless.iter().copied().collect();
        homeless.into_iter().fold(outputs, |outputs, id| self.house(id, outputs))
    }

    /// Finds nodes for the ranges of an interest. A range that every node of its shard refused ends the interest; one whose
    /// shard has no node waits for one.
    pub(super) fn house(&mut self, id: InterestId, mut outputs: Vec<Output>) -> Vec<Output> {
        let Some(merge) = self.merges.get_mut(&id) else { return outputs };
        let mut is_housed = true;
        for (shard, range) in merge.ranges.iter_mut().filter(|(_, range)| range.node().is_none()) {
            let chosen = self.nodes.choose(*shard);
            let takes = chosen.filter(|node| range.takes(*node));
            match takes.or_else(|| self.nodes.best(*shard, |node| range.takes(node))) {
                Some(node) => range.follow(node),
                None if chosen.is_some() => {
                    outputs.extend(self.end(id, End::TooOld));
                    return outputs;
                }
                None => is_housed = false,
            }
        }
        if is_housed {
            self.homeless.remove(&id);
        }
        self.after_change(id, outputs)
    }
}
