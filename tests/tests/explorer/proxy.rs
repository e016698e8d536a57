//! A proxy of the model: the real merges and hubs, and the sessions that carry messages. Each session keeps its order;
//! everything else may come late, and answers to questions may come twice.
//!
//! Whatever the merges are told is judged at once: see `judge`.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use weir_core::interest::Interest;
use weir_core::message::{FromNode, InterestEvent, LogRequest, ToNode, Unanswered};
use weir_core::statement::Statement;
use weir_core::{ResourceVersion, SlotSet};
use weir_proxy::hub::{Hub, HubBounds};
use weir_proxy::merge::{Asked, InterestId, Merges, NodeIndex, Output};
use weir_shard_node::node::SessionId;

use crate::line::{Line, State};
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
    /// Its sessions, by place of the node.
    pub(crate) lines: Vec<Line>,
    asks: Vec<Ask>,
    /// The highest position that a client was promised in the present history.
    pub(crate) promised: ResourceVersion,
}

/// A hub and how many clients hold it.
#[derive(Debug)]
pub(crate) struct OpenHub {
    pub(crate) hub: Hub,
    pub(crate) interest: Arc<Interest>,
    /// Where it was opened.
    pub(crate) after: ResourceVersion,
    users: usize,
}

/// A question about a log, and its answer once a node has given it.
#[derive(Debug)]
struct Ask {
    asked: Asked,
    request: LogRequest,
    answer: Option<Result<Statement<InterestEvent>, Unanswered>>,
}

