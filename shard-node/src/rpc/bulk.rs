//! How many snapshots and logs are read at once, and how one is read without keeping a thread: a piece at a time, with the
//! other tasks in between. Live delivery waits for one piece at most.

use tokio::sync::{Semaphore, SemaphorePermit};
use weir_core::message::{CountRequest, SnapshotStart, Unanswered};
use weir_daemon::peer::Caller;

use crate::node::cell::NodeCell;

/// Answers under way at once for proxies; the next one waits. Each holds a piece of up to 2,000 objects by reference and a
/// message or two of `BATCH_BYTES`: 64 × 2 × 256 KiB = 32 MiB.
const FOR_PROXIES: usize = 64;

/// The same for nodes that start: they copy everything, and clients of proxies wait for lists meanwhile.
const FOR_NODES: usize = 8;

/// The room for answers of many pieces.
#[derive(Debug)]
pub(super) struct Bulk {
    proxies: Semaphore,
    nodes: Semaphore,
}

// === impl Bulk ===

impl Default for Bulk {
    fn default() -> Self {
        Self { proxies: Semaphore::new(FOR_PROXIES), nodes: Semaphore::new(FOR_NODES) }
    }
}

impl Bulk {
    /// Waits for room, which lasts as long as the permit.
    pub(super) async fn enter(&self, caller: Caller) -> SemaphorePermit<'_> {
        let room = match caller {
            Caller::Proxy | Caller::Trusted => &self.proxies,
            Caller::Shard { .. } => &self.nodes,
        };
        room.acquire().await.expect("never closed")
    }

    /// How many objects there were.
    pub(super) async fn count(
        &self,
        caller: Caller,
        (cell, mut request): (&NodeCell, CountRequest),
    ) -> Result<usize, Unanswered> {
        let _room = self.enter(caller).await;
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
