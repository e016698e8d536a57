//! The feed of a mirror as the proxy asks it: in this process, or on one of the nodes. Which node reads upstream is no matter
//! of agreement: they are asked in the order in which subscribers choose too, and one that reads nothing says so.
//!
//! An answer of one feed says nothing about another one's instance; the proxy combines none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tracing::debug;
use weir_core::interest::Scope;
use weir_core::mirror::MirrorFacts;
use weir_core::{GroupVersionResource, History, ResourceVersion, rendezvous};
use weir_proto::feed::{Entry, Proof, Prove};
use weir_proto::wire;
use weir_shard_node::feed::handle::FeedHandle;
use weir_shard_node::feed::scope::{self, Detail, ScopeContent};

use crate::peers::Peers;
use crate::peers::peer::Peer;

/// How long one node may take to prove something. Callers give up sooner or pass through.
const PROOF_LIMIT: Duration = Duration::from_secs(3);

/// The feed of a mirror.
#[derive(Debug)]
pub enum Feed {
    /// In this process.
    Local(Arc<FeedHandle>),
    /// On one of the nodes.
    Remote(RemoteFeed),
}

/// The feed on one of the nodes.
#[derive(Debug)]
pub struct RemoteFeed {
    peers: Arc<Peers>,
    resource: GroupVersionResource,
    facts: watch::Receiver<Option<Arc<MirrorFacts>>>,
    /// Whether the feed could tick when it answered last.
    can_tick: AtomicBool,
}

// === impl Feed ===

impl Feed {
    /// Upstream's newest revision, as the feed's own instance answers it after this call began; `None` where it cannot ask.
    /// With `catch_up` the feed also sees to it that it gets there.
    pub async fn newest(&self, catch_up: bool) -> Option<ResourceVersion> {
        match self {
            Self::Local(feed) => feed.newest(catch_up).await,
            Self::Remote(feed) => {
                let prove = Prove { wants_catch_up: catch_up, ..feed.question() };
                Some(feed.prove(prove).await?.revision)
            }
        }
    }

    /// What a scope holds at upstream now; `None` where the feed cannot ask, or the scope holds too much to be compared.
    pub async fn scope(&self, scope: Scope, detail: Detail) -> Option<Arc<ScopeContent>> {
        match self {
            Self::Local(feed) => feed.scope(scope, detail).await,
            Self::Remote(feed) => {
                let wants_digests = detail == Detail::Bytes;
                let prove = Prove { scope, wants_entries: true, wants_digests, ..feed.question() };
                let proof = feed.prove(prove).await?;
                let entries = proof.entries?.into_iter();
                let entries =
                    entries.map(|Entry { key, uid, rv, digest }| scope::Entry { key, uid, rv, digest });
                Some(Arc::new(ScopeContent::whole(proof.revision, entries.collect())))
            }
        }
    }

    /// The revision of a tick that was sent after this call began; `None` where the feed can make none.
    pub async fn tick(&self) -> Option<ResourceVersion> {
        match self {
            Self::Local(feed) => feed.tick().await,
            Self::Remote(feed) => {
                let proof = feed.prove(Prove { wants_tick: true, ..feed.question() }).await;
                if proof.is_none() {
                    feed.can_tick.store(false, Ordering::Relaxed);
                }
                Some(proof?.revision)
            }
        }
    }

    /// Whether a tick is worth asking for. A feed elsewhere says so with its other answers, so that nobody asks in vain.
    pub fn can_tick(&self) -> bool {
        match self {
            Self::Local(feed) => feed.can_tick(),
            Self::Remote(feed) => feed.can_tick.load(Ordering::Relaxed),
        }
    }

    /// What was told of a history is false: every feed of the mirror that can be reached begins another one, unless it has.
    pub async fn doubt(&self, history: History) {
        match self {
            Self::Local(feed) => feed.doubt(history),
            Self::Remote(feed) => feed.doubt(history).await,
        }
    }

    /// What answers repeat of upstream's, once known.
    pub fn facts(&self) -> watch::Receiver<Option<Arc<MirrorFacts>>> {
        match self {
            Self::Local(feed) => feed.facts(),
            Self::Remote(feed) => feed.facts.clone(),
        }
    }
}

// === impl RemoteFeed ===

impl RemoteFeed {
    pub(super) fn new(
        peers: Arc<Peers>,
        resource: GroupVersionResource,
        facts: watch::Receiver<Option<Arc<MirrorFacts>>>,
    ) -> Self {
        Self { peers, resource, facts, can_tick: AtomicBool::new(false) }
    }

    fn question(&self) -> Prove {
        Prove::revision(self.resource.clone())
    }

    /// The nodes with a session.
    fn reachable(&self) -> Vec<Arc<Peer>> {
        self.peers.all().into_iter().filter(|peer| peer.slots().is_some()).collect()
    }

    /// Asks the nodes one after the other until one has a feed and proves it.
    async fn prove(&self, prove: Prove) -> Option<Proof> {
        let peers = self.reachable();
        let order = rendezvous::order(peers.iter().map(|peer| peer.address().as_str()), &self.resource);
        for address in order {
            let Some(peer) = peers.iter().find(|peer| peer.address().as_str() == address) else { continue };
            let Some(answer) = ask(peer, &prove).await else { continue };
            match Proof::try_from(answer) {
                Ok(proof) if proof.entries.is_some() == prove.wants_entries => {
                    self.can_tick.store(proof.can_tick, Ordering::Relaxed);
                    return Some(proof);
                }
                Ok(_) => return None,
                Err(error) => debug!(%address, %error, "proof of a node cannot be read"),
            }
        }
        None
    }

    /// Nodes may follow different feeds, so all are told. One without a feed has nothing to drop.
    async fn doubt(&self, history: History) {
        let prove = Prove { doubted: Some(history), ..self.question() };
        join_all(self.reachable().iter().map(|peer| ask(peer, &prove))).await;
    }
}

/// Asks one node.
async fn ask(peer: &Peer, prove: &Prove) -> Option<wire::Proof> {
    let asked = async {
        let mut client = peer.feed().await.ok()?;
        let answer = client.prove(wire::Prove::from(prove)).await;
        answer.map_err(|status| debug!(address = %peer.address(), %status, "no proof from a node")).ok()
    };
    Some(tokio::time::timeout(PROOF_LIMIT, asked).await.ok()??.into_inner())
}
