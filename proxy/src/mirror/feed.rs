//! The feed of a mirror as the proxy asks it: in this process, or on one of the nodes. Which node reads upstream is no matter
//! of agreement: they are asked in the order in which subscribers choose too, and one that reads nothing says so.
//!
//! An answer of one feed says nothing about another one's instance; the proxy combines none.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::debug;
use weir_core::interest::Scope;
use weir_core::mirror::MirrorFacts;
use weir_core::{GroupVersionResource, ResourceVersion, rendezvous};
use weir_proto::feed::{Proof, Prove};
use weir_proto::wire;
use weir_shard_node::feed::handle::FeedHandle;
use weir_shard_node::feed::scope::ScopeContent;

use crate::peers::Peers;

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
}

// === impl Feed ===

impl Feed {
    /// Upstream's newest revision, as the feed's own instance answers it after this call began; `None` where it cannot ask.
    /// With `catch_up` the feed also sees to it that it gets there.
    pub async fn newest(&self, catch_up: bool) -> Option<ResourceVersion> {
        match self {
            Self::Local(feed) => feed.newest(catch_up).await,
            Self::Remote(feed) => Some(feed.prove(Scope::default(), false, catch_up).await?.revision),
        }
    }

    /// What a namespace, or the whole collection, holds at upstream now; `None` where the feed cannot ask, or the scope holds
    /// too much to be compared.
    pub async fn scope(&self, namespace: Option<Arc<str>>) -> Option<Arc<ScopeContent>> {
        match self {
            Self::Local(feed) => feed.scope(namespace).await,
            Self::Remote(feed) => {
                let proof = feed.prove(Scope { namespace, name: None }, true, false).await?;
                let entries = proof.entries?.into_iter().map(|entry| (entry.key, entry.uid, entry.rv));
                Some(Arc::new(ScopeContent::whole(proof.revision, entries)))
            }
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
        Self { peers, resource, facts }
    }

    /// Asks the nodes one after the other until one has a feed and proves it.
    async fn prove(&self, scope: Scope, wants_entries: bool, wants_catch_up: bool) -> Option<Proof> {
        let peers: Vec<_> = self.peers.all().into_iter().filter(|peer| peer.slots().is_some()).collect();
        let order = rendezvous::order(peers.iter().map(|peer| peer.address().as_str()), &self.resource);
        let prove = Prove { mirror: self.resource.clone(), scope, wants_entries, wants_catch_up };
        for address in order {
            let Some(peer) = peers.iter().find(|peer| peer.address().as_str() == address) else { continue };
            let asked = async {
                let mut client = peer.feed().await.ok()?;
                let answer = client.prove(wire::Prove::from(&prove)).await;
                answer.map_err(|status| debug!(%address, %status, "no proof from a node")).ok()
            };
            let Ok(Some(answer)) = tokio::time::timeout(PROOF_LIMIT, asked).await else { continue };
            match Proof::try_from(answer.into_inner()) {
                Ok(proof) if proof.entries.is_some() == wants_entries => return Some(proof),
                Ok(_) => return None,
                Err(error) => debug!(%address, %error, "proof of a node cannot be read"),
            }
        }
        None
    }
}
