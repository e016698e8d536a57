//! What operators see of the memory limit.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use prometheus_client::registry::Registry;

use super::Step;
use super::admission::Refused;

/// The limit, what counts against it, and how often each step was taken. Clones are the same numbers.
#[derive(Clone, Debug, Default)]
pub struct MemoryMetrics {
    pub(super) limit: Gauge,
    pub(super) accounted: Gauge,
    pub(super) windows: Counter,
    pub(super) idle_mirrors: Counter,
    pub(super) young_windows: Counter,
    pub(super) lists: Counter,
    pub(super) watches: Counter,
}

// === impl MemoryMetrics ===

impl MemoryMetrics {
    /// Shows the numbers.
    pub fn register(&self, registry: &mut Registry) {
        let Self { limit, accounted, windows, idle_mirrors, young_windows, lists, watches } = self;
        registry.register("memory_limit_bytes", "Bytes that mirrors may hold", limit.clone());
        let help = "Bytes that count against the memory limit";
        registry.register("memory_accounted_bytes", help, accounted.clone());
        let mut add = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        add("memory_windows_cut", "How often windows were cut at the memory limit", windows);
        add("memory_mirrors_ended", "How often unused mirrors were ended at the memory limit", idle_mirrors);
        let help = "How often windows were cut below 75 s at the memory limit";
        add("memory_young_windows_cut", help, young_windows);
        add("memory_lists_refused", "How often new lists began to be refused at the memory limit", lists);
        add(
            "memory_watches_refused",
            "How often new watches began to be refused at the memory limit",
            watches,
        );
    }

    pub(super) fn of(&self, step: Step) -> &Counter {
        match step {
            Step::Windows => &self.windows,
            Step::IdleMirrors => &self.idle_mirrors,
            Step::YoungWindows => &self.young_windows,
        }
    }

    pub(super) fn refusing(&self, refused: Refused) -> &Counter {
        match refused {
            Refused::Lists => &self.lists,
            Refused::Watches => &self.watches,
        }
    }
}
