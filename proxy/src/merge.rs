//! Merging the shards of one mirror: for each interest, the events of all ranges in one rising order. An event is released
//! when every range of the interest has come at least as far, so each client sees strictly rising positions and can resume
//! anywhere. A range follows one node that holds its shard, and goes on at another from its own position when that one is
//! lost, cannot lead on, or hangs.
//!
//! [`Merges`] takes the messages of all nodes and returns what to send, what to ask and what to release. A node's frontier
//! counts for all its registrations at once and is kept once; an interest without events costs nothing when it moves.

mod check;
mod housing;
mod nodes;
mod one;
mod progress;
mod range;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_core::interest::Interest;
use weir_core::message::{
    Credit, Delivery, FromNode, InterestEvent, LogRequest, Open, OpenId, ToNode, Unanswered,
};
use weir_core::statement::Statement;
use weir_core::{History, ResourceVersion, SlotSet};

use nodes::Nodes;
use one::{Buffered, Merge};
use range::Range;

pub use words::{Asked, CREDIT, End, InterestId, NodeIndex, Output, ShardIndex};

/// All open interests of one mirror.
#[derive(Debug)]
pub struct Merges {
    nodes: Nodes,
    merges: BTreeMap<InterestId, Merge>,
    /// Interests whose buffers hold events.
    waiting: BTreeSet<InterestId>,
    /// Interests with a range that follows no node.
    homeless: BTreeSet<InterestId>,
    frontier: ResourceVersion,
    /// The highest position that any node has said in the present history; interests of one shard come as far.
    highest: ResourceVersion,
    /// Up to where nothing of earlier histories may be resumed, as far as was said.
    refused: ResourceVersion,
    credit: Credit,
    next_open: u64,
    next_interest: u64,
}

// === impl Merges ===

impl Merges {
    /// Over these shards, which must partition the space; nodes come with their sessions. A node may send `credit` events for
    /// a registration before the proxy has released them; see [`CREDIT`].
    pub fn new(shards: Vec<SlotSet>, credit: Credit) -> Self {
        Self {
            nodes: Nodes::new(shards),
            merges: BTreeMap::new(),
            waiting: BTreeSet::new(),
            homeless: BTreeSet::new(),
            frontier: ResourceVersion::ZERO,
            highest: ResourceVersion::ZERO,
            refused: ResourceVersion::ZERO,
            credit,
            next_open: 0,
            next_interest: 0,
        }
    }

    /// How many interests are open.
    pub fn len(&self) -> usize {
        self.merges.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.merges.is_empty()
    }

    /// How far all shards have come: where a new interest begins. It falls only when upstream's history goes back; zero while
    /// a shard has no node that holds something.
    pub fn frontier(&self) -> ResourceVersion {
        self.frontier
    }

    /// The history that the positions are of.
    pub fn history(&self) -> History {
        self.nodes.history
    }

    /// Opens an interest whose clients have everything up to `after`.
    pub fn open(&mut self, interest: Arc<Interest>, after: ResourceVersion) -> (InterestId, Vec<Output>) {
        let id = InterestId(self.next_interest);
        self.next_interest += 1;
        let wanted = interest.slots();
        let ranges = self.nodes.shards().map(|(shard, slots)| (shard, slots.intersection(&wanted)));
        let ranges = ranges.filter(|(_, slots)| !slots.is_empty());
        let ranges = ranges.map(|(shard, slots)| (shard, Range::new(slots, after))).collect();
        self.merges.insert(id, Merge { interest, ranges, buffer: BTreeMap::new(), released: after });
        self.homeless.insert(id);
        (id, self.house(id, Vec::new()))
    }

    /// Closes an interest.
    pub fn close(&mut self, id: InterestId) -> Vec<Output> {
        self.waiting.remove(&id);
        self.homeless.remove(&id);
        let Some(merge) = self.merges.remove(&id) else { return Vec::new() };
        let mut outputs = Vec::new();
        for (shard, range) in merge.ranges {
            let Some((node, state)) = range.node().and_then(|node| Some((node, self.nodes.get_mut(node)?)))
            else {
                continue;
            };
            state.unanswered.remove(&(id, shard));
            if let Some(open) = range.registration() {
                state.registrations.remove(&open);
                outputs.push(Output::Send(node, ToNode::Close(open)));
            }
        }
        outputs
    }

