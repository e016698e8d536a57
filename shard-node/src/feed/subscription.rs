//! A subscriber's end of a feed in the same process. It leaves the feed when it is dropped, so that nothing waits for a
//! subscriber whose task or stream is gone.

use std::sync::Arc;

use super::handle::FeedHandle;
use super::ring::{Next, Standing, SubscriberId};

/// One subscriber.
#[derive(Debug)]
pub struct Subscription {
    feed: Arc<FeedHandle>,
    id: SubscriberId,
}

// === impl Subscription ===

impl Subscription {
    /// Subscribes under a name that nobody else has at this feed.
    pub fn new(feed: Arc<FeedHandle>, id: SubscriberId, standing: Standing) -> Self {
        feed.subscribe(id, standing);
        Self { feed, id }
    }

    /// What comes next; waits for it. Dropping the future loses nothing.
    pub async fn next(&self) -> Next {
        self.feed.next(self.id).await
    }

    /// Subscribes again, with what the subscriber has now: after [`Next::Behind`], or when a message did not lead on.
    pub fn again(&self, standing: Standing) {
        self.feed.subscribe(self.id, standing);
    }

    /// The feed.
    pub fn feed(&self) -> &Arc<FeedHandle> {
        &self.feed
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.feed.unsubscribe(self.id);
    }
}