/// What a proxy has around it.
pub(crate) struct Scene<'a> {
    /// The nodes, by place.
    pub(crate) nodes: &'a [Shard],
    /// The shards.
    pub(crate) slots: &'a [SlotSet],
    pub(crate) reached: &'a mut Reached,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn new(index: usize, settings: &Settings, nodes: &[Shard]) -> Self {
        Self {
            session: SessionId(index as u64),
            merges: Merges::new(settings.slots(), settings.credit),
            hubs: BTreeMap::new(),
            hub_bounds: settings.hub,
            shared: BTreeMap::new(),
            lines: nodes.iter().map(Line::down).collect(),
            asks: Vec::new(),
            promised: ResourceVersion::ZERO,
        }
    }

    /// Tells the merges something, does what they want, and judges it. What they wanted.
    pub(crate) fn tell(
        &mut self,
        scene: &mut Scene<'_>,
        what: impl FnOnce(&mut Merges) -> Vec<Output>,
    ) -> Vec<Output> {
        let before = self.look();
        let outputs = what(&mut self.merges);
        self.judge(&before, &outputs, scene);
        self.carry(outputs.clone(), scene.reached);
        outputs
    }

    fn carry(&mut self, outputs: Vec<Output>, reached: &mut Reached) {
        for output in outputs {
            match output {
                Output::Send(node, message) => {
                    let line = self.lines.iter_mut().find(|line| line.node == node);
                    let line = line.filter(|line| line.state != State::Down);
                    let line = line.expect("nothing is said on a session that is known to be gone");
                    if line.state == State::Up {
                        line.to_node.push_back(message);
                    }
                }
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
                Output::Ended(id, why) => {
                    reached.too_old += 1;
                    self.hubs.get_mut(&id).expect("only open interests end").hub.end(why);
                    self.shared.retain(|_, shared| *shared != id);
                }
                // Every interest that it concerns has ended by itself.
                Output::Restored(_) | Output::Refused(_) => {}
            }
        }
    }

    /// The next message of this proxy reaches the node.
    pub(crate) fn deliver_to(&mut self, place: usize, shard: &mut Shard) -> bool {
        self.lines[place].arrive(self.session, shard)
    }

    /// The next message of the node reaches this proxy.
    pub(crate) fn deliver_from(&mut self, place: usize, scene: &mut Scene<'_>) -> bool {
        let line = &mut self.lines[place];
        let Some(message) = line.from_node.pop_front() else { return false };
        line.hear(&message);
        let node = line.node;
        scene.reached.left += usize::from(matches!(message, FromNode::Left { .. }));
        scene.reached.denied += usize::from(matches!(message, FromNode::NotMine(_)));
        let is_too_old = matches!(message, FromNode::TooOld(_));
        let outputs = self.tell(scene, |merges| merges.on_node(node, message));
        scene.reached.moved_by_too_old += usize::from(is_too_old && goes_on(&outputs, node));
        true
    }

    /// The proxy notices that a session is gone.
    pub(crate) fn notice(&mut self, place: usize, scene: &mut Scene<'_>) {
        let node = self.lines[place].node;
        let is_known = std::mem::replace(&mut self.lines[place].state, State::Down) == State::Down;
        if !is_known {
            scene.reached.moved_holding += usize::from(self.merges.buffered(node) > 0);
            self.tell(scene, |merges| merges.on_session_lost(node));
        }
    }

    /// A session takes the place of whatever there was.
    pub(crate) fn connect(&mut self, place: usize, line: Line, scene: &mut Scene<'_>) {
        let old = self.lines[place].node;
        if old != line.node {
            self.notice(place, scene);
        }
        scene.reached.unnoticed += usize::from(self.lines[place].state != State::Down);
        scene.reached.moved_holding += usize::from(self.merges.buffered(old) > 0);
        let (node, slots) = (line.node, scene.nodes[place].slots);
        self.lines[place] = line;
        self.tell(scene, |merges| merges.on_session(node, slots));
    }

    /// Others went on without this node.
    pub(crate) fn avoid(&mut self, place: usize, scene: &mut Scene<'_>) {
        let node = self.lines[place].node;
        let held = self.merges.buffered(node);
        let outputs = self.tell(scene, |merges| merges.avoid(node));
        let has_left = outputs.iter().any(|output| matches!(output, Output::Send(_, ToNode::Close(_))));
        scene.reached.avoided += usize::from(has_left);
        scene.reached.moved_holding += usize::from(has_left && held > 0);
    }

    /// Whether something is still under way.
    pub(crate) fn is_busy(&self) -> bool {
        let is_quiet = |line: &Line| line.to_node.is_empty() && line.from_node.is_empty();
        !self.lines.iter().all(is_quiet) || self.is_asking()
    }

    /// Whether a question has no answer yet.
    pub(crate) fn is_asking(&self) -> bool {
        !self.asks.is_empty()
    }

    /// Whether a node is being asked for its log.
    pub(crate) fn asks(&self, node: NodeIndex) -> bool {
        self.asks.iter().any(|ask| ask.asked.node == node)
    }

    /// A question moves on: asked of the node, or answered. An answer may come again later, and a question may be lost with
    /// its connection, which is not that of the session.
    pub(crate) fn step_ask(&mut self, scene: &mut Scene<'_>, rng: &mut StdRng) -> bool {
        if self.asks.is_empty() {
            return false;
        }
        let index = rng.random_range(0..self.asks.len());
        let ask = &self.asks[index];
        let Some(answer) = ask.answer.clone() else {
            let answer = self.answer(ask, scene, rng);
            self.asks[index].answer = Some(answer);
            return true;
        };
        let asked = ask.asked;
        match rng.random_range(0..8) {
            // The answer is lost, and the question asked again.
            0 => {
                self.asks[index].answer = None;
                return true;
            }
            // The answer comes, and once more later.
            1 => {}
            _ => drop(self.asks.swap_remove(index)),
        }
        let is_too_old = matches!(answer, Err(Unanswered::TooOld { .. }));
        let outputs = self.tell(scene, |merges| merges.on_log(asked, answer));
        scene.reached.moved_by_too_old += usize::from(is_too_old && goes_on(&outputs, asked.node));
        true
    }

    fn answer(
        &self,
        ask: &Ask,
        scene: &mut Scene<'_>,
        rng: &mut StdRng,
    ) -> Result<Statement<InterestEvent>, Unanswered> {
        let node = ask.asked.node;
        if self.lines.iter().any(|line| line.node == node && line.denies) {
            return Err(Unanswered::NotMine);
        }
        match scene.nodes.iter().find(|shard| shard.number == node) {
            Some(shard) if !rng.random_ratio(1, 12) => shard.node.store().log(&ask.request),
            Some(_) | None => {
                scene.reached.unconnected += 1;
                Err(Unanswered::Empty)
            }
        }
    }

    /// Opens an interest after `after` with a hub that begins there.
    pub(crate) fn open(
        &mut self,
        interest: &Arc<Interest>,
        after: ResourceVersion,
        scene: &mut Scene<'_>,
    ) -> InterestId {
        let before = self.look();
        let (id, outputs) = self.merges.open(interest.clone(), after);
        let hub = Hub::new(after, self.hub_bounds);
        self.hubs.insert(id, OpenHub { hub, interest: interest.clone(), after, users: 0 });
        self.judge(&before, &outputs, scene);
        self.carry(outputs, scene.reached);
        id
    }

    /// A client takes hold of a hub.
    pub(crate) fn hold(&mut self, id: InterestId) {
        self.hubs.get_mut(&id).expect("clients hold open hubs").users += 1;
    }

    /// A client lets go of a hub; the interest closes with the last one.
    pub(crate) fn let_go(&mut self, id: InterestId, scene: &mut Scene<'_>) {
        let open = self.hubs.get_mut(&id).expect("clients hold open hubs");
        open.users -= 1;
        if open.users == 0 {
            self.hubs.remove(&id);
            self.shared.retain(|_, shared| *shared != id);
            self.tell(scene, |merges| merges.close(id));
        }
    }
}

/// Whether a range that a node could not lead on went on at another.
fn goes_on(outputs: &[Output], node: NodeIndex) -> bool {
    let is_elsewhere =
        |output: &Output| matches!(output, Output::Send(other, ToNode::Open(_)) if *other != node);
    let is_over = outputs.iter().any(|output| matches!(output, Output::Ended(..)));
    !is_over && outputs.iter().any(is_elsewhere)
}
