//! Merging the shards of one mirror: for each interest, the events of all ranges in one rising order. An event is released
//! when every range of the interest has come at least as far, so each client sees strictly rising positions and can resume
//! anywhere.
//!
//! [`Merges`] takes the messages of all nodes and returns what to send, what to ask and what to release. A node's frontier
//! counts for all its registrations at once and is kept once; an interest without events costs nothing when it moves.

mod range;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use weir_core::interest::Interest;
use weir_core::message::{
    Credit, Delivery, FromNode, InterestEvent, LogRequest, Open, OpenId, ToNode, Unanswered,
};
use weir_core::statement::Statement;
use weir_core::{ResourceVersion, SlotSet};

use range::Range;

/// Events that a node may send for one registration before the proxy has released them: 1,024 × about 4 KiB is 4 MiB for
/// an interest and range at worst, while another range hangs.
pub const CREDIT: Credit = Credit(1_024);

/// Which of the mirror's nodes, in the order in which they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub usize);

/// Names one open interest of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterestId(pub u64);

/// What the merge wants done, in order.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send a message on the session of a node.
    Send(NodeIndex, ToNode),
    /// Ask a node for its log, and give the answer to [`Merges::on_log`].
    AskLog(NodeIndex, InterestId, LogRequest),
    /// These events are next for the clients of an interest.
    Release(InterestId, Vec<InterestEvent>),
    /// The interest cannot go on: its clients must list again.
    TooOld(InterestId),
    /// Upstream's history went back; nothing up to this position may be resumed.
    Restored(ResourceVersion),
}

/// One node as the merge knows it.
#[derive(Debug)]
struct NodeState {
    slots: SlotSet,
    /// The end of the last statement said.
    said: ResourceVersion,
    /// Which range each live registration belongs to.
    registrations: HashMap<OpenId, InterestId>,
}

/// One open interest.
#[derive(Debug)]
struct Merge {
    interest: Arc<Interest>,
    ranges: BTreeMap<NodeIndex, Range>,
    /// Events that wait for the other ranges.
    buffer: BTreeMap<ResourceVersion, (NodeIndex, InterestEvent)>,
    released: ResourceVersion,
}

/// All open interests of one mirror.
#[derive(Debug)]
pub struct Merges {
    nodes: Vec<NodeState>,
    merges: BTreeMap<InterestId, Merge>,
    /// Interests whose buffers hold events.
    waiting: BTreeSet<InterestId>,
    credit: Credit,
    next_open: u64,
    next_interest: u64,
}

// === impl Merges ===

