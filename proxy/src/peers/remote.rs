//! One mirror on one node of another process: what the session says of it waits here for the mirror's fan-out.

mod questions;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use weir_core::message::{self, FromNode, ToNode};
use weir_core::mirror::{MirrorFacts, MirrorSpec};
use weir_core::window::Window;
use weir_core::{GroupVersionResource, History, ResourceVersion, SlotSet};
use weir_proto::session::{self, Attached, MirrorNumber, Names, Open, Registration, Unmirrored};

use super::names::{NameSets, Translated};
use super::peer::Peer;

/// What a node says, and what becomes of its session, in order.
#[derive(Clone, Debug)]
pub enum Said {
    /// A session stands; the node holds these slots.
    Up(SlotSet),
    /// The node says this.
    Node(FromNode),
    /// The session is gone.
    Down,
}

/// What a node can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The slots that it holds.
    pub slots: SlotSet,
    /// The history that it is of.
    pub history: History,
    /// Floor and frontier, as far as it has said.
    pub window: Window,
}

/// One mirror on one node of another process.
#[derive(Debug)]
pub struct RemoteMirror {
    resource: GroupVersionResource,
    peer: Weak<Peer>,
    wake: Arc<Notify>,
    state: Mutex<State>,
    spec: watch::Sender<Option<Arc<MirrorSpec>>>,
    facts: watch::Sender<Option<Arc<MirrorFacts>>>,
    refused: watch::Sender<Option<Unmirrored>>,
}

#[derive(Debug)]
struct State {
    inbox: VecDeque<Said>,
    /// The node's number of the mirror on the present session, once it has told.
    number: Option<MirrorNumber>,
    slots: SlotSet,
    history: History,
    floor: ResourceVersion,
    frontier: ResourceVersion,
    awaited: Awaited,
    /// What is registered by name.
    names: NameSets,
}

/// Where somebody waits for the node's frontier to come.
#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    /// What the node was told of; the next is told when it has come there.
    told: ResourceVersion,
    /// The furthest.
    upmost: ResourceVersion,
}

// === impl RemoteMirror ===

impl RemoteMirror {
    pub(super) fn new(resource: GroupVersionResource, peer: Weak<Peer>, wake: Arc<Notify>) -> Self {
        Self {
            resource,
            peer,
            wake,
            state: Mutex::new(State {
                inbox: VecDeque::new(),
                number: None,
                slots: SlotSet::EMPTY,
                history: History::FIRST,
                floor: ResourceVersion::ZERO,
                frontier: ResourceVersion::ZERO,
                awaited: Awaited::default(),
                names: NameSets::default(),
            }),
            spec: watch::Sender::new(None),
            facts: watch::Sender::new(None),
            refused: watch::Sender::new(None),
        }
    }

