//! Mirrors that a test starts and ends itself, where a host would. Who attaches to one that is announced waits for it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use weir_core::{GroupVersionResource, SlotSet};
use weir_proto::session::Unmirrored;

use crate::host::Hosted;

/// The mirrors of a test. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    slots: SlotSet,
    hosted: Arc<watch::Sender<HashMap<GroupVersionResource, Announced>>>,
}

/// A mirror, or the word that it will come.
#[derive(Clone, Debug)]
enum Announced {
    Coming,
    Here(Arc<Hosted>),
}

// === impl Fixed ===

impl Fixed {
    /// None yet; each will hold these slots.
    pub(crate) fn new(slots: SlotSet) -> Self {
        Self { slots, hosted: Arc::default() }
    }

    /// A mirror will come: who attaches waits for it.
    pub(crate) fn announce(&self, resource: GroupVersionResource) {
        self.hosted.send_modify(|hosted| drop(hosted.insert(resource, Announced::Coming)));
    }

    /// A mirror is there.
    pub(crate) fn insert(&self, one: Hosted) -> Arc<Hosted> {
        let one = Arc::new(one);
        let entry = (one.resource().clone(), Announced::Here(one.clone()));
        self.hosted.send_modify(|hosted| hosted.extend([entry]));
        one
    }

    /// A mirror is there no longer.
    pub(crate) fn remove(&self, resource: &GroupVersionResource) {
        self.hosted.send_modify(|hosted| drop(hosted.remove(resource)));
    }

    /// What every mirror of this process holds.
    pub(crate) fn slots(&self) -> SlotSet {
        self.slots
    }

    /// The mirror of a collection; waits for one that will come.
    pub(crate) async fn attach(&self, resource: &GroupVersionResource) -> Result<Arc<Hosted>, Unmirrored> {
        let mut hosted = self.hosted.subscribe();
        let is_known =
            |hosted: &HashMap<_, Announced>| !matches!(hosted.get(resource), Some(Announced::Coming));
        let known = hosted.wait_for(is_known).await;
        let found = known.ok().and_then(|hosted| hosted.get(resource)?.here());
        found.ok_or(Unmirrored::NotServed)
    }

    /// The mirror of a collection, if there is one.
    pub(crate) fn hosted(&self, resource: &GroupVersionResource) -> Option<Arc<Hosted>> {
        self.hosted.borrow().get(resource)?.here()
    }

    /// All mirrors.
    pub(crate) fn all(&self) -> Vec<Arc<Hosted>> {
        self.hosted.borrow().values().filter_map(Announced::here).collect()
    }
}

// === impl Announced ===

impl Announced {
    fn here(&self) -> Option<Arc<Hosted>> {
        match self {
            Self::Coming => None,
            Self::Here(hosted) => Some(hosted.clone()),
        }
    }
}
