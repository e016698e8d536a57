//! A proxy of the model: the real merges and hubs, and the queues that carry messages. Each session keeps its order;
//! everything else may come late, and answers to questions may come twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use weir_core::interest::Interest;
use weir_core::message::{FromNode, InterestEvent, LogRequest, ToNode, Unanswered};
use weir_core::statement::Statement;
use weir_core::{ResourceVersion, SlotSet};
use weir_proxy::hub::{End, Hub, HubBounds};
use weir_proxy::merge::{Asked, InterestId, Merges, NodeIndex, Output};
use weir_shard_node::node::SessionId;

use crate::reached::Reached;
use crate::settings::{self, Settings};
use crate::shard::Shard;

/// A proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) session: SessionId,
    pub(crate) merges: Merges,
    pub(crate) hubs: BTreeMap<InterestId, OpenHub>,
    hub_bounds: HubBounds,
    /// The hub that new clients of an interest join.
    pub(crate) shared: BTreeMap<usize, InterestId>,
    pub(crate) to_nodes: Vec<VecDeque<ToNode>>,
    pub(crate) from_nodes: Vec<VecDeque<FromNode>>,
    pub(crate) asks: Vec<Ask>,
}

/// A hub and how many clients hold it.
#[derive(Debug)]
pub(crate) struct OpenHub {
    pub(crate) hub: Hub,
    pub(crate) users: usize,
}

/// A question about a log, and its answer once a node has given it.
#[derive(Debug)]
pub(crate) struct Ask {
    asked: Asked,
    request: LogRequest,
    answer: Option<Result<Statement<InterestEvent>, Unanswered>>,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn new(index: usize, settings: &Settings, slots: Vec<SlotSet>) -> Self {
        Self {
            session: SessionId(index as u64),
            merges: Merges::new(slots, settings.credit),
            hubs: BTreeMap::new(),
            hub_bounds: settings.hub,
            shared: BTreeMap::new(),
            to_nodes: (0..settings.nodes).map(|_| VecDeque::new()).collect(),
            from_nodes: (0..settings.nodes).map(|_| VecDeque::new()).collect(),
            asks: Vec::new(),
        }
    }

    /// Does what the merges want.
    pub(crate) fn carry(&mut self, outputs: Vec<Output>, reached: &mut Reached) {
        for output in outputs {
            match output {
                Output::Send(node, message) => self.to_nodes[node.0].push_back(message),
                Output::AskLog(asked, mut request) => {
                    // Short answers, so that what a range holds comes near its bound.
                    let limit = ResourceVersion::new(request.after.get() + settings::MAX_LOG);
                    request.to = request.to.min(limit);
                    self.asks.push(Ask { asked, request, answer: None });
                }
                Output::Release(id, events) => {
                    reached.released += events.len();
                    let open = self.hubs.get_mut(&id).expect("only open interests are released");
                    open.hub.push(events);
                }
                Output::TooOld(id) => {
                    reached.too_old += 1;
                    self.hubs.get_mut(&id).expect("only open interests end").hub.end(End::TooOld);
                    self.shared.retain(|_, shared| *shared != id);
                }
                // Every interest that it concerns has ended by itself.
                Output::Restored(_) => {}
            }
        }
    }

    /// The session with a node breaks, with all that is under way on it, and another takes its place.
    pub(crate) fn lose_session(&mut self, node: usize, shard: &mut Shard, reached: &mut Reached) {
        reached.lost += 1;
        shard.node.detach(self.session);
        self.to_nodes[node].clear();
        self.from_nodes[node].clear();
        let outgoing = shard.node.attach(self.session);
        self.from_nodes[node].extend(outgoing.into_iter().map(|(_, said)| said));
        let outputs = self.merges.on_session(NodeIndex(node), shard.slots);
        self.carry(outputs, reached);
    }

    /// The next message of this proxy reaches the node.
    pub(crate) fn deliver_to(&mut self, node: usize, shard: &mut Shard) -> bool {
        let Some(message) = self.to_nodes[node].pop_front() else { return false };
        let outgoing = shard.node.on_session(self.session, message);
        self.from_nodes[node].extend(outgoing.into_iter().map(|(_, said)| said));
        true
    }

    /// The next message of the node reaches this proxy.
    pub(crate) fn deliver_from(&mut self, node: usize, reached: &mut Reached) -> bool {
        let Some(message) = self.from_nodes[node].pop_front() else { return false };
        reached.left += usize::from(matches!(message, FromNode::Left { .. }));
        let outputs = self.merges.on_node(NodeIndex(node), message);
        self.carry(outputs, reached);
        true
    }

    /// Whether something is still under way.
    pub(crate) fn is_busy(&self) -> bool {
        let is_waiting = self.to_nodes.iter().any(|queue| !queue.is_empty());
        is_waiting || self.from_nodes.iter().any(|queue| !queue.is_empty()) || !self.asks.is_empty()
    }

    /// A question moves on: asked of the node, or answered. An answer may come again later.
    pub(crate) fn step_ask(&mut self, shards: &[Shard], rng: &mut StdRng, reached: &mut Reached) -> bool {
        if self.asks.is_empty() {
            return false;
        }
        let index = rng.random_range(0..self.asks.len());
        let ask = &mut self.asks[index];
        match &ask.answer {
            None => ask.answer = Some(shards[ask.asked.node.0].node.store().log(&ask.request)),
            Some(answer) => {
                let (asked, answer) = (ask.asked, answer.clone());
                match rng.random_range(0..8) {
                    // The answer is lost, and the question asked again.
                    0 => {
                        ask.answer = None;
                        return true;
                    }
                    // The answer comes, and once more later.
                    1 => {}
                    _ => drop(self.asks.swap_remove(index)),
                }
                let outputs = self.merges.on_log(asked, answer);
                self.carry(outputs, reached);
            }
        }
        true
    }

    /// Opens an interest after `after` with a hub that begins there.
    pub(crate) fn open(
        &mut self,
        interest: &Arc<Interest>,
        after: ResourceVersion,
        reached: &mut Reached,
    ) -> InterestId {
        let (id, outputs) = self.merges.open(interest.clone(), after);
        self.hubs.insert(id, OpenHub { hub: Hub::new(after, self.hub_bounds), users: 0 });
        self.carry(outputs, reached);
        id
    }

    /// A client takes hold of a hub.
    pub(crate) fn hold(&mut self, id: InterestId) {
        self.hubs.get_mut(&id).expect("clients hold open hubs").users += 1;
    }

    /// A client lets go of a hub; the interest closes with the last one.
    pub(crate) fn let_go(&mut self, id: InterestId, reached: &mut Reached) {
        let open = self.hubs.get_mut(&id).expect("clients hold open hubs");
        open.users -= 1;
        if open.users == 0 {
            self.hubs.remove(&id);
            self.shared.retain(|_, shared| *shared != id);
            let outputs = self.merges.close(id);
            self.carry(outputs, reached);
        }
    }
}
