//! What the subscriptions of this process count.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use prometheus_client::registry::Registry;

/// What the subscriptions of this process count. Clones are the same numbers.
#[derive(Clone, Debug, Default)]
pub struct FollowMetrics {
    /// Subscriptions that stand.
    pub subscriptions: Gauge,
    /// Subscriptions that ended without another in their place.
    pub feeds_lost: Counter,
    /// Subscriptions that a better feed took over while they stood.
    pub hand_overs: Counter,
    /// Mirrors that began as a copy of a replica.
    pub warm_starts: Counter,
}

// === impl FollowMetrics ===

impl FollowMetrics {
    /// Shows the numbers.
    pub fn register(&self, registry: &mut Registry) {
        let Self { subscriptions, feeds_lost, hand_overs, warm_starts } = self;
        registry.register("subscriptions", "Subscriptions of this process to feeds", subscriptions.clone());
        registry.register("feed_lost", "Subscriptions to feeds that broke or were left", feeds_lost.clone());
        registry.register("feed_hand_overs", "Subscriptions handed to a better feed", hand_overs.clone());
        registry.register("warm_starts", "Mirrors that began as a copy of a replica", warm_starts.clone());
    }
}
