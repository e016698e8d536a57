//! A node shared by tasks: the lock around it and the queues of its sessions. What a step says is queued before the lock is
//! released, so a session's messages stand in the order in which they were made.
//!
//! A queue holds at most what credit allows, `Live` and one end for each registration, an answer to each change of names, and
//! one frontier behind each of those: a frontier without events joins the one that waits at the end. So a session that takes
//! nothing holds what its credit allows however long the log goes on, as long as it registers and changes nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use weir_core::message::{
    CountRequest, FeedMessage, FromNode, InterestEvent, LogRequest, OpenId, SnapshotChunk, SnapshotRequest,
    SnapshotStart, ToNode, Unanswered,
};
use weir_core::statement::{Gap, SourceId, Statement};
use weir_core::window::Window;
use weir_core::{History, Object, ObjectKey, ResourceVersion, SlotSet, WindowBounds};

use super::{Node, Outgoing, Registered, SessionId};
use crate::store::{Holdings, Now};

/// One mirror's shard, shared.
#[derive(Debug)]
pub struct NodeCell {
    slots: SlotSet,
    node: RwLock<Node>,
    outboxes: Mutex<HashMap<SessionId, Arc<Outbox>>>,
}

/// What waits to be carried to one session.
#[derive(Debug)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    wake: Wake,
}

/// Who is notified when something waits.
#[derive(Clone, Debug)]
pub struct Wake {
    /// Of what somebody may be waiting for.
    pub now: Arc<Notify>,
    /// Of a frontier that nobody has asked for.
    pub later: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<FromNode>,
    /// Where somebody waits for the frontier to come.
    reach: Option<ResourceVersion>,
}

/// What can be said of a mirror's log and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The history that it is of.
    pub history: History,
    /// Who vouched for the newest statement.
    pub source: Option<SourceId>,
    /// Floor and frontier; `None` while nothing is held.
    pub window: Option<Window>,
}

// === impl NodeCell ===

impl NodeCell {
    /// A node that holds nothing yet.
    pub fn new(slots: SlotSet, bounds: WindowBounds) -> Self {
        Self { slots, node: RwLock::new(Node::new(slots, bounds)), outboxes: Mutex::default() }
    }

    /// The slots it holds.
    pub fn slots(&self) -> SlotSet {
        self.slots
    }

    /// Opens a session; `wake` is notified when something waits for it.
    pub fn attach(&self, session: SessionId, wake: Wake) -> Arc<Outbox> {
        let outbox = Arc::new(Outbox { waiting: Mutex::default(), wake });
        let mut node = self.node.write();
        self.outboxes.lock().insert(session, outbox.clone());
        let outgoing = node.attach(session);
        self.queue(outgoing);
        outbox
    }

    /// Ends a session.
    pub fn detach(&self, session: SessionId) {
        let mut node = self.node.write();
        node.detach(session);
        self.outboxes.lock().remove(&session);
    }

    /// How many sessions carry it.
    pub fn sessions(&self) -> usize {
        self.outboxes.lock().len()
    }

    /// Hands over what a session says.
    pub fn on_session(&self, session: SessionId, message: ToNode) {
        let mut node = self.node.write();
        let outgoing = node.on_session(session, message);
        self.queue(outgoing);
    }

    /// Hands over what the feed says.
    pub fn on_feed(&self, message: FeedMessage, now: Now) -> Result<(), Gap> {
        let mut node = self.node.write();
        let outgoing = node.on_feed(message, now)?;
        self.queue(outgoing);
        Ok(())
    }

    /// Lets the window move with time.
    pub fn trim(&self, now: Now) {
        self.node.write().trim(now);
    }

    /// Drops the oldest events of an age, a bounded number of them. How many went, and how many bytes with them.
    pub fn cut(&self, older: (Duration, Now), max_events: usize) -> (usize, usize) {
        self.node.write().cut(older, max_events)
    }

    /// Floor and frontier; `None` while nothing is held.
    pub fn window(&self) -> Option<Window> {
        self.node.read().window()
    }

    /// What can be answered, and of which history; `None` while nothing is held.
    pub fn standing(&self) -> Option<(History, Window)> {
        let node = self.node.read();
        Some((node.store().history(), node.window()?))
    }

    /// What can be said of log and content in one step: of which history, who vouched last, and which part.
    pub fn outline(&self) -> Outline {
        let node = self.node.read();
        Outline { history: node.store().history(), source: node.store().source(), window: node.window() }
    }

