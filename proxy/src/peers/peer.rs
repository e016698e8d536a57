//! One shard node of another process: a session for what it says, and a second connection for what it is asked. Live events
//! and bulk never share a connection, so a long list delays no event.
//!
//! Losing the session is losing the node: every mirror goes on elsewhere, and what was asked of it is asked of others.

mod outgoing;
mod session;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use weir_core::object::ObjectSchema;
use weir_core::{GroupVersionResource, SlotSet};
use weir_daemon::members::NodeAddress;
use weir_daemon::peer::{DialError, Dialer};
use weir_proto::limits::MAX_MESSAGE_BYTES;
use weir_proto::session::{FromNode, MirrorNumber, ToNode};
use weir_proto::wire::feed_client::FeedClient;
use weir_proto::wire::shard_client::ShardClient;
use weir_proto::{Encoded, ProtocolError, wire};

use self::outgoing::Outgoing;
pub use self::session::SessionError;
use super::remote::RemoteMirror;

/// One shard node of another process.
#[derive(Debug)]
pub struct Peer {
    index: usize,
    address: NodeAddress,
    dialer: Dialer,
    is_named: AtomicBool,
    /// How often it was heard.
    beats: AtomicU64,
    /// How often a session with it was lost.
    lost: AtomicU64,
    /// The slots that it holds, while a session stands.
    up: watch::Sender<Option<SlotSet>>,
    leave: Notify,
    state: Mutex<State>,
    /// With what tells that it is lost, also while the session stands.
    bulk: Mutex<Option<(Channel, CancellationToken)>>,
    /// Whose turn it is to make that connection.
    dialing: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    mirrors: HashMap<GroupVersionResource, Arc<RemoteMirror>>,
    outgoing: Option<Arc<Outgoing>>,
    numbers: HashMap<MirrorNumber, Arc<RemoteMirror>>,
}

// === impl Peer ===

impl Peer {
    pub(super) fn new(index: usize, address: NodeAddress, dialer: Dialer) -> Self {
        Self {
            index,
            address,
            dialer,
            is_named: AtomicBool::new(true),
            beats: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            up: watch::Sender::new(None),
            leave: Notify::new(),
            state: Mutex::default(),
            bulk: Mutex::default(),
            dialing: Semaphore::new(1),
        }
    }

    /// Its number, never used for another node.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Where it is.
    pub fn address(&self) -> &NodeAddress {
        &self.address
    }

    /// The slots that it holds; `None` while there is no session.
    pub fn slots(&self) -> Option<SlotSet> {
        *self.up.borrow()
    }

    /// How often it was heard.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// How often a session with it was lost.
    pub fn sessions_lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether a session stands.
    pub fn is_up(&self) -> bool {
        self.up.borrow().is_some()
    }

    pub(super) fn set_named(&self, is_named: bool) {
        self.is_named.store(is_named, Ordering::Relaxed);
    }

    /// Whether it is neither named nor there.
    pub(super) fn is_gone(&self) -> bool {
        !self.is_named.load(Ordering::Relaxed) && !self.is_up()
    }

    /// Ends the session; another is tried at once.
    pub(super) fn leave(&self) {
        self.leave.notify_one();
    }

    /// The mirror of a resource on this node. `wake` is notified when it has said something.
    pub fn mirror(
        self: &Arc<Self>,
        resource: &GroupVersionResource,
        wake: &Arc<Notify>,
    ) -> Arc<RemoteMirror> {
        let mut state = self.state.lock();
        if let Some(mirror) = state.mirrors.get(resource) {
            return mirror.clone();
        }
        let mirror = Arc::new(RemoteMirror::new(resource.clone(), Arc::downgrade(self), wake.clone()));
        state.mirrors.insert(resource.clone(), mirror.clone());
        state.say(&ToNode::Attach(resource.clone()));
        mirror
    }

    /// Nobody here wants the mirror any more.
    pub fn forget(&self, resource: &GroupVersionResource) {
        let mut state = self.state.lock();
        state.mirrors.remove(resource);
        let number = state.numbers.iter().find(|(_, mirror)| mirror.resource() == resource);
        let Some(number) = number.map(|(number, _)| *number) else { return };
        state.numbers.remove(&number);
        state.say(&ToNode::Detach(number));
    }

    /// Asks again for the mirrors that the node does not carry.
    pub(super) fn attach_again(&self) {
        let state = self.state.lock();
        for (resource, _) in state.mirrors.iter().filter(|(_, mirror)| mirror.was_refused()) {
            state.say(&ToNode::Attach(resource.clone()));
        }
    }

