//! The memory limit, looked at when a test says so.

use std::time::Duration;

use weir_proxy::mirror::registry::Mirrors;
use weir_shard_node::memory::{Keeper, MemoryMetrics};

use super::World;

// === impl World ===

impl World {
    /// Looks once, as if everything were older than it is by so many seconds.
    pub(crate) fn check_memory(&self, limit: usize, aged: u64) {
        let started = self.mirrors.started().checked_sub(Duration::from_secs(aged)).unwrap();
        let held = (self.mirrors.clone(), started);
        let metrics = MemoryMetrics::default();
        let keeper: Keeper<Mirrors> = Keeper::new(limit, held, self.admission.clone(), metrics);
        keeper.check();
    }
}
