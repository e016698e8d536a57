//! The task that carries a feed's messages to one node of the same process. It ends when it is dropped, and leaves the feed.
//!
//! What the node has, and nothing else, says where it subscribes: another feed, or a copy of a replica, may have moved it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tracing::warn;
use weir_core::message::FeedMessage;
use weir_core::statement::Gap;

use crate::feed::handle::FeedHandle;
use crate::feed::ring::{Next, Standing, SubscriberId};
use crate::feed::subscription::Subscription;
use crate::node::cell::NodeCell;

/// How often a quiet window moves with time; its shortest bound is 75 s.
const TRIM_EVERY: Duration = Duration::from_secs(5);

/// Carries messages until the task is dropped. `started` is the zero of the node's clock.
pub async fn run(feed: Arc<FeedHandle>, node: Arc<NodeCell>, id: SubscriberId, started: Instant) {
    let subscription = Subscription::new(feed, id, standing(&node));
    let mut trim = tokio::time::interval(TRIM_EVERY);
    trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = trim.tick() => node.trim(started.elapsed()),
            next = subscription.next() => match next {
                Next::Message(message) => {
                    if !take(&node, &message, started) {
                        subscription.again(standing(&node));
                    }
                }
                Next::Nothing => {}
                Next::Behind => {
                    warn!(subscriber = id.0, "feed went past a shard, subscribing again");
                    subscription.again(standing(&node));
                }
            }
        }
    }
}

/// What a node has.
pub fn standing(node: &NodeCell) -> Standing {
    Standing { history: node.history(), after: node.window().map(|window| window.frontier) }
}

/// Hands a message to the node. False if it did not lead the node on, which then has to subscribe again.
fn take(node: &NodeCell, message: &FeedMessage, started: Instant) -> bool {
    let taken = node.on_feed(message.narrowed(&node.slots()), started.elapsed());
    if let Err(Gap { position, after }) = taken {
        warn!(%position, %after, "feed has a gap, subscribing again");
        return false;
    }
    match message {
        FeedMessage::List(chunk) if chunk.is_last => {
            node.window().is_some_and(|window| window.frontier >= chunk.at)
        }
        FeedMessage::List(_) | FeedMessage::Statement(_) | FeedMessage::Restored(_) => true,
    }
}
