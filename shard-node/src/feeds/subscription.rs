//! A subscription to a feed of this process.

use std::sync::Arc;

use tokio::sync::watch;
use weir_core::message::FeedMessage;
use weir_core::mirror::MirrorFacts;

use super::RunningFeed;
use crate::feed::ring::{Next, Standing};
use crate::feed::subscription::Subscription;

/// What a feed says to a subscriber.
#[derive(Clone, Debug)]
pub enum Said {
    /// Log or list content, of all slots.
    Message(Arc<FeedMessage>),
    /// What it has learned of the mirror.
    Facts(Arc<MirrorFacts>),
}

/// The feed's log went on without the subscriber, which has to come back from its own position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the feed went past the subscriber")]
pub struct FeedLost;

/// A subscriber in this process, or the stream of one in another. It leaves the feed when it is dropped.
#[derive(Debug)]
pub struct LocalSubscription {
    feed: Arc<RunningFeed>,
    subscription: Subscription,
    facts: watch::Receiver<Option<Arc<MirrorFacts>>>,
}

// === impl LocalSubscription ===

impl LocalSubscription {
    pub(super) fn new(feed: Arc<RunningFeed>, standing: Standing) -> Self {
        let mut facts = feed.handle.facts();
        // What is known already is told as news, too.
        facts.mark_changed();
        Self { subscription: feed.handle.open(standing), facts, feed }
    }

    /// The feed.
    pub fn feed(&self) -> &Arc<RunningFeed> {
        &self.feed
    }

    /// What comes next; waits for it. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Said, FeedLost> {
        loop {
            tokio::select! {
                biased;
                Ok(()) = self.facts.changed() => {
                    if let Some(facts) = self.facts.borrow_and_update().clone() {
                        return Ok(Said::Facts(facts));
                    }
                }
                next = self.subscription.next() => match next {
                    Next::Message(message) => return Ok(Said::Message(message)),
                    Next::Nothing => {}
                    Next::Behind => return Err(FeedLost),
                }
            }
        }
    }
}
