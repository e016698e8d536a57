//! The task that carries a feed's messages to one node. It ends when its token is cancelled.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tracing::warn;
use weir_core::statement::Gap;

use crate::feed::handle::FeedHandle;
use crate::feed::ring::{Next, SubscriberId};
use crate::node::cell::NodeCell;

/// How often a quiet window moves with time; its shortest bound is 75 s.
const TRIM_EVERY: Duration = Duration::from_secs(5);

/// Carries messages until the task is dropped. `started` is the zero of the node's clock.
pub async fn run(feed: Arc<FeedHandle>, node: Arc<NodeCell>, id: SubscriberId, started: Instant) {
    feed.subscribe(id, node.window().map(|window| window.frontier));
    let mut trim = tokio::time::interval(TRIM_EVERY);
    trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = trim.tick() => {
                node.trim(started.elapsed());
                feed.shrink();
            }
            next = feed.next(id) => match next {
                Next::Message(message) => {
                    let taken = node.on_feed(message.narrowed(&node.slots()), started.elapsed());
                    if let Err(Gap { position, after }) = taken {
                        warn!(%position, %after, "feed has a gap, subscribing again");
                        feed.subscribe(id, node.window().map(|window| window.frontier));
                    }
                }
                Next::Nothing => {}
                Next::Behind => {
                    warn!(subscriber = id.0, "feed went past a shard, subscribing again");
                    feed.subscribe(id, node.window().map(|window| window.frontier));
                }
            }
        }
    }
}
