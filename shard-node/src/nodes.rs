//! The other shard nodes as this one sees them: who is named, how they are reached, what they can answer, and which of them
//! hang. Two nodes may see different ones; nothing here is agreed upon.
//!
//! Connections are of two kinds that never mix: one for all questions to a node, kept here, and one for each subscription,
//! which belongs to its subscriber.

mod pulse;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tonic::Status;
use tonic::transport::Channel;
use tracing::warn;
use weir_core::{GroupVersionResource, History, ResourceVersion, rendezvous};
use weir_daemon::members::{Members, NodeAddress};
use weir_daemon::peer::{DialError, Dialer};
use weir_proto::limits::MAX_MESSAGE_BYTES;
use weir_proto::read::{WindowRequest, Windows};
use weir_proto::wire::feed_client::FeedClient;
use weir_proto::wire::shard_client::ShardClient;
use weir_proto::{ProtocolError, wire};

use self::pulse::Pulse;

/// How often every node is asked what it can answer.
const ROUND: Duration = Duration::from_millis(350);

/// How long a node may take to say what it can answer when somebody waits for it.
const WINDOWS_LIMIT: Duration = Duration::from_secs(2);

/// Why a node has not said what it can answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// There is no connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// It refused, or was lost.
    #[error("ask for windows")]
    Refused(#[source] Box<Status>),
    /// Its answer cannot be read.
    #[error("read windows")]
    Protocol(#[from] ProtocolError),
    /// It took too long.
    #[error("no answer within {WINDOWS_LIMIT:?}")]
    Late,
}

/// The other nodes.
#[derive(Debug)]
pub struct Nodes {
    own: NodeAddress,
    members: Members,
    dialer: Dialer,
    asked: Mutex<HashMap<NodeAddress, Channel>>,
    pulse: Mutex<Pulse>,
}

// === impl Nodes ===

impl Nodes {
    /// The members without this node, whose address is `own`.
    pub fn new(own: NodeAddress, members: Members, dialer: Dialer) -> Self {
        Self { own, members, dialer, asked: Mutex::default(), pulse: Mutex::default() }
    }

    /// The address of this node.
    pub fn own(&self) -> &NodeAddress {
        &self.own
    }

    /// Changes when members come or go.
    pub fn changed(&self) -> watch::Receiver<Arc<[NodeAddress]>> {
        self.members.addresses()
    }

    /// The others that are named.
    pub fn others(&self) -> Vec<NodeAddress> {
        self.named().iter().filter(|address| **address != self.own).cloned().collect()
    }

    /// All in the order in which they are asked to be the feed of a mirror. This node comes last where it is not named:
    /// nobody else would choose it.
    pub fn order(&self, mirror: &GroupVersionResource) -> Vec<NodeAddress> {
        let named = self.named();
        let order = rendezvous::order(named.iter().map(NodeAddress::as_str), mirror);
        let find = |text: &str| named.iter().find(|address| address.as_str() == text).cloned();
        let mut order: Vec<_> = order.into_iter().filter_map(find).collect();
        if !order.contains(&self.own) {
            order.push(self.own.clone());
        }
        order
    }

    /// Resolves when it is known who the nodes are: names are looked up, and until there is an answer a node would take
    /// itself for the only one.
    pub async fn known(&self) {
        // Where nobody looks any more, nobody will be known.
        let _ = self.members.addresses().wait_for(|addresses| !addresses.is_empty()).await;
    }

    /// A connection of the caller's own.
    pub async fn dial(&self, address: &NodeAddress) -> Result<Channel, DialError> {
        self.dialer.connect(address.as_str()).await
    }

    /// Whether a node hangs: it has not answered while others have, again and again.
    pub fn is_hanging(&self, address: &NodeAddress) -> bool {
        self.pulse.lock().is_hanging(address)
    }

    /// Whether a node could not be asked the last time.
    pub fn is_down(&self, address: &NodeAddress) -> bool {
        self.pulse.lock().is_down(address)
    }

    /// How far the others have come with a mirror, in the newest history that they hold, as they said last.
    pub fn newest(&self, mirror: &GroupVersionResource) -> Option<(History, ResourceVersion)> {
        self.pulse.lock().newest(mirror)
    }

    /// What a node can answer of some mirrors; of all that it has, if none is named.
    pub async fn windows(
        &self,
        address: &NodeAddress,
        mirrors: &[GroupVersionResource],
    ) -> Result<Windows, AskError> {
        timeout(WINDOWS_LIMIT, self.ask(address, mirrors)).await.unwrap_or(Err(AskError::Late))
    }

    /// What each of the others can answer, as far as they say so in time.
    pub async fn all_windows(&self, mirrors: &[GroupVersionResource]) -> Vec<(NodeAddress, Windows)> {
        let ask = |address| async move {
            let windows = self.windows(&address, mirrors).await.ok()?;
            Some((address, windows))
        };
        let asked: FuturesUnordered<_> = self.others().into_iter().map(ask).collect();
        asked.filter_map(std::future::ready).collect().await
    }

    /// The client for snapshots, logs and windows, over the connection for questions.
    pub async fn shard(&self, address: &NodeAddress) -> Result<ShardClient<Channel>, DialError> {
        let known = self.asked.lock().get(address).cloned();
        let channel = match known {
            Some(channel) => channel,
            None => {
                let channel = self.dial(address).await?;
                self.asked.lock().insert(address.clone(), channel.clone());
                channel
            }
        };
        Ok(ShardClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// Asks everybody again and again, so that it is known who hangs and how far they are. Runs until dropped.
    pub async fn run(&self) {
        let mut rounds = interval(ROUND);
        // A process that was itself stopped must not take the others for hanging.
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut asking = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some((address, answer)) = asking.next() => self.heard(&address, answer),
                _ = rounds.tick() => {
                    for address in self.pulse.lock().round(&self.others()) {
                        asking.push(async {
                            let answer = self.ask(&address, &[]).await;
                            (address, answer)
                        });
                    }
                }
            }
        }
    }

    fn heard(&self, address: &NodeAddress, answer: Result<Windows, AskError>) {
        match answer {
            Ok(windows) => self.pulse.lock().on_answer(address, windows.mirrors),
            Err(error) => {
                if self.pulse.lock().on_failure(address) {
                    warn!(node = %address, error = &error as &dyn std::error::Error, "node does not answer");
                }
            }
        }
    }

    async fn ask(
        &self,
        address: &NodeAddress,
        mirrors: &[GroupVersionResource],
    ) -> Result<Windows, AskError> {
        let request = wire::WindowRequest::from(&WindowRequest(mirrors.to_vec()));
        let answer = self.shard(address).await?.window(request).await;
        let answer = answer.map_err(|status| {
            // A lost connection stays lost; the next question dials.
            self.asked.lock().remove(address);
            AskError::Refused(Box::new(status))
        })?;
        Ok(answer.into_inner().try_into()?)
    }

    fn named(&self) -> Arc<[NodeAddress]> {
        self.members.addresses().borrow().clone()
    }
}

/// The client for subscriptions over a connection.
pub fn feed(channel: Channel) -> FeedClient<Channel> {
    FeedClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES)
}
