//! How many snapshots and logs are read at once, and how one is read without keeping a thread: a piece at a time, with the
//! other tasks in between. Live delivery waits for one piece at most.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use weir_core::message::{CountRequest, SnapshotStart, Unanswered};

use crate::node::cell::NodeCell;

/// Answers under way at once; the next one waits. Each holds a piece of up to 2,000 objects by reference and a message or
/// two of `BATCH_BYTES`: 64 × 2 × 256 KiB = 32 MiB.
const AT_ONCE: usize = 64;

/// The room for answers of many pieces.
#[derive(Clone, Debug)]
pub(super) struct Bulk(Arc<Semaphore>);

// === impl Bulk ===

impl Default for Bulk {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Bulk {
    /// Waits for room, which lasts as long as the permit.
    pub(super) async fn enter(&self) -> SemaphorePermit<'_> {
        self.0.acquire().await.expect("never closed")
    }

    /// How many objects there were.
    pub(super) async fn count(
        &self,
        cell: &NodeCell,
        mut request: CountRequest,
    ) -> Result<usize, Unanswered> {
        let _room = self.enter().await;
        let mut total = 0;
        loop {
            let (count, next) = cell.count_piece(&request)?;
            total += count;
            match next {
                Some(key) if total < request.at_most => request.from = Some(SnapshotStart::Behind(key)),
                Some(_) | None => return Ok(total),
            }
            tokio::task::yield_now().await;
        }
    }
}
