//! What is counted of the feeds that run in this process, whatever they read.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use prometheus_client::registry::Registry;

/// Feeds and their subscribers. Clones are the same numbers.
#[derive(Clone, Debug, Default)]
pub struct FeedsMetrics {
    /// Feeds that run.
    pub running: Gauge,
    /// Subscribers that came.
    pub subscriptions: Counter,
}

// === impl FeedsMetrics ===

impl FeedsMetrics {
    /// Shows the numbers.
    pub fn register(&self, registry: &mut Registry) {
        let Self { running, subscriptions } = self;
        registry.register("feeds", "Feeds that read upstream in this process", running.clone());
        registry.register(
            "feed_subscriptions",
            "Subscriptions that feeds of this process took",
            subscriptions.clone(),
        );
    }
}
