//! One node of one mirror as this proxy reaches it: in the same process, or over a session. Both say the same things in the
//! same order; a node that is lost simply holds nothing until its next session.

use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use weir_core::interest::{Interest, Scope};
use weir_core::message::{
    CountRequest, InterestEvent, LogRequest, SnapshotChunk, SnapshotRequest, SnapshotStart, ToNode,
    Unanswered,
};
use weir_core::selector::LabelSelector;
use weir_core::statement::Statement;
use weir_core::{History, Object, ObjectKey, ResourceVersion, SlotSet};
use weir_shard_node::node::SessionId;
use weir_shard_node::node::cell::{NodeCell, Outbox};

use crate::peers::remote::{RemoteMirror, Said, Standing};

/// The session of this proxy at a node in the same process.
const SESSION: SessionId = SessionId(0);

/// One node of one mirror.
#[derive(Clone, Debug)]
pub enum Link {
    /// In this process.
    Local(LocalLink),
    /// In another one.
    Remote(Arc<RemoteMirror>),
}

/// A node in this process, and what it says to this proxy.
#[derive(Clone, Debug)]
pub struct LocalLink {
    cell: Arc<NodeCell>,
    outbox: Arc<OnceLock<Arc<Outbox>>>,
}

// === impl Link ===

impl Link {
    /// A node in this process.
    pub fn local(cell: Arc<NodeCell>) -> Self {
        Self::Local(LocalLink { cell, outbox: Arc::default() })
    }

    /// What the node can answer now; `None` while it holds nothing, or is not there.
    pub fn standing(&self) -> Option<Standing> {
        match self {
            Self::Local(LocalLink { cell, .. }) => {
                let (history, window) = cell.standing()?;
                Some(Standing { slots: cell.slots(), history, window })
            }
            Self::Remote(mirror) => mirror.standing(),
        }
    }

    /// Takes what the node has said since the last time. `wake` is notified when there is more.
    pub fn take(&self, wake: &Arc<Notify>) -> Vec<Said> {
        match self {
            Self::Local(link) => link.take(wake),
            Self::Remote(mirror) => mirror.take(),
        }
    }

    /// Says something on the session. What is said to a node that is lost is lost with it.
    pub fn send(&self, message: ToNode) {
        match self {
            Self::Local(LocalLink { cell, .. }) => cell.on_session(SESSION, message),
            Self::Remote(mirror) => mirror.send(message),
        }
    }

    /// Somebody waits for the node's frontier to come to `at`. One in this process says at once what it has.
    pub fn reach(&self, at: ResourceVersion) {
        if let Self::Remote(mirror) = self {
            mirror.reach(at);
        }
    }

    /// A piece of a snapshot.
    pub async fn snapshot(&self, request: &SnapshotRequest) -> Result<SnapshotChunk, Unanswered> {
        match self {
            Self::Local(LocalLink { cell, .. }) => cell.snapshot(request),
            Self::Remote(mirror) => mirror.snapshot(request).await,
        }
    }

    /// One object as it was at `at`, if it is of these slots.
    pub async fn get(
        &self,
        (history, slots): (History, &SlotSet),
        key: &ObjectKey,
        at: ResourceVersion,
    ) -> Result<Option<Arc<Object>>, Unanswered> {
        let mirror = match self {
            Self::Local(LocalLink { cell, .. }) => return cell.get(history, key, at),
            Self::Remote(mirror) => mirror,
        };
        let namespace = Some(key.namespace()).filter(|namespace| !namespace.is_empty());
        let scope = Scope { namespace: namespace.map(Arc::from), name: Some(key.name().into()) };
        let request = SnapshotRequest {
            history,
            interest: Arc::new(Interest::new(scope, LabelSelector::everything(), Vec::new(), None)),
            slots: *slots,
            at,
            from: Some(SnapshotStart::At(key.as_str().into())),
            max_objects: 1,
        };
        let found = mirror.snapshot(&request).await?.objects;
        Ok(found.into_iter().find(|object| object.key() == key))
    }

    /// A piece of the log of an interest.
    pub async fn log(&self, request: &LogRequest) -> Result<Statement<InterestEvent>, Unanswered> {
        match self {
            Self::Local(LocalLink { cell, .. }) => cell.log(request),
            Self::Remote(mirror) => mirror.log(request).await,
        }
    }

    /// How many objects of a scope there were.
    pub async fn count(&self, request: CountRequest) -> Result<usize, Unanswered> {
        match self {
            Self::Local(LocalLink { cell, .. }) => cell.count(request),
            Self::Remote(mirror) => mirror.count(&request).await,
        }
    }
}

// === impl LocalLink ===

impl LocalLink {
    /// The node, where it can answer without waiting.
    pub fn cell(&self) -> &Arc<NodeCell> {
        &self.cell
    }

    fn take(&self, wake: &Arc<Notify>) -> Vec<Said> {
        let mut said = Vec::new();
        let outbox = self.outbox.get_or_init(|| {
            said.push(Said::Up(self.cell.slots()));
            self.cell.attach(SESSION, wake.clone().into())
        });
        said.extend(outbox.take().into_iter().map(Said::Node));
        said
    }
}
