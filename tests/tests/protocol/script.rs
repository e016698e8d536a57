//! A play of nodes and one proxy in which every step is written down: who writes, who reads, which message arrives.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use weir_core::message::{
    Credit, FeedMessage, FromNode, InterestEvent, ListChunk, ListId, LogRequest, ToNode, Unanswered,
};
use weir_core::statement::{Gap, Statement};
use weir_core::{ResourceVersion, Slot, SlotSet, SourceId, WindowBounds};
use weir_proxy::merge::{Asked, InterestId, Merges, NodeIndex, Output};
use weir_shard_node::node::{Node, SessionId};
use weir_tests::model::{Pod, Upstream, Wanted};

const SESSION: SessionId = SessionId(0);
const SOURCE: SourceId = SourceId(7);

/// A question that waits for its answer.
pub(crate) struct Ask {
    pub(crate) asked: Asked,
    pub(crate) request: LogRequest,
}

/// Nodes and a proxy.
pub(crate) struct Script {
    pub(crate) upstream: Upstream,
    pub(crate) nodes: Vec<Node>,
    pub(crate) merges: Merges,
    pub(crate) to_nodes: Vec<VecDeque<ToNode>>,
    pub(crate) from_nodes: Vec<VecDeque<FromNode>>,
    pub(crate) asks: VecDeque<Ask>,
    /// Revisions of the released events.
    pub(crate) released: Vec<u64>,
    pub(crate) too_old: Vec<InterestId>,
    lists: u64,
}

pub(crate) fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

/// Bounds under which nothing is dropped.
pub(crate) fn wide() -> WindowBounds {
    WindowBounds {
        max_age: Duration::MAX,
        max_events: usize::MAX,
        max_percent_of_live: 100,
        free_bytes: usize::MAX,
        min_age: Duration::ZERO,
    }
}

/// A pod whose uid lies in the slots.
pub(crate) fn pod_in(slots: SlotSet, name: &str) -> Pod {
    let pods = (0..).map(|number| Pod::new("ns", name, &format!("uid-{name}-{number}")));
    pods.into_iter().find(|pod| slots.contains(Slot::of(pod.hash()))).expect("uids reach every slot")
}

// === impl Script ===

impl Script {
    /// So many nodes over an empty upstream, each of which has listed, and a proxy with a session to each.
    pub(crate) fn new(nodes: usize, credit: u32) -> Self {
        Self::with_bounds(nodes, credit, wide())
    }

    pub(crate) fn with_bounds(nodes: usize, credit: u32, bounds: WindowBounds) -> Self {
        let slots: Vec<_> = (0..nodes).map(|index| SlotSet::of_shard(index, nodes)).collect();
        let mut script = Self::unconnected(slots.clone(), &slots, (credit, bounds));
        (0..nodes).for_each(|node| script.come(node));
        script
    }

    /// So many shards with two replicas each, and an interest at 1 that follows the first ones. The second replica of shard
    /// `n` is node `shards + n`.
    pub(crate) fn replicated(shards: usize, credit: u32) -> (Self, InterestId) {
        let slots: Vec<_> = (0..shards).map(|index| SlotSet::of_shard(index, shards)).collect();
        let mut script = Self::unconnected(slots.clone(), &slots.repeat(2), (credit, wide()));
        (0..shards).for_each(|node| script.come(node));
        let id = script.open(1);
        (0..shards).for_each(|node| script.talk(node));
        (shards..2 * shards).for_each(|node| script.come(node));
        (script, id)
    }

    /// These shards, and nodes that hold these slots, to none of which there is a session.
    pub(crate) fn unconnected(
        shards: Vec<SlotSet>,
        held: &[SlotSet],
        (credit, bounds): (u32, WindowBounds),
    ) -> Self {
        let nodes = held.len();
        Self {
            upstream: Upstream::new(rv(1)),
            nodes: held.iter().map(|slots| Node::new(*slots, bounds)).collect(),
            merges: Merges::new(shards, Credit(credit)),
            to_nodes: (0..nodes).map(|_| VecDeque::new()).collect(),
            from_nodes: (0..nodes).map(|_| VecDeque::new()).collect(),
            asks: VecDeque::new(),
            released: Vec::new(),
            too_old: Vec::new(),
            lists: 0,
        }
    }

    /// A node lists, and a session with it begins.
    pub(crate) fn come(&mut self, node: usize) {
        self.list(node);
        self.attach(node);
        self.hear(node);
    }

    /// A pod of this node is written.
    pub(crate) fn write(&mut self, node: usize, name: &str) -> u64 {
        let pod = pod_in(self.nodes[node].store().slots(), name);
        self.upstream.put(pod).get()
    }

    /// Pods of this node are written, one after the other: `pod0`, `pod1`, …
    pub(crate) fn write_pods(&mut self, node: usize, numbers: Range<usize>) {
        for number in numbers {
            self.write(node, &format!("pod{number}"));
        }
    }

    /// An event of node 0 at 2 comes, and waits for whatever else holds a part of the interest.
    pub(crate) fn let_one_wait(&mut self) {
        self.write(0, "a");
        self.feed(0, 2);
        self.hear(0);
        assert!(self.released.is_empty());
    }

    /// The node hears all that happened up to `to`, as one statement from where it is.
    pub(crate) fn feed(&mut self, node: usize, to: u64) {
        let after = self.frontier(node);
        self.feed_from(node, after, to).expect("from where the node is");
    }