    /// Up to where everything of the interest has been released; a bookmark may promise it to a client that has read the
    /// hub to its end afterwards.
    pub fn frontier_of(&self, id: InterestId) -> Option<ResourceVersion> {
        let merge = self.merges.get(&id)?;
        Some(merge.frontier(&self.nodes))
    }

    /// Takes a message of a node.
    pub fn on_node(&mut self, node: NodeIndex, message: FromNode) -> Vec<Output> {
        match message {
            FromNode::Said(statement) => self.on_said(node, &statement),
            FromNode::Live { id, at } => {
                let Some((interest, range)) = self.registered(node, id) else { return Vec::new() };
                range.on_live(at);
                self.after_change(interest, Vec::new())
            }
            FromNode::Left { id, at } => {
                let Some((interest, range)) = self.registered(node, id) else { return Vec::new() };
                range.on_left(at);
                self.forget(node, id);
                self.after_change(interest, Vec::new())
            }
            // Merges register no name sets.
            FromNode::Named { .. } => Vec::new(),
            FromNode::NotMine(open) => self.on_not_mine(node, open),
            FromNode::TooOld(open) => self.on_too_old(node, open),
            FromNode::Restored { highest, history } => {
                let mut outputs = self.emptied(node, history);
                outputs.extend(self.on_history(history, highest));
                self.house_all(outputs)
            }
            FromNode::History(history) => {
                let mut outputs = self.emptied(node, history);
                outputs.extend(self.on_history(history, ResourceVersion::ZERO));
                self.house_all(outputs)
            }
        }
    }

    /// Takes the answer to [`Output::AskLog`].
    pub fn on_log(
        &mut self,
        asked: Asked,
        answer: Result<Statement<InterestEvent>, Unanswered>,
    ) -> Vec<Output> {
        let Asked { node, interest: id, shard } = asked;
        let Some(range) = self.merges.get_mut(&id).and_then(|merge| merge.ranges.get_mut(&shard)) else {
            return Vec::new();
        };
        let unanswered = match answer {
            Ok(statement) => {
                let logged = range.on_log(node, statement);
                let waited = range.settle();
                let open = range.registration();
                self.buffer((id, shard), None, logged);
                self.buffer((id, shard), open, waited);
                return self.after_change(id, Vec::new());
            }
            Err(unanswered) => unanswered,
        };
        if !range.answered(node) {
            return Vec::new();
        }
        match unanswered {
            Unanswered::TooOld { floor } if !range.is_behind(floor) => self.after_change(id, Vec::new()),
            Unanswered::TooOld { .. } => self.refused(node, (id, shard)),
            // The node has lost what it had when it said where the registration begins, and is about to say so; or the answer
            // is one of before its present session. Asking it again at once would go round in a circle.
            Unanswered::NotReached { .. } | Unanswered::Empty | Unanswered::NotMine => {
                if let Some(state) = self.nodes.get_mut(node) {
                    state.unanswered.insert((id, shard));
                }
                Vec::new()
            }
        }
    }

    /// Asks again what a node could not answer, for want of a connection or of content.
    pub fn ask_again(&mut self) -> Vec<Output> {
        let nodes: Vec<NodeIndex> = self.nodes.iter().map(|(node, _)| node).collect();
        let mut outputs = Vec::new();
        for node in nodes {
            let state = self.nodes.get_mut(node);
            let unanswered = state.map(|state| std::mem::take(&mut state.unanswered)).unwrap_or_default();
            outputs = unanswered.into_iter().fold(outputs, |outputs, (id, _)| self.pursue(id, outputs));
        }
        outputs
    }

    fn on_said(&mut self, node: NodeIndex, statement: &Statement<Delivery>) -> Vec<Output> {
        let Some(state) = self.nodes.get_mut(node) else { return Vec::new() };
        let unanswered = std::mem::take(&mut state.unanswered);
        let mut touched: BTreeSet<InterestId> = unanswered.into_iter().map(|(id, _)| id).collect();
        for delivery in statement.events() {
            for (open, kind) in &delivery.tags {
                let Some(event) = delivery.for_tag(*kind) else { continue };
                let Some(at) = self.range_of(node, *open) else { continue };
                let Some((id, range)) = self.registered(node, *open) else { continue };
                let fresh = range.on_event(*open, event);
                self.buffer(at, Some(*open), fresh);
                touched.insert(id);
            }
        }
        let mut outputs = Vec::new();
        if self.go_on(node, statement.to()) {
            outputs = self.house_all(outputs);
        }
        touched.extend(self.waiting.iter().copied());
        touched.into_iter().fold(outputs, |outputs, id| self.after_change(id, outputs))
    }

