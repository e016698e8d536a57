//! Where the events come from that show a watch the state at its start.

use std::sync::Arc;

use weir_core::Object;
use weir_upstream::BoxError;

use super::pages::Pages;
use crate::shards::snapshot::Snapshot;

/// A state that is being read, in key order.
pub enum Initial {
    /// The mirror's.
    Mirror(Snapshot),
    /// Upstream's, where the mirror could not prove in time that it is fresh.
    Upstream(Box<Pages>),
}

// === impl Initial ===

impl Initial {
    /// The next objects, at most `max`; empty at the end.
    pub async fn next(&mut self, max: usize) -> Result<Vec<Arc<Object>>, BoxError> {
        match self {
            Self::Mirror(snapshot) => Ok(snapshot.next(max).await?),
            Self::Upstream(pages) => pages.next(max).await,
        }
    }
}

impl From<Snapshot> for Initial {
    fn from(snapshot: Snapshot) -> Self {
        Self::Mirror(snapshot)
    }
}
