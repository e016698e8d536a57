//! The session of one proxy with one node: two queues, each of which keeps its order. A broken session may go unnoticed at the
//! proxy for a while; nothing arrives on it any more, in neither direction.

use std::collections::VecDeque;

use weir_core::message::{FromNode, ToNode};
use weir_core::{History, ResourceVersion};
use weir_proxy::merge::NodeIndex;
use weir_shard_node::node::SessionId;

use crate::shard::Shard;

/// One session.
#[derive(Debug)]
pub(crate) struct Line {
    /// The node as the proxy numbers it.
    pub(crate) node: NodeIndex,
    /// Which life of the node it is with.
    life: usize,
    pub(crate) state: State,
    pub(crate) to_node: VecDeque<ToNode>,
    pub(crate) from_node: VecDeque<FromNode>,
    /// The node says from here on that it does not hold what it is asked for.
    pub(crate) denies: bool,
    /// The proxy has heard that.
    pub(crate) is_denied: bool,
    history: History,
    said: ResourceVersion,
    /// The highest floor that the node had when it was lost with its store.
    last_floor: Option<ResourceVersion>,
}

/// Whether it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It stands.
    Up,
    /// It is broken, and the proxy has not noticed.
    Broken,
    /// The proxy knows that there is none.
    Down,
}

// === impl Line ===

impl Line {
    /// None with this node yet.
    pub(crate) fn down(shard: &Shard) -> Self {
        Self {
            node: shard.number,
            life: shard.life,
            state: State::Down,
            to_node: VecDeque::new(),
            from_node: VecDeque::new(),
            denies: false,
            is_denied: false,
            history: History::FIRST,
            said: ResourceVersion::ZERO,
            last_floor: None,
        }
    }

    /// A new one with the node as it is now.
    pub(crate) fn up(session: SessionId, shard: &mut Shard) -> Self {
        shard.node.detach(session);
        let mut line = Self { state: State::Up, ..Self::down(shard) };
        line.from_node.extend(shard.node.attach(session).into_iter().map(|(_, said)| said));
        line
    }

    /// It breaks, with all that is under way.
    pub(crate) fn cut(&mut self, session: SessionId, shard: &mut Shard) {
        // Questions are asked over another connection, and may have been answered since the session broke, even by a later life.
        let floor = shard.node.window().map(|window| window.floor);
        if self.life == shard.life {
            self.last_floor = floor;
        } else if self.node == shard.number {
            self.last_floor = self.last_floor.max(floor);
        }
        if self.state == State::Up {
            shard.node.detach(session);
            self.state = State::Broken;
        }
        self.to_node.clear();
        self.from_node.clear();
    }

    /// The next message reaches the node.
    pub(crate) fn arrive(&mut self, session: SessionId, shard: &mut Shard) -> bool {
        match self.to_node.pop_front() {
            None => return false,
            Some(ToNode::Open(open)) if self.denies => self.from_node.push_back(FromNode::NotMine(open.id)),
            Some(message) => {
                let outgoing = shard.node.on_session(session, message);
                self.from_node.extend(outgoing.into_iter().map(|(_, said)| said));
            }
        }
        true
    }

    /// What the proxy knows once it has heard this.
    pub(crate) fn hear(&mut self, said: &FromNode) {
        match said {
            FromNode::Said(statement) => self.said = self.said.max(statement.to()),
            FromNode::Restored { history, .. } | FromNode::History(history) => {
                self.history = *history;
                self.said = ResourceVersion::ZERO;
            }
            FromNode::NotMine(_) => self.is_denied = true,
            FromNode::Live { .. } | FromNode::Named { .. } | FromNode::Left { .. } | FromNode::TooOld(_) => {}
        }
    }

    /// How far the node has come, as the proxy knows it.
    pub(crate) fn said(&self) -> ResourceVersion {
        self.said
    }

    /// Whether the proxy can follow this node.
    pub(crate) fn serves(&self, history: History) -> bool {
        self.state != State::Down && self.history == history && !self.said.is_zero()
    }

    /// Whether the node's log begins after `position`, or did so in the life that this session was with, or the node has lost
    /// what it had: each of them is a reason to refuse, and the proxy may have heard of any.
    pub(crate) fn is_past(&self, position: ResourceVersion, shard: &Shard) -> bool {
        let is_past = |floor: Option<ResourceVersion>| floor.is_none_or(|floor| floor > position);
        let is_of_history = shard.node.store().history() == self.history;
        let floor = shard.node.window().filter(|_| is_of_history).map(|window| window.floor);
        shard.number == self.node && is_past(floor) || shard.life != self.life && is_past(self.last_floor)
    }

    /// One line for who looks at a failing run.
    pub(crate) fn describe(&self, shard: &Shard) -> String {
        let Self { node, life, state, said, last_floor, is_denied, history, .. } = self;
        format!(
            "{node:?} in life {life} {state:?} said {said} of {history}, denied {is_denied}, floor {last_floor:?} when cut; now in life {} of {} with {:?}",
            shard.life,
            shard.node.store().history(),
            shard.node.window()
        )
    }
}