impl Merges {
    /// Over nodes that hold these slots; they must partition the space. A node may send `credit` events for a registration
    /// before the proxy has released them; see [`CREDIT`].
    pub fn new(nodes: Vec<SlotSet>, credit: Credit) -> Self {
        let nodes = nodes.into_iter().map(|slots| NodeState {
            slots,
            said: ResourceVersion::ZERO,
            registrations: HashMap::new(),
        });
        Self {
            nodes: nodes.collect(),
            merges: BTreeMap::new(),
            waiting: BTreeSet::new(),
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

    /// The lowest frontier that the nodes have said: where a new interest begins.
    pub fn frontier(&self) -> ResourceVersion {
        self.nodes.iter().map(|node| node.said).min().unwrap_or_default()
    }

    /// Opens an interest whose clients have everything up to `after`.
    pub fn open(&mut self, interest: Arc<Interest>, after: ResourceVersion) -> (InterestId, Vec<Output>) {
        let id = InterestId(self.next_interest);
        self.next_interest += 1;
        let wanted = interest.slots();
        let mut ranges = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let slots = node.slots.intersection(&wanted);
            if !slots.is_empty() {
                ranges.insert(NodeIndex(index), Range::new(slots, after));
            }
        }
        let indexes: Vec<NodeIndex> = ranges.keys().copied().collect();
        self.merges.insert(id, Merge { interest, ranges, buffer: BTreeMap::new(), released: after });
        (id, indexes.into_iter().filter_map(|node| self.register(node, id)).collect())
    }

    /// Closes an interest.
    pub fn close(&mut self, id: InterestId) -> Vec<Output> {
        self.waiting.remove(&id);
        let Some(merge) = self.merges.remove(&id) else { return Vec::new() };
        let mut outputs = Vec::new();
        for (node, range) in merge.ranges {
            if let Some(open) = range.registration() {
                self.nodes[node.0].registrations.remove(&open);
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
            FromNode::Live { id, at } => self.with_range(node, id, |range| range.on_live(at)),
            FromNode::Left { id, at } => {
                let outputs = self.with_range(node, id, |range| range.on_left(at));
                let Some(interest) = self.nodes[node.0].registrations.remove(&id) else { return outputs };
                self.after_change(interest, outputs)
            }
            FromNode::NotMine(id) | FromNode::TooOld(id) => {
                match self.nodes[node.0].registrations.remove(&id) {
                    Some(interest) => self.end(interest),
                    None => Vec::new(),
                }
            }
            FromNode::Restored { highest } => self.on_restored(node, highest),
        }
    }

    /// Takes the answer to [`Output::AskLog`].
    pub fn on_log(
        &mut self,
        node: NodeIndex,
        id: InterestId,
        answer: Result<Statement<InterestEvent>, Unanswered>,
    ) -> Vec<Output> {
        let Some(range) = self.merges.get_mut(&id).and_then(|merge| merge.ranges.get_mut(&node)) else {
            return Vec::new();
        };
        match answer {
            Ok(statement) => {
                let events = range.on_log(statement);
                self.buffer(id, node, events);
                self.after_change(id, Vec::new())
            }
            Err(Unanswered::TooOld { .. } | Unanswered::NotMine) => self.end(id),
            Err(Unanswered::NotReached { .. } | Unanswered::Empty) => {
                range.log_failed();
                self.after_change(id, Vec::new())
            }
        }
    }

    fn on_said(&mut self, node: NodeIndex, statement: &Statement<Delivery>) -> Vec<Output> {
        let mut touched = BTreeSet::new();
        for delivery in statement.events() {
            for (open, kind) in &delivery.tags {
                let Some(id) = self.nodes[node.0].registrations.get(open).copied() else { continue };
                let Some(event) = delivery.for_tag(*kind) else { continue };
                let range = self.merges.get_mut(&id).and_then(|merge| merge.ranges.get_mut(&node));
                let fresh = range.and_then(|range| range.on_event(*open, event));
                self.buffer(id, node, fresh);
                touched.insert(id);
            }
        }
        let state = &mut self.nodes[node.0];
        state.said = state.said.max(statement.to());
        touched.extend(self.waiting.iter().copied());
        let mut outputs = Vec::new();
        for id in touched {
            outputs = self.after_change(id, outputs);
        }
        outputs
    }

    fn on_restored(&mut self, node: NodeIndex, highest: ResourceVersion) -> Vec<Output> {
        self.nodes[node.0].said = ResourceVersion::ZERO;
        self.nodes[node.0].registrations.clear();
        let ids: Vec<InterestId> = self.merges.keys().copied().collect();
        let mut outputs: Vec<Output> = ids.into_iter().flat_map(|id| self.end(id)).collect();
        outputs.push(Output::Restored(highest));
        outputs
    }

    fn with_range(
        &mut self,
        node: NodeIndex,
        open: OpenId,
        act: impl FnOnce(&mut Range) -> Vec<InterestEvent>,
    ) -> Vec<Output> {
        let Some(id) = self.nodes[node.0].registrations.get(&open).copied() else { return Vec::new() };
        let Some(merge) = self.merges.get_mut(&id) else { return Vec::new() };
        let Some(range) = merge.ranges.get_mut(&node).filter(|range| range.registration() == Some(open))
        else {
            return Vec::new();
        };
        let events = act(range);
        self.buffer(id, node, events);
        self.after_change(id, Vec::new())
    }

    fn buffer(&mut self, id: InterestId, node: NodeIndex, events: impl IntoIterator<Item = InterestEvent>) {
        let Some(merge) = self.merges.get_mut(&id) else { return };
        for event in events {
            merge.buffer.insert(event.rv, (node, event));
        }
        if !merge.buffer.is_empty() {
            self.waiting.insert(id);
        }
    }

    /// Releases what can be released, gives credit back, asks for what is missing, opens again what left.
    fn after_change(&mut self, id: InterestId, mut outputs: Vec<Output>) -> Vec<Output> {
        let Some(merge) = self.merges.get_mut(&id) else { return outputs };
        let frontier = merge.frontier(&self.nodes);
        let rest = merge.buffer.split_off(&frontier.next());
        let ready = std::mem::replace(&mut merge.buffer, rest);
        if merge.buffer.is_empty() {
            self.waiting.remove(&id);
        }
        let mut used: BTreeMap<NodeIndex, u32> = BTreeMap::new();
        for (node, _) in ready.values() {
            *used.entry(*node).or_default() += 1;
        }
        outputs.extend(used.into_iter().filter_map(|(node, events)| merge.give_back(node, events)));
        let events: Vec<InterestEvent> = ready.into_values().map(|(_, event)| event).collect();
        if let Some(last) = events.last() {
            debug_assert!(merge.released < events[0].rv, "released twice or out of order");
            merge.released = last.rv;
            outputs.push(Output::Release(id, events));
        }
        self.pursue(id, outputs)
    }

    fn pursue(&mut self, id: InterestId, mut outputs: Vec<Output>) -> Vec<Output> {
        let Some(merge) = self.merges.get_mut(&id) else { return outputs };
        let mut again = Vec::new();
        for (node, range) in &mut merge.ranges {
            let buffered = merge.buffer.values().filter(|(of, _)| of == node).count();
            if let Some((after, to)) = range.next_log(buffered, self.credit) {
                let request =
                    LogRequest { interest: merge.interest.clone(), slots: range.slots(), after, to };
                outputs.push(Output::AskLog(*node, id, request));
            }
            if range.is_away() && buffered * 2 <= self.credit.0 as usize {
                again.push(*node);
            }
        }
        outputs.extend(again.into_iter().filter_map(|node| self.register(node, id)));
        outputs
    }

    /// Registers a range under an id never used before.
    fn register(&mut self, node: NodeIndex, id: InterestId) -> Option<Output> {
        let merge = self.merges.get_mut(&id)?;
        let range = merge.ranges.get_mut(&node)?;
        let open = OpenId(self.next_open);
        self.next_open += 1;
        range.opening(open);
        self.nodes[node.0].registrations.insert(open, id);
        let message =
            Open { id: open, interest: merge.interest.clone(), slots: range.slots(), credit: self.credit };
        Some(Output::Send(node, ToNode::Open(message)))
    }

    fn end(&mut self, id: InterestId) -> Vec<Output> {
        let mut outputs = self.close(id);
        outputs.push(Output::TooOld(id));
        outputs
    }
}

// === impl Merge ===

impl Merge {
    fn frontier(&self, nodes: &[NodeState]) -> ResourceVersion {
        let of_ranges = self.ranges.iter().map(|(node, range)| range.position(nodes[node.0].said));
        // Without a range there is nothing to wait for, and nothing that could be promised either.
        of_ranges.min().unwrap_or(self.released)
    }

    fn give_back(&self, node: NodeIndex, events: u32) -> Option<Output> {
        let open = self.ranges.get(&node)?.registration()?;
        Some(Output::Send(node, ToNode::Credit(open, Credit(events))))
    }
}
