//! Who was told what, of the answers that upstream's own audit log does not have because a mirror gave them: events of
//! audit.k8s.io/v1 at the level Metadata, as kube-apiserver writes them. Never a body.
//!
//! Where something is to be audited, what cannot be is not answered here: while a sink takes nothing, upstream answers, and
//! writes its own log.

mod event;
pub mod file;
mod sink;
pub mod webhook;

use std::collections::BTreeSet;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use weir_core::GroupVersionResource;

pub(crate) use self::event::{Event, Stage};
pub use self::sink::{Sink, Source};
use crate::audited::Audited;

/// What is audited, and where it goes. Clones share it.
#[derive(Clone, Debug)]
pub struct Audit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    audited: Audited,
    sinks: Vec<Sink>,
}

// === impl Audit ===

impl Audit {
    /// Answers about these go to all of these sinks. Without a sink nothing is audited.
    pub fn new(audited: Audited, sinks: Vec<Sink>) -> Self {
        Self(Arc::new(Shared { audited, sinks }))
    }

    /// Nothing is audited.
    pub fn none() -> Self {
        Self::new(Audited::Only(BTreeSet::new()), Vec::new())
    }

    /// Shows the numbers.
    pub fn register(&self, registry: &mut Registry) {
        for sink in &self.0.sinks {
            sink.register(registry);
        }
    }

    /// Whether answers about a resource are audited.
    pub(crate) fn covers(&self, resource: &GroupVersionResource) -> bool {
        !self.0.sinks.is_empty() && self.0.audited.covers(resource)
    }

    /// Whether all sinks take events.
    pub(crate) fn is_up(&self) -> bool {
        self.0.sinks.iter().all(Sink::is_up)
    }

    /// Tells all sinks of an event.
    pub(crate) fn put(&self, event: &Event) {
        let line = event.line();
        for sink in &self.0.sinks {
            sink.put(line.clone());
        }
    }
}
