//! A shard node of the model: the real node, subscribed to every feed.

use weir_core::SlotSet;
use weir_core::message::FeedMessage;
use weir_shard_node::feed::ring::{Next, SubscriberId};
use weir_shard_node::node::{Node, Outgoing};
use weir_shard_node::store::Now;

use crate::feed::Feed;
use crate::reached::Reached;
use crate::settings::Settings;

/// A shard node.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) node: Node,
    pub(crate) slots: SlotSet,
    id: SubscriberId,
    /// Whether it is subscribed, by feed.
    subscribed: Vec<bool>,
    /// Which of upstream's histories its content is of.
    pub(crate) history: usize,
}

// === impl Shard ===

impl Shard {
    pub(crate) fn new(index: usize, settings: &Settings) -> Self {
        let slots = SlotSet::of_shard(index, settings.nodes);
        Self {
            node: Node::new(slots, settings.window),
            slots,
            id: SubscriberId(index as u64),
            subscribed: vec![false; settings.feeds],
            history: 0,
        }
    }

    /// Takes the next message of a feed. `None` when there is none.
    pub(crate) fn pull(
        &mut self,
        (index, feed): (usize, &mut Feed),
        now: Now,
        reached: &mut Reached,
    ) -> Option<Vec<Outgoing>> {
        if !std::mem::replace(&mut self.subscribed[index], true) {
            let after = self.node.window().map(|window| window.frontier);
            if after.is_none() {
                // Without content there is nothing to forget, and nobody tells it.
                self.history = feed.epoch;
            }
            if let Some(lack) = feed.ring.subscribe(self.id, after) {
                reached.led_back += 1;
                feed.lack(lack);
                return Some(Vec::new());
            }
        }
        match feed.ring.next(self.id) {
            Next::Nothing => None,
            Next::Behind => {
                reached.overruns += 1;
                self.subscribed[index] = false;
                Some(Vec::new())
            }
            Next::Message(message) => {
                self.history += usize::from(matches!(*message, FeedMessage::Restored(_)));
                reached.relists +=
                    usize::from(matches!(&*message, FeedMessage::List(chunk) if chunk.is_last));
                match self.node.on_feed(message.narrowed(&self.slots), now) {
                    Ok(outgoing) => Some(outgoing),
                    Err(_) => {
                        reached.gaps += 1;
                        self.subscribed[index] = false;
                        Some(Vec::new())
                    }
                }
            }
        }
    }

    /// Subscribes again without a need.
    pub(crate) fn break_off(&mut self, index: usize) {
        self.subscribed[index] = false;
    }
}
