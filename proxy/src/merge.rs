//! Merging the shards of one mirror: for each interest, the events of all ranges in one rising order. An event is released
//! when every range of the interest has come at least as far, so each client sees strictly rising positions and can resume
//! anywhere.
//!
//! [`Merges`] takes the messages of all nodes and returns what to send, what to ask and what to release. A node's frontier
//! counts for all its registrations at once and is kept once; an interest without events costs nothing when it moves.

mod check;
mod one;
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
use weir_core::{History, ResourceVersion, SlotSet};

use one::{Buffered, Merge};
use range::Range;

/// Events that a node may send for one registration before the proxy has released them: 1,024 × about 4 KiB is 4 MiB. A
/// range holds at most twice that and one chunk of the log, while another range of its interest hangs.
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
    /// The end of the last statement said on the present session.
    said: ResourceVersion,
    /// Which interest each live registration belongs to.
    registrations: HashMap<OpenId, InterestId>,
    /// Interests whose question the node could not answer yet; asked again when it says something.
    unanswered: BTreeSet<InterestId>,
}

/// All open interests of one mirror.
#[derive(Debug)]
pub struct Merges {
    nodes: Vec<NodeState>,
    merges: BTreeMap<InterestId, Merge>,
    /// Interests whose buffers hold events.
    waiting: BTreeSet<InterestId>,
    frontier: ResourceVersion,
    history: History,
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
            unanswered: BTreeSet::new(),
        });
        Self {
            nodes: nodes.collect(),
            merges: BTreeMap::new(),
            waiting: BTreeSet::new(),
            frontier: ResourceVersion::ZERO,
            history: History::FIRST,
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

    /// How far all nodes have come: where a new interest begins. It falls only when upstream's history goes back; zero while
    /// a node has said nothing.
    pub fn frontier(&self) -> ResourceVersion {
        self.frontier
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
        self.merges.insert(id, Merge { interest, ranges, buffer: BTreeMap::new(), released: after });
        (id, self.pursue(id, Vec::new()))
    }

    /// Closes an interest.
    pub fn close(&mut self, id: InterestId) -> Vec<Output> {
        self.waiting.remove(&id);
        let Some(merge) = self.merges.remove(&id) else { return Vec::new() };
        let mut outputs = Vec::new();
        for (node, range) in merge.ranges {
            let state = &mut self.nodes[node.0];
            state.unanswered.remove(&id);
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
                self.nodes[node.0].registrations.remove(&id);
                self.after_change(interest, Vec::new())
            }
            FromNode::NotMine(id) | FromNode::TooOld(id) => {
                match self.nodes[node.0].registrations.remove(&id) {
                    Some(interest) => self.end(interest),
                    None => Vec::new(),
                }
            }
            FromNode::Restored { highest, history } => self.on_restored(node, highest, history),
            FromNode::History(history) => {
                self.history = self.history.max(history);
                Vec::new()
            }
        }
    }

    /// A new session with the node takes the place of the old one, of which nothing more may be handed in. Every range goes
    /// on from its own position, with what it has buffered.
    pub fn on_new_session(&mut self, node: NodeIndex) -> Vec<Output> {
        let state = &mut self.nodes[node.0];
        let said = std::mem::take(&mut state.said);
        state.registrations.clear();
        let mut concerned = Vec::new();
        for (id, merge) in &mut self.merges {
            if let Some(range) = merge.ranges.get_mut(&node) {
                range.on_lost(said);
                concerned.push(*id);
            }
        }
        concerned.into_iter().fold(Vec::new(), |outputs, id| self.after_change(id, outputs))
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
                let logged = range.on_log(statement);
                let waited = range.settle();
                let open = range.registration();
                self.buffer((id, node), None, logged);
                self.buffer((id, node), open, waited);
                self.after_change(id, Vec::new())
            }
            Err(Unanswered::TooOld { floor }) if !range.on_too_old(floor) => {
                self.after_change(id, Vec::new())
            }
            Err(Unanswered::TooOld { .. } | Unanswered::NotMine) => self.end(id),
            // The node has lost what it had when it said where the registration begins, and is about to say so. Asking it
            // again at once would go round in a circle.
            Err(Unanswered::NotReached { .. } | Unanswered::Empty) => {
                range.log_failed();
                self.nodes[node.0].unanswered.insert(id);
                Vec::new()
            }
        }
    }

    fn on_said(&mut self, node: NodeIndex, statement: &Statement<Delivery>) -> Vec<Output> {
        let mut touched = std::mem::take(&mut self.nodes[node.0].unanswered);
        for delivery in statement.events() {
            for (open, kind) in &delivery.tags {
                let Some(event) = delivery.for_tag(*kind) else { continue };
                let Some((id, range)) = self.registered(node, *open) else { continue };
                let fresh = range.on_event(*open, event);
                self.buffer((id, node), Some(*open), fresh);
                touched.insert(id);
            }
        }
        let state = &mut self.nodes[node.0];
        state.said = state.said.max(statement.to());
        let all_said = self.nodes.iter().map(|node| node.said).min().unwrap_or_default();
        self.frontier = self.frontier.max(all_said);
        touched.extend(self.waiting.iter().copied());
        touched.into_iter().fold(Vec::new(), |outputs, id| self.after_change(id, outputs))
    }

    fn on_restored(&mut self, node: NodeIndex, highest: ResourceVersion, history: History) -> Vec<Output> {
        self.history = self.history.max(history);
        self.frontier = ResourceVersion::ZERO;
        self.nodes[node.0].said = ResourceVersion::ZERO;
        self.nodes[node.0].registrations.clear();
        let ids: Vec<InterestId> = self.merges.keys().copied().collect();
        let mut outputs: Vec<Output> = ids.into_iter().flat_map(|id| self.end(id)).collect();
        outputs.push(Output::Restored(highest));
        outputs
    }

    /// The interest and range whose present registration this is; what is said under an older id means nothing.
    fn registered(&mut self, node: NodeIndex, open: OpenId) -> Option<(InterestId, &mut Range)> {
        let id = *self.nodes[node.0].registrations.get(&open)?;
        let range = self.merges.get_mut(&id)?.ranges.get_mut(&node)?;
        (range.registration() == Some(open)).then_some((id, range))
    }

    fn buffer(
        &mut self,
        (id, node): (InterestId, NodeIndex),
        sent_by: Option<OpenId>,
        events: impl IntoIterator<Item = InterestEvent>,
    ) {
        let Some(merge) = self.merges.get_mut(&id) else { return };
        let before = merge.buffer.len();
        let events = events.into_iter().map(|event| (event.rv, Buffered { node, sent_by, event }));
        merge.buffer.extend(events);
        if let Some(range) = merge.ranges.get_mut(&node) {
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
        let Some(merge) = self.merges.get_mut(&id) else { return outputs };
        for (node, range) in &mut merge.ranges {
            if let Some((open, credit)) = range.take_free(self.credit) {
                outputs.push(Output::Send(*node, ToNode::Credit(open, credit)));
            }
            if let Some((after, to)) = range.next_log(self.credit) {
                let request = LogRequest {
                    history: self.history,
                    interest: merge.interest.clone(),
                    slots: range.slots(),
                    after,
                    to,
                };
                outputs.push(Output::AskLog(*node, id, request));
            }
            if range.wants_registration(self.credit) {
                // An id is never used twice, not even for the same range.
                let open = OpenId(self.next_open);
                self.next_open += 1;
                range.opening(open);
                self.nodes[node.0].registrations.insert(open, id);
                let (interest, slots) = (merge.interest.clone(), range.slots());
                let open = Open { id: open, interest, slots, credit: self.credit };
                outputs.push(Output::Send(*node, ToNode::Open(open)));
            }
        }
        outputs
    }

    fn end(&mut self, id: InterestId) -> Vec<Output> {
        let mut outputs = self.close(id);
        outputs.push(Output::TooOld(id));
        outputs
    }
}
