//! A shard node of the model: the real node, subscribed to every feed.

use weir_core::message::FeedMessage;
use weir_core::{History, SlotSet};
use weir_proxy::merge::NodeIndex;
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
    /// Counts the starts of all nodes.
    pub(crate) life: usize,
    /// How proxies number it.
    pub(crate) number: NodeIndex,
    id: SubscriberId,
    /// Whether it is subscribed, by feed.
    subscribed: Vec<bool>,
}

// === impl Shard ===

impl Shard {
    /// One that holds nothing yet.
    pub(crate) fn new((place, life): (usize, usize), slots: SlotSet, settings: &Settings) -> Self {
        Self {
            node: Node::new(slots, settings.window),
            slots,
            life,
            number: settings.number(place, life),
            id: SubscriberId(place as u64),
            subscribed: vec![false; settings.feeds],
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
            if let Some(lack) = feed.ring.subscribe(self.id, after) {
                reached.led_back += 1;
                feed.lack(lack);
            }
            // Without content there is nothing to forget; the answer to the subscription says which history comes.
            let history = FeedMessage::Restored(History::new(feed.epoch as u64));
            let is_empty = after.is_none();
            return Some(
                is_empty.then(|| self.node.on_feed(history, now)).into_iter().flatten().flatten().collect(),
            );
        }
        match feed.ring.next(self.id) {
            Next::Nothing => None,
            Next::Behind => {
                reached.overruns += 1;
                self.subscribed[index] = false;
                Some(Vec::new())
            }
            Next::Message(message) => {
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
