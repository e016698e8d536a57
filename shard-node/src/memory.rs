//! The memory limit of a process: what mirrors hold is added up once a second, and what is too much is given up in a fixed
//! order. Windows go first, the oldest changes of all mirrors before younger ones; then mirrors that nobody uses; then what
//! windows keep for upstream's own promise; and where nothing is left to give up, new lists are refused, and then new watches.
//! Objects that exist are never given up.
//!
//! What is added up is what the stores account for, not what the allocator holds: it falls at once when something is given up.

pub mod admission;
mod metrics;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{info, warn};

pub use self::admission::{Admission, Refused};
pub use self::metrics::MemoryMetrics;
use crate::node::cell::NodeCell;
use crate::store::Holdings;

/// How often it is added up.
pub const CHECK_EVERY: Duration = Duration::from_secs(1);

/// What the trees of a store take for an object, besides what the object accounts for itself: measured, see the benchmark of
/// a node's memory.
const TREE_BYTES: usize = 530;

/// Upstream answers positions of the last 75 s; windows go below that only when no mirror is left to end.
const PROMISED: Duration = Duration::from_secs(75);

/// Ages in which windows are cut, oldest first: the longest is ten minutes.
const AGES: [u64; 9] = [570, 480, 400, 330, 270, 210, 160, 120, 75];
/// The same below what is promised.
const YOUNG_AGES: [u64; 4] = [45, 20, 5, 0];

/// Events that leave a log under one hold of its lock.
const CUT_AT_ONCE: usize = 2_000;

/// Who holds what is limited: all mirrors of a shard node, or those of a process that has proxy and shards.
pub trait Holder {
    /// The shards.
    fn cells(&self) -> Vec<Arc<NodeCell>>;
    /// Bytes besides the shards.
    fn other_bytes(&self) -> usize;
    /// Ends mirrors that nobody uses, the longest unused first, until so many bytes have gone. How many do.
    fn end_idle(&self, wanted: usize) -> usize;
}

/// What can be given up, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Windows,
    IdleMirrors,
    YoungWindows,
}

/// Keeps what a holder holds below a limit.
#[derive(Debug)]
pub struct Keeper<H> {
    limit: usize,
    holder: Arc<H>,
    admission: Admission,
    metrics: MemoryMetrics,
    /// The zero of the shards' clock.
    started: Instant,
}

// === impl Holdings ===

impl Holdings {
    /// What the limit counts of them.
    pub fn accounted(&self) -> usize {
        let Self { live_objects, live_bytes, log_events: _, log_bytes } = self;
        live_objects * TREE_BYTES + live_bytes + log_bytes
    }
}

// === impl Keeper ===

impl<H: Holder> Keeper<H> {
    /// A keeper of this limit. `started` is the zero of the shards' clock.
    pub fn new(
        limit: usize,
        (holder, started): (Arc<H>, Instant),
        admission: Admission,
        metrics: MemoryMetrics,
    ) -> Self {
        metrics.limit.set(i64::try_from(limit).unwrap_or(i64::MAX));
        Self { limit, holder, admission, metrics, started }
    }

    /// Looks again and again; runs until dropped.
    pub async fn run(self, every: Duration) {
        let mut checks = interval(every);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            checks.tick().await;
            self.check();
        }
    }

    /// Adds up, and gives up what is too much.
    pub fn check(&self) {
        let cells = self.holder.cells();
        let held = cells.iter().map(|cell| cell.holdings().accounted()).sum::<usize>();
        let held = held + self.holder.other_bytes();
        self.metrics.accounted.set(i64::try_from(held).unwrap_or(i64::MAX));
        let mut over = held.saturating_sub(self.limit);
        for step in [Step::Windows, Step::IdleMirrors, Step::YoungWindows] {
            if over == 0 {
                break;
            }
            let freed = self.take(step, &cells, over);
            over = over.saturating_sub(freed);
            if freed > 0 {
                warn!(?step, freed, held, limit = self.limit, "memory limit reached, gave up something");
                self.metrics.of(step).inc();
            }
        }
        if over > 0 {
            self.refuse(held);
        } else if held <= self.limit - self.limit / 20 {
            self.admit(held);
        }
    }

    fn take(&self, step: Step, cells: &[Arc<NodeCell>], wanted: usize) -> usize {
        match step {
            Step::Windows => self.cut(cells, &AGES, wanted),
            Step::IdleMirrors => self.holder.end_idle(wanted),
            Step::YoungWindows => self.cut(cells, &YOUNG_AGES, wanted),
        }
    }

    /// Cuts all windows to an age, and to a lower one until enough has gone.
    fn cut(&self, cells: &[Arc<NodeCell>], ages: &[u64], wanted: usize) -> usize {
        let mut freed = 0;
        for age in ages {
            for cell in cells {
                freed += cut(cell, (Duration::from_secs(*age), self.started.elapsed()), wanted - freed);
                if freed >= wanted {
                    return freed;
                }
            }
        }
        freed
    }

    /// Nothing is left to give up: refuses one thing more than before.
    fn refuse(&self, held: usize) {
        if let Some(refused) = self.admission.tighten() {
            self.metrics.refusing(refused).inc();
            warn!(?refused, held, limit = self.limit, "memory limit reached, refusing what is new");
        }
    }

    /// Refuses one thing less.
    fn admit(&self, held: usize) {
        if let Some(refused) = self.admission.relax() {
            info!(admitted = ?refused, held, limit = self.limit, "below the memory limit again");
        }
    }
}

/// Drops what is older than `age` from a log, a few events at a time, until enough has gone.
fn cut(cell: &NodeCell, (age, now): (Duration, Duration), wanted: usize) -> usize {
    let mut freed = 0;
    while freed < wanted {
        let (events, bytes) = cell.cut((age, now), CUT_AT_ONCE);
        freed += bytes;
        if events < CUT_AT_ONCE {
            break;
        }
    }
    freed
}

const _: () = assert!(AGES[AGES.len() - 1] == PROMISED.as_secs() && YOUNG_AGES[0] < PROMISED.as_secs());