    /// The collection.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.resource
    }

    /// What is mirrored, once the node has told.
    pub fn spec(&self) -> watch::Receiver<Option<Arc<MirrorSpec>>> {
        self.spec.subscribe()
    }

    /// What answers repeat of upstream's, once the node has told.
    pub fn facts(&self) -> watch::Receiver<Option<Arc<MirrorFacts>>> {
        self.facts.subscribe()
    }

    /// Why the node does not mirror it, if it has said so.
    pub fn refused(&self) -> watch::Receiver<Option<Unmirrored>> {
        self.refused.subscribe()
    }

    pub(crate) fn standing(&self) -> Option<Standing> {
        let state = self.state.lock();
        let State { number, slots, history, floor, frontier, .. } = &*state;
        let window = Window { floor: *floor, frontier: *frontier };
        (number.is_some() && !frontier.is_zero()).then_some(Standing {
            slots: *slots,
            history: *history,
            window,
        })
    }

    pub(crate) fn take(&self) -> Vec<Said> {
        std::mem::take(&mut self.state.lock().inbox).into()
    }

    pub(crate) fn send(&self, message: ToNode) {
        let Some(peer) = self.peer.upgrade() else { return };
        peer.say(|| {
            let mut state = self.state.lock();
            if state.number.is_none() {
                return Vec::new();
            }
            let translated = state.names.say(message);
            let is_told = !translated.said.is_empty();
            let to_node = self.carry(&mut state, translated);
            drop(state);
            if is_told {
                self.wake();
            }
            to_node
        });
    }

    /// Puts what is for the fan-out into the inbox. What is for the node, in words of the session.
    fn carry(&self, state: &mut State, translated: Translated) -> Vec<session::ToNode> {
        let Translated { to_node, said } = translated;
        state.inbox.extend(said.into_iter().map(Said::Node));
        let Some(number) = state.number else { return Vec::new() };
        to_node.into_iter().filter_map(|message| self.worded(number, message)).collect()
    }

    fn worded(&self, number: MirrorNumber, message: ToNode) -> Option<session::ToNode> {
        let registration = |id| Registration { mirror: number, id };
        Some(match message {
            ToNode::Open(open) => session::ToNode::Open(self.worded_open(number, &open)?),
            ToNode::OpenNames(open, names) => {
                session::ToNode::Open(Open { names: Some(names), ..self.worded_open(number, &open)? })
            }
            ToNode::Names(change) => session::ToNode::Names(Names::of(number, change)),
            ToNode::Close(id) => session::ToNode::Close(registration(id)),
            ToNode::Credit(id, credit) => session::ToNode::Credit(registration(id), credit),
        })
    }

    fn worded_open(&self, number: MirrorNumber, open: &message::Open) -> Option<Open> {
        let spec = self.spec.borrow().clone()?;
        match Open::of(number, open, spec.schema.table()) {
            Ok(open) => Some(open),
            Err(error) => {
                // The interest was made with this very table.
                tracing::error!(%error, resource = %self.resource, "an interest cannot be put into words");
                None
            }
        }
    }

    /// The session carries the mirror from now on.
    pub(super) fn up(&self, slots: SlotSet, attached: Attached) {
        let Attached { mirror, spec, facts, history } = attached;
        let is_namespaced = spec.is_namespaced;
        self.spec.send_replace(Some(Arc::new(spec)));
        if let Some(facts) = facts {
            self.learned(facts);
        }
        self.refused.send_replace(None);
        let mut state = self.state.lock();
        state.number = Some(mirror);
        state.names.begin(is_namespaced);
        (state.slots, state.history) = (slots, history);
        state.begin_anew();
        state.inbox.push_back(Said::Up(slots));
        state.inbox.push_back(Said::Node(FromNode::History(history)));
        drop(state);
        self.wake.notify_one();
    }

    /// The session is gone.
    pub(super) fn down(&self) {
        let mut state = self.state.lock();
        if state.number.take().is_none() {
            return;
        }
        // What it said and nobody has taken was true when it was said; the fan-out judges it as before.
        state.inbox.push_back(Said::Down);
        drop(state);
        self.wake.notify_one();
    }

    /// The node does not carry the mirror, or no longer.
    pub(super) fn unmirrored(&self, reason: Unmirrored) {
        self.refused.send_replace(Some(reason));
        self.down();
    }

    pub(crate) fn was_refused(&self) -> bool {
        self.refused.borrow().is_some()
    }

    pub(super) fn learned(&self, facts: MirrorFacts) {
        self.facts.send_replace(Some(Arc::new(facts)));
    }

    /// A part of a flush; the caller wakes the fan-out behind the last one. What is to be said to the node in turn.
    pub(super) fn hear(&self, said: session::Said) -> Vec<session::ToNode> {
        let mut state = self.state.lock();
        let message = match said {
            session::Said::Floor(floor) => {
                state.floor = state.floor.max(floor);
                return Vec::new();
            }
            session::Said::Node(message) => message,
        };
        match &message {
            FromNode::Said(statement) => state.frontier = state.frontier.max(statement.to()),
            FromNode::Restored { history, .. } | FromNode::History(history) => {
                state.history = *history;
                state.begin_anew();
            }
            FromNode::Live { .. } | FromNode::Named { .. } => {}
            FromNode::NotMine(_) | FromNode::Left { .. } | FromNode::TooOld(_) => {}
        }
        let translated = state.names.hear(message);
        let mut to_node = self.carry(&mut state, translated);
        to_node.extend(state.tell_awaited());
        to_node
    }

    /// Somebody waits for the node's frontier to come to `at`.
    pub(crate) fn reach(&self, at: ResourceVersion) {
        let is_news = |state: &State| at > state.frontier.max(state.awaited.upmost);
        if !is_news(&self.state.lock()) {
            return;
        }
        let Some(peer) = self.peer.upgrade() else { return };
        peer.say(|| {
            let mut state = self.state.lock();
            state.awaited.upmost = state.awaited.upmost.max(at);
            state.tell_awaited().into_iter().collect()
        });
    }

    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }
}

// === impl State ===

impl State {
    /// What the node held is over.
    fn begin_anew(&mut self) {
        (self.floor, self.frontier) = (ResourceVersion::ZERO, ResourceVersion::ZERO);
        self.awaited = Awaited::default();
    }

    /// What the node is to be told of now: one position at a time, so that however often somebody waits it is told no more
    /// often than it answers.
    fn tell_awaited(&mut self) -> Option<session::ToNode> {
        let Awaited { told, upmost } = self.awaited;
        let number = self.number?;
        if told > self.frontier || upmost <= self.frontier {
            return None;
        }
        self.awaited.told = upmost;
        Some(session::ToNode::Reach(number, upmost))
    }
}