    /// Resolves when the session is lost; at once where there is none.
    pub(super) async fn lost(&self) {
        // The sender lives in self, so the channel cannot close.
        let _ = self.up.subscribe().wait_for(Option::is_none).await;
    }

    /// Says what `make` makes, in the order in which it and what follows from what is heard are made.
    pub(super) fn say(&self, make: impl FnOnce() -> Vec<ToNode>) {
        let state = self.state.lock();
        make().iter().for_each(|message| state.say(message));
    }

    /// The client for snapshots and logs, over a connection of its own.
    pub(super) async fn bulk(&self) -> Result<ShardClient<Channel>, DialError> {
        let client = ShardClient::new(self.bulk_channel().await?);
        Ok(client.max_decoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// The client for proofs, over the same connection.
    pub async fn feed(&self) -> Result<FeedClient<Channel>, DialError> {
        let client = FeedClient::new(self.bulk_channel().await?);
        Ok(client.max_decoding_message_size(MAX_MESSAGE_BYTES))
    }

    async fn bulk_channel(&self) -> Result<Channel, DialError> {
        if let Some(channel) = self.known_bulk() {
            return Ok(channel);
        }
        // Lists come together, and one connection is enough for them. The semaphore is never closed.
        let _turn = self.dialing.acquire().await;
        if let Some(channel) = self.known_bulk() {
            return Ok(channel);
        }
        let lost = CancellationToken::new();
        let channel = self.dialer.connect_noticing(self.address.as_str(), lost.clone()).await?;
        *self.bulk.lock() = Some((channel.clone(), lost));
        Ok(channel)
    }

    fn known_bulk(&self) -> Option<Channel> {
        self.bulk.lock().clone().filter(|(_, lost)| !lost.is_cancelled()).map(|(channel, _)| channel)
    }

    fn hear(&self, message: Encoded<wire::FromNode>, slots: SlotSet) -> Result<(), ProtocolError> {
        let message = FromNode::read(message.open()?, &ObjectSchema::bare())?;
        let mirror = |resource: &GroupVersionResource| self.state.lock().mirrors.get(resource).cloned();
        match message {
            FromNode::Welcome { .. } => return Err(ProtocolError::Invalid("welcome")),
            FromNode::Attached(attached) => {
                let mut state = self.state.lock();
                let Some(mirror) = state.mirrors.get(&attached.spec.resource).cloned() else {
                    // It was forgotten meanwhile, and the node would keep it for this session.
                    state.say(&ToNode::Detach(attached.mirror));
                    return Ok(());
                };
                state.numbers.insert(attached.mirror, mirror.clone());
                drop(state);
                mirror.up(slots, attached);
            }
            FromNode::Unmirrored { mirror: resource, reason } => {
                if let Some(mirror) = mirror(&resource) {
                    self.state.lock().numbers.retain(|_, known| !Arc::ptr_eq(known, &mirror));
                    mirror.unmirrored(reason);
                }
            }
            FromNode::Learned(number, facts) => {
                if let Some(mirror) = self.state.lock().numbers.get(&number) {
                    mirror.learned(facts);
                }
            }
            FromNode::Flush(parts) => self.flush(parts),
        }
        Ok(())
    }

    fn flush(&self, parts: Vec<(MirrorNumber, weir_proto::session::Said)>) {
        let state = self.state.lock();
        let mut last: Option<&Arc<RemoteMirror>> = None;
        for (number, said) in parts {
            let Some(mirror) = state.numbers.get(&number) else { continue };
            mirror.hear(said).iter().for_each(|message| state.say(message));
            if let Some(before) = last.replace(mirror)
                && !Arc::ptr_eq(before, mirror)
            {
                before.wake();
            }
        }
        if let Some(mirror) = last {
            mirror.wake();
        }
    }

    fn down(&self) {
        self.up.send_replace(None);
        *self.bulk.lock() = None;
        let mut state = self.state.lock();
        state.outgoing = None;
        state.numbers.clear();
        let mirrors: Vec<_> = state.mirrors.values().cloned().collect();
        drop(state);
        for mirror in mirrors {
            mirror.down();
        }
    }
}

// === impl State ===

impl State {
    fn say(&self, message: &ToNode) {
        if let Some(outgoing) = &self.outgoing {
            outgoing.push(message);
        }
    }
}

#[cfg(test)]
mod tests;
