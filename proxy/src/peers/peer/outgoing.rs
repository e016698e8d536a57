//! What waits to be said to one node, in order; the session's stream of requests takes it from here.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_proto::session::ToNode;
use weir_proto::wire;

/// What waits to be said to the node. Its length is bounded by what the mirrors have open: an open, a close and half a credit
/// each, and one change for a name set.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    messages: Mutex<VecDeque<wire::ToNode>>,
    wake: Notify,
}

// === impl Outgoing ===

impl Outgoing {
    pub(super) fn push(&self, message: &ToNode) {
        self.messages.lock().push_back(message.into());
        self.wake.notify_one();
    }

    /// All that waits.
    #[cfg(test)]
    pub(super) fn take(&self) -> VecDeque<wire::ToNode> {
        std::mem::take(&mut *self.messages.lock())
    }

    pub(super) async fn next(&self) -> wire::ToNode {
        loop {
            if let Some(message) = self.messages.lock().pop_front() {
                return message;
            }
            self.wake.notified().await;
        }
    }
}