    /// The same from any position.
    pub(crate) fn feed_from(&mut self, node: usize, after: u64, to: u64) -> Result<(), Gap> {
        let changes = self.upstream.changes(rv(after), rv(to)).to_vec();
        let statement = Statement::new(SOURCE, rv(after), rv(to), changes).expect("upstream's log rises");
        self.tell(node, &FeedMessage::Statement(statement))
    }

    /// The node gets a list of upstream's present.
    pub(crate) fn list(&mut self, node: usize) {
        self.list_at(node, self.upstream.revision());
    }

    /// The node gets a list of upstream as it was at `at`.
    pub(crate) fn list_at(&mut self, node: usize, at: ResourceVersion) {
        self.lists += 1;
        let objects = self.upstream.objects(at);
        let chunk = ListChunk { list: ListId(self.lists), at, seq: 0, is_last: true, objects };
        self.tell(node, &FeedMessage::List(chunk)).expect("a list has no gap");
    }

    /// The node hears this.
    pub(crate) fn tell(&mut self, node: usize, message: &FeedMessage) -> Result<(), Gap> {
        let mine = message.narrowed(&self.nodes[node].store().slots());
        let outgoing = self.nodes[node].on_feed(mine, Duration::ZERO)?;
        self.from_nodes[node].extend(outgoing.into_iter().map(|(_, said)| said));
        Ok(())
    }

    /// A session with the node begins.
    pub(crate) fn attach(&mut self, node: usize) {
        let outgoing = self.nodes[node].attach(SESSION);
        self.from_nodes[node].extend(outgoing.into_iter().map(|(_, said)| said));
        let slots = self.nodes[node].store().slots();
        let outputs = self.merges.on_session(NodeIndex(node), slots);
        self.carry(outputs);
    }

    /// The session breaks, with all that is under way, and another begins, on which the node says where it is.
    pub(crate) fn lose_session(&mut self, node: usize) {
        self.cut(node);
        self.attach(node);
        self.hear(node);
    }

    /// The session breaks, with all that is under way, and the proxy notices.
    pub(crate) fn lose(&mut self, node: usize) {
        self.cut(node);
        let outputs = self.merges.on_session_lost(NodeIndex(node));
        self.carry(outputs);
        self.merges.check(usize::MAX / 4);
    }

    /// The node is lost with its store and begins anew with nothing, before the proxy has noticed.
    pub(crate) fn crash(&mut self, node: usize) {
        self.cut(node);
        self.nodes[node] = Node::new(self.nodes[node].store().slots(), wide());
    }

    /// The proxy goes on without this node, whose session stands.
    pub(crate) fn avoid(&mut self, node: usize) {
        let outputs = self.merges.avoid(NodeIndex(node));
        self.carry(outputs);
        self.merges.check(usize::MAX / 4);
    }

    /// A client that has everything up to `after` opens everything.
    pub(crate) fn open(&mut self, after: u64) -> InterestId {
        let (id, outputs) = self.merges.open(Wanted::everything().interest, rv(after));
        self.carry(outputs);
        id
    }

    /// The next message of the proxy arrives at the node.
    pub(crate) fn arrive(&mut self, node: usize) {
        let message = self.to_nodes[node].pop_front().expect("the proxy said something");
        let outgoing = self.nodes[node].on_session(SESSION, message);
        self.from_nodes[node].extend(outgoing.into_iter().map(|(_, said)| said));
    }

    /// The next message of the node arrives at the proxy.
    pub(crate) fn hear_one(&mut self, node: usize) {
        let message = self.from_nodes[node].pop_front().expect("the node said something");
        let outputs = self.merges.on_node(NodeIndex(node), message);
        self.carry(outputs);
        self.merges.check(usize::MAX / 4);
    }

    /// All that the node said arrives.
    pub(crate) fn hear(&mut self, node: usize) {
        while !self.from_nodes[node].is_empty() {
            self.hear_one(node);
        }
    }

    /// Whatever is under way on the session with the node arrives, both ways.
    pub(crate) fn talk(&mut self, node: usize) {
        while !(self.to_nodes[node].is_empty() && self.from_nodes[node].is_empty()) {
            while !self.to_nodes[node].is_empty() {
                self.arrive(node);
            }
            self.hear(node);
        }
    }

    /// The oldest question is answered by the node that it is for.
    pub(crate) fn answer(&mut self) {
        let ask = self.asks.pop_front().expect("the proxy asked something");
        let answer = self.nodes[ask.asked.node.0].store().log(&ask.request);
        self.give(&ask, answer);
    }

    /// A question gets this answer.
    pub(crate) fn give(&mut self, ask: &Ask, answer: Result<Statement<InterestEvent>, Unanswered>) {
        let outputs = self.merges.on_log(ask.asked, answer);
        self.carry(outputs);
        self.merges.check(usize::MAX / 4);
    }

    /// How far the node is.
    pub(crate) fn frontier(&self, node: usize) -> u64 {
        self.nodes[node].window().map_or(0, |window| window.frontier.get())
    }

    /// What a bookmark of the interest could promise.
    pub(crate) fn promised(&self, id: InterestId) -> u64 {
        self.merges.frontier_of(id).map_or(0, ResourceVersion::get)
    }

    fn cut(&mut self, node: usize) {
        self.nodes[node].detach(SESSION);
        self.to_nodes[node].clear();
        self.from_nodes[node].clear();
    }

    fn carry(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(node, message) => self.to_nodes[node.0].push_back(message),
                Output::AskLog(asked, request) => {
                    self.asks.push_back(Ask { asked, request });
                }
                Output::Release(_, events) => self.released.extend(events.iter().map(|event| event.rv.get())),
                Output::Ended(id, _) => self.too_old.push(id),
                Output::Restored(_) | Output::Refused(_) => {}
            }
        }
    }
}