    /// What a session has registered.
    pub fn registered(&self, session: SessionId, id: OpenId) -> Registered {
        self.node.read().registered(session, id)
    }

    /// Which of upstream's histories the node holds.
    pub fn history(&self) -> History {
        self.node.read().store().history()
    }

    /// A piece of a snapshot; the lock is held for this piece only.
    pub fn snapshot(&self, request: &SnapshotRequest) -> Result<SnapshotChunk, Unanswered> {
        self.node.read().store().snapshot(request)
    }

    /// A piece of the log of an interest.
    pub fn log(&self, request: &LogRequest) -> Result<Statement<InterestEvent>, Unanswered> {
        self.node.read().store().log(request)
    }

    /// One object at one revision.
    pub fn get(
        &self,
        history: History,
        key: &ObjectKey,
        at: ResourceVersion,
    ) -> Result<Option<Arc<Object>>, Unanswered> {
        self.node.read().store().get(history, key, at)
    }

    /// How many objects of a scope existed at one revision, as far as one hold of the lock goes; and behind which key to go
    /// on, `None` at the end.
    pub fn count_piece(&self, request: &CountRequest) -> Result<(usize, Option<ObjectKey>), Unanswered> {
        self.node.read().store().count(request)
    }

    /// How many objects of a scope existed at one revision. The lock is held for a piece at a time.
    pub fn count(&self, mut request: CountRequest) -> Result<usize, Unanswered> {
        let mut total = 0;
        loop {
            let (count, next) = self.count_piece(&request)?;
            total += count;
            match next {
                Some(key) if total < request.at_most => request.from = Some(SnapshotStart::Behind(key)),
                Some(_) | None => return Ok(total),
            }
        }
    }

    /// What is held.
    pub fn holdings(&self) -> Holdings {
        self.node.read().store().holdings()
    }

    fn queue(&self, outgoing: Vec<Outgoing>) {
        if outgoing.is_empty() {
            return;
        }
        let outboxes = self.outboxes.lock();
        for (session, message) in outgoing {
            if let Some(outbox) = outboxes.get(&session) {
                outbox.push(message);
            }
        }
    }
}

// === impl Outbox ===

impl Outbox {
    /// Takes everything that waits.
    pub fn take(&self) -> VecDeque<FromNode> {
        std::mem::take(&mut self.waiting.lock().messages)
    }

    /// Somebody waits for the frontier to come to `at`.
    pub fn reach(&self, at: ResourceVersion) {
        let mut waiting = self.waiting.lock();
        if let Some(FromNode::Said(said)) = waiting.messages.back()
            && said.to() >= at
        {
            drop(waiting);
            self.wake.now.notify_one();
            return;
        }
        waiting.reach = waiting.reach.max(Some(at));
    }

    fn push(&self, message: FromNode) {
        let mut waiting = self.waiting.lock();
        let is_frontier = matches!(&message, FromNode::Said(said) if said.events().is_empty());
        let is_urgent = waiting.reaches(&message) || !is_frontier;
        let is_joined = is_frontier && waiting.join(&message);
        if !is_joined {
            waiting.messages.push_back(message);
        }
        drop(waiting);
        match (is_urgent, is_joined) {
            (true, _) => self.wake.now.notify_one(),
            (false, false) => self.wake.later.notify_one(),
            // Whoever has not taken the one that it joined has been woken for it.
            (false, true) => {}
        }
    }
}

// === impl Waiting ===

impl Waiting {
    /// Whether what somebody waits for comes with this message.
    fn reaches(&mut self, message: &FromNode) -> bool {
        match message {
            FromNode::Said(said) => self.reach.take_if(|at| *at <= said.to()).is_some(),
            FromNode::Restored { .. } | FromNode::History(_) => {
                self.reach = None;
                false
            }
            _ => false,
        }
    }

    /// Joins a frontier to the one that waits at the end, if one does.
    fn join(&mut self, message: &FromNode) -> bool {
        let (Some(FromNode::Said(last)), FromNode::Said(said)) = (self.messages.back_mut(), message) else {
            return false;
        };
        if !last.events().is_empty() {
            return false;
        }
        *last = Statement::nothing(said.source(), last.after(), said.to());
        true
    }
}

// === impl Wake ===

impl From<Arc<Notify>> for Wake {
    /// One that is notified of everything.
    fn from(wake: Arc<Notify>) -> Self {
        Self { now: wake.clone(), later: wake }
    }
}

#[cfg(test)]
mod tests;
