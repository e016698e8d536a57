//! The nodes of one mirror as the proxy asks them: windows, snapshots, logs. Everything here is all or nothing: a node
//! that cannot answer makes the whole question fail, and no answer is silently short.

pub mod snapshot;

use std::sync::Arc;

use tokio::sync::Notify;
use weir_core::interest::{Interest, Scope};
use weir_core::message::{CountRequest, InterestEvent, LogRequest, SnapshotStart, ToNode, Unanswered};
use weir_core::statement::Statement;
use weir_core::window::Window;
use weir_core::{History, Object, ObjectKey, ResourceVersion, SlotSet};
use weir_shard_node::node::SessionId;
use weir_shard_node::node::cell::{NodeCell, Outbox};

use snapshot::Snapshot;

/// The session of this proxy at a node in the same process.
const SESSION: SessionId = SessionId(0);

/// The nodes of one mirror; their slots partition the space.
#[derive(Clone, Debug)]
pub struct Shards(Arc<[Arc<NodeCell>]>);

// === impl Shards ===

impl Shards {
    /// Over these nodes.
    pub fn new(nodes: Vec<Arc<NodeCell>>) -> Self {
        Self(nodes.into())
    }

    /// The slots of each node.
    pub fn slots(&self) -> Vec<SlotSet> {
        self.0.iter().map(|node| node.slots()).collect()
    }

    /// Which of upstream's histories the nodes hold; `None` while some of them hold another than the rest.
    pub fn history(&self) -> Option<History> {
        let mut histories = self.0.iter().map(|node| node.history());
        let first = histories.next()?;
        histories.all(|history| history == first).then_some(first)
    }

    /// The revisions that all nodes can answer, in one history; `None` while there is none.
    pub fn window(&self) -> Option<Window> {
        self.history()?;
        let windows: Option<Vec<Window>> = self.0.iter().map(|node| node.window()).collect();
        let windows = windows?;
        let floor = windows.iter().map(|window| window.floor).max()?;
        let frontier = Window::highest_common(windows)?;
        Some(Window { floor, frontier })
    }

    /// The collection at exactly `at`, from a start on. Fails unless all nodes can answer there.
    pub fn snapshot(
        &self,
        interest: &Arc<Interest>,
        at: ResourceVersion,
        from: Option<SnapshotStart>,
    ) -> Result<Snapshot, Unanswered> {
        let history = self.history().ok_or(Unanswered::Empty)?;
        let wanted = interest.slots();
        let nodes = self.0.iter().map(|node| (node.clone(), node.slots().intersection(&wanted)));
        Snapshot::open(
            nodes.filter(|(_, slots)| !slots.is_empty()).collect(),
            interest.clone(),
            (history, at, from),
        )
    }

    /// One object as it was at `at`.
    pub fn get(&self, key: &ObjectKey, at: ResourceVersion) -> Result<Option<Arc<Object>>, Unanswered> {
        let history = self.history().ok_or(Unanswered::Empty)?;
        for node in self.0.iter() {
            if let Some(object) = node.get(history, key, at)? {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// How many objects of a scope existed at `at`, from a start on; counting ends once a node has `at_most`.
    pub fn count(
        &self,
        scope: &Scope,
        (at, from): (ResourceVersion, Option<&SnapshotStart>),
        at_most: usize,
    ) -> Result<usize, Unanswered> {
        let history = self.history().ok_or(Unanswered::Empty)?;
        let request =
            |slots| CountRequest { history, scope: scope.clone(), slots, at, from: from.cloned(), at_most };
        self.0.iter().map(|node| node.count(request(node.slots()))).sum()
    }

    /// The log of one node.
    pub fn log(&self, node: usize, request: &LogRequest) -> Result<Statement<InterestEvent>, Unanswered> {
        self.0[node].log(request)
    }

    /// Opens this proxy's session at every node.
    pub fn attach(&self, wake: &Arc<Notify>) -> Vec<Arc<Outbox>> {
        self.0.iter().map(|node| node.attach(SESSION, wake.clone())).collect()
    }

    /// Sends a message on the session of a node.
    pub fn send(&self, node: usize, message: ToNode) {
        self.0[node].on_session(SESSION, message);
    }
}
