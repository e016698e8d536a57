//! A shard node of the model: the real node, subscribed to one feed after the other, or to all at once.

use weir_core::SlotSet;
use weir_core::message::FeedMessage;
use weir_proxy::merge::NodeIndex;
use weir_shard_node::feed::ring::{Next, Standing, SubscriberId};
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
    /// Which feed it subscribes to; `None` if to all.
    feed: Option<usize>,
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
            feed: (!settings.is_fed_by_all).then_some(0),
            subscribed: vec![false; settings.feeds],
        }
    }

    /// Takes the next message of a feed. `None` when there is none, or when it subscribes to another one.
    pub(crate) fn pull(
        &mut self,
        (index, feed): (usize, &mut Feed),
        now: Now,
        reached: &mut Reached,
    ) -> Option<Vec<Outgoing>> {
        if self.feed.is_some_and(|own| own != index) {
            return None;
        }
        if !std::mem::replace(&mut self.subscribed[index], true) {
            let after = self.node.window().map(|window| window.frontier);
            feed.ring.subscribe(self.id, Standing { history: self.node.store().history(), after });
            return Some(Vec::new());
        }
        match feed.ring.next(self.id) {
            Next::Nothing => feed.ring.take_wants_more().then(Vec::new),
            Next::Behind => {
                reached.overruns += 1;
                self.subscribed[index] = false;
                Some(Vec::new())
            }
            Next::Message(message) => Some(self.take(&message, (index, now), reached)),
        }
    }

    fn take(
        &mut self,
        message: &FeedMessage,
        (index, now): (usize, Now),
        reached: &mut Reached,
    ) -> Vec<Outgoing> {
        reached.relists += usize::from(matches!(message, FeedMessage::List(chunk) if chunk.is_last));
        let outgoing = self.node.on_feed(message.narrowed(&self.slots), now);
        let outgoing = outgoing.expect("a ring hands over what leads on");
        if let FeedMessage::List(chunk) = message
            && chunk.is_last
        {
            // The store may have had no use for the list, and may have dropped what it had staged.
            let frontier = self.node.window().map(|window| window.frontier);
            self.subscribed[index] = frontier >= Some(chunk.at);
        }
        outgoing
    }

    /// Leaves the feeds.
    pub(crate) fn leave(&mut self, feeds: &mut [Feed]) {
        for (feed, is_subscribed) in feeds.iter_mut().zip(&mut self.subscribed) {
            feed.ring.unsubscribe(self.id);
            *is_subscribed = false;
        }
    }

    /// Goes to this feed, or subscribes to it again without a need.
    pub(crate) fn go_to(&mut self, index: usize, feeds: &mut [Feed], reached: &mut Reached) {
        match &mut self.feed {
            None => self.subscribed[index] = false,
            Some(own) => {
                reached.changed_feed += usize::from(*own != index);
                *own = index;
                self.leave(feeds);
            }
        }
    }
}