    /// The node has come to `to`. Whether it can serve from now on.
    fn go_on(&mut self, node: NodeIndex, to: ResourceVersion) -> bool {
        let (frontier, history) = (self.frontier, self.nodes.history);
        let Some(state) = self.nodes.get_mut(node) else { return false };
        let is_new = state.said.is_zero() && !to.is_zero();
        state.said = state.said.max(to);
        let has_caught_up = state.is_avoided && state.said >= frontier;
        state.is_avoided &= !has_caught_up;
        if state.history == history {
            self.highest = self.highest.max(to);
        }
        self.frontier = self.frontier.max(self.nodes.frontier().unwrap_or_default());
        is_new
    }

    /// Where the present registration with this id belongs.
    fn range_of(&self, node: NodeIndex, open: OpenId) -> Option<(InterestId, ShardIndex)> {
        self.nodes.get(node)?.registrations.get(&open).copied()
    }

    /// The interest and range whose present registration this is; what is said under an older id means nothing.
    fn registered(&mut self, node: NodeIndex, open: OpenId) -> Option<(InterestId, &mut Range)> {
        let (id, shard) = self.range_of(node, open)?;
        let range = self.merges.get_mut(&id)?.ranges.get_mut(&shard)?;
        (range.registration() == Some(open)).then_some((id, range))
    }

    /// A registration has ended.
    fn forget(&mut self, node: NodeIndex, open: OpenId) -> Option<(InterestId, ShardIndex)> {
        self.nodes.get_mut(node)?.registrations.remove(&open)
    }

    fn buffer(
        &mut self,
        (id, shard): (InterestId, ShardIndex),
        sent_by: Option<OpenId>,
        events: impl IntoIterator<Item = InterestEvent>,
    ) {
        let Some(merge) = self.merges.get_mut(&id) else { return };
        let before = merge.buffer.len();
        let events = events.into_iter().map(|event| (event.rv, Buffered { shard, sent_by, event }));
        merge.buffer.extend(events);
        if let Some(range) = merge.ranges.get_mut(&shard) {
            range.on_buffered(merge.buffer.len() - before);
        }
        if !merge.buffer.is_empty() {
            self.waiting.insert(id);
        }
    }

    /// Releases what can be released, and pursues what is missing.
    fn after_change(&mut self, id: InterestId, mut outputs: Vec<Output>) -> Vec<Output> {
        let Some(merge) = self.merges.get_mut(&id) else { return outputs };
        let frontier = merge.frontier(&self.nodes);
        if merge.buffer.first_key_value().is_some_and(|(first, _)| *first <= frontier) {
            outputs.push(Output::Release(id, merge.release(frontier)));
        }
        if merge.buffer.is_empty() {
            self.waiting.remove(&id);
        }
        self.pursue(id, outputs)
    }

    /// Gives credit back, asks for what is missing, registers what is away.
    fn pursue(&mut self, id: InterestId, mut outputs: Vec<Output>) -> Vec<Output> {
        let history = self.nodes.history;
        let Some(merge) = self.merges.get_mut(&id) else { return outputs };
        for (shard, range) in &mut merge.ranges {
            let Some(node) = range.node() else { continue };
            if let Some((open, credit)) = range.take_free(self.credit) {
                outputs.push(Output::Send(node, ToNode::Credit(open, credit)));
            }
            if let Some((after, to)) = range.next_log(self.credit) {
                let (interest, slots) = (merge.interest.clone(), range.slots());
                let asked = Asked { node, interest: id, shard: *shard };
                outputs.push(Output::AskLog(asked, LogRequest { history, interest, slots, after, to }));
            }
            if range.wants_registration(self.credit) {
                // An id is never used twice, not even for the same range.
                let open = OpenId(self.next_open);
                self.next_open += 1;
                range.opening(open);
                if let Some(state) = self.nodes.get_mut(node) {
                    state.registrations.insert(open, (id, *shard));
                }
                let (interest, slots) = (merge.interest.clone(), range.slots());
                let open = Open { id: open, interest, slots, credit: self.credit };
                outputs.push(Output::Send(node, ToNode::Open(open)));
            }
        }
        outputs
    }

    fn end(&mut self, id: InterestId, why: End) -> Vec<Output> {
        let mut outputs = self.close(id);
        outputs.push(Output::Ended(id, why));
        outputs
    }
}
