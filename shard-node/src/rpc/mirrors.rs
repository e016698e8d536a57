//! The mirrors that the service serves: those of the host. Tests of the service start mirrors themselves.

use std::sync::Arc;

use weir_core::{GroupVersionResource, SlotSet};
use weir_proto::session::Unmirrored;

#[cfg(test)]
use super::testing::fixed::Fixed;
use crate::host::{Host, Hosted};

/// The mirrors that are served. Clones are the same.
#[derive(Clone, Debug)]
pub struct Mirrors(Origin);

/// Where mirrors come from.
#[derive(Clone, Debug)]
enum Origin {
    /// The host of this process.
    Host(Arc<Host>),
    /// A test.
    #[cfg(test)]
    Fixed(Fixed),
}

// === impl Mirrors ===

impl Mirrors {
    /// Those of a host, which starts what is asked for.
    pub fn of(host: Arc<Host>) -> Self {
        Self(Origin::Host(host))
    }

    /// Those that a test starts.
    #[cfg(test)]
    pub(super) fn fixed(fixed: Fixed) -> Self {
        Self(Origin::Fixed(fixed))
    }

    /// What every mirror of this process holds.
    pub(super) fn slots(&self) -> SlotSet {
        match &self.0 {
            Origin::Host(host) => host.slots(),
            #[cfg(test)]
            Origin::Fixed(fixed) => fixed.slots(),
        }
    }

    /// The mirror of a collection, started if need be; may take long.
    pub(super) async fn attach(&self, resource: &GroupVersionResource) -> Result<Arc<Hosted>, Unmirrored> {
        match &self.0 {
            Origin::Host(host) => host.attach(resource).await,
            #[cfg(test)]
            Origin::Fixed(fixed) => fixed.attach(resource).await,
        }
    }

    /// The mirror of a collection, if there is one.
    pub(super) fn hosted(&self, resource: &GroupVersionResource) -> Option<Arc<Hosted>> {
        match &self.0 {
            Origin::Host(host) => host.hosted(resource),
            #[cfg(test)]
            Origin::Fixed(fixed) => fixed.hosted(resource),
        }
    }

    /// All mirrors.
    pub(super) fn all(&self) -> Vec<Arc<Hosted>> {
        match &self.0 {
            Origin::Host(host) => host.all(),
            #[cfg(test)]
            Origin::Fixed(fixed) => fixed.all(),
        }
    }
}
