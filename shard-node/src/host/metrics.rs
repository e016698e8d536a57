//! What the mirrors and feeds of this process count.

use prometheus_client::registry::Registry;

use crate::feed::metrics::FeedMetrics;
use crate::feeds::FeedsMetrics;
use crate::remote::FollowMetrics;

/// What the mirrors and feeds of this process count. Clones are the same numbers.
#[derive(Clone, Debug, Default)]
pub struct HostMetrics {
    /// What feeds read.
    pub feed: FeedMetrics,
    /// Which run.
    pub feeds: FeedsMetrics,
    /// What mirrors subscribe to.
    pub follow: FollowMetrics,
}

// === impl HostMetrics ===

impl HostMetrics {
    /// Shows the numbers.
    pub fn register(&self, registry: &mut Registry) {
        let Self { feed, feeds, follow } = self;
        feed.register(registry);
        feeds.register(registry);
        follow.register(registry);
    }
}
