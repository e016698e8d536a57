//! One mirror of this process: its node, and what a session says of it first. The number is the process's own and is used
//! for one mirror only, so that a session that outlives a mirror cannot mix two.

use std::sync::Arc;

use tokio::sync::watch;
use weir_core::GroupVersionResource;
use weir_core::mirror::{MirrorFacts, MirrorSpec};
use weir_proto::session::MirrorNumber;

use crate::node::cell::NodeCell;

/// One mirror of this process.
#[derive(Clone, Debug)]
pub struct Hosted {
    /// How sessions of this process name it.
    pub number: MirrorNumber,
    /// What is mirrored.
    pub spec: Arc<MirrorSpec>,
    /// What answers repeat of upstream's; `None` before the first list.
    pub facts: watch::Receiver<Option<Arc<MirrorFacts>>>,
    /// Objects, log and sessions.
    pub cell: Arc<NodeCell>,
}

// === impl Hosted ===

impl Hosted {
    /// The collection.
    pub fn resource(&self) -> &GroupVersionResource {
        &self.spec.resource
    }
}
