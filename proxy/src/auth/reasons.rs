//! Why upstream allowed what is audited, in its words. Nothing depends on them, so they are kept beside the decisions and not
//! with them, and only where they will be written down.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use weir_core::GroupVersionResource;

use super::decisions::Question;
use crate::audited::Audited;

/// Reasons that are kept: 10,000 × ~300 bytes ≈ 3 MB.
const REASONS: u64 = 10_000;
/// A longer one is not kept; upstream's name two objects and somebody.
const MAX_BYTES: usize = 2_048;
/// As long as a decision may count.
const KEPT: Duration = Duration::from_secs(300);

/// Reasons by question. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Reasons {
    audited: Option<Audited>,
    known: Cache<Question, Arc<str>>,
}

// === impl Reasons ===

impl Reasons {
    /// None yet; of answers about which resources they are wanted.
    pub(super) fn new(audited: Option<Audited>) -> Self {
        Self { audited, known: Cache::builder().max_capacity(REASONS).time_to_live(KEPT).build() }
    }

    /// Whether reasons are wanted about a resource.
    pub(super) fn covers(&self, resource: &GroupVersionResource) -> bool {
        self.audited.as_ref().is_some_and(|audited| audited.covers(resource))
    }

    pub(super) async fn keep(&self, question: Question, reason: String) {
        if reason.len() <= MAX_BYTES {
            self.known.insert(question, reason.into()).await;
        }
    }

    pub(super) async fn of(&self, question: Question) -> Option<Arc<str>> {
        self.known.get(&question).await
    }
}
