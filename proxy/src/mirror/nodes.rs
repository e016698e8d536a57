//! The nodes of one mirror, followed as they come and go, and what they tell of it: its spec and facts are those of the first
//! node that has them, since all have them of upstream.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use weir_core::GroupVersionResource;
use weir_core::mirror::{MirrorFacts, MirrorSpec};
use weir_proto::session::Unmirrored;

use crate::hub::fanout::Fanout;
use crate::link::Link;
use crate::merge::NodeIndex;
use crate::peers::Peers;
use crate::peers::peer::Peer;
use crate::peers::remote::RemoteMirror;

/// What a mirror is, or why there is none.
pub(super) type Spec = Option<Result<Arc<MirrorSpec>, Unmirrored>>;

/// What the nodes tell of one mirror.
pub(super) struct Told {
    resource: GroupVersionResource,
    peers: Arc<Peers>,
    fanout: Arc<Fanout>,
    spec: watch::Sender<Spec>,
    facts: watch::Sender<Option<Arc<MirrorFacts>>>,
    /// A node said that it carries no such mirror, or another one.
    doubt: Notify,
    /// Nodes that carry the mirror as something else than it was.
    is_changed: AtomicBool,
}

// === impl Told ===

impl Told {
    pub(super) fn new(resource: &GroupVersionResource, peers: &Arc<Peers>, fanout: &Arc<Fanout>) -> Self {
        Self {
            resource: resource.clone(),
            peers: peers.clone(),
            fanout: fanout.clone(),
            spec: watch::Sender::new(None),
            facts: watch::Sender::new(None),
            doubt: Notify::new(),
            is_changed: AtomicBool::new(false),
        }
    }

    pub(super) fn spec(&self) -> watch::Receiver<Spec> {
        self.spec.subscribe()
    }

    pub(super) fn facts(&self) -> watch::Receiver<Option<Arc<MirrorFacts>>> {
        self.facts.subscribe()
    }

    /// Follows who is there and what they tell, until it is another mirror or none.
    pub(super) async fn follow(self) {
        let mut changed = self.peers.changed();
        let mut telling = FuturesUnordered::new();
        let mut known: BTreeSet<usize> = BTreeSet::new();
        loop {
            let peers = self.peers.all();
            for gone in known.iter().filter(|known| !peers.iter().any(|peer| peer.index() == **known)) {
                self.fanout.remove(NodeIndex(*gone));
            }
            for peer in peers.iter().filter(|peer| !known.contains(&peer.index())) {
                let mirror = peer.mirror(&self.resource, self.fanout.wake());
                self.fanout.shards().add(NodeIndex(peer.index()), &Link::Remote(mirror.clone()));
                telling.push(self.listen(mirror));
            }
            known = peers.iter().map(|peer| peer.index()).collect();
            tokio::select! {
                biased;
                Ok(()) = changed.changed() => {}
                Some(()) = telling.next() => {}
                () = self.doubt.notified() => {
                    if self.is_gone() {
                        return;
                    }
                }
            }
        }
    }

    /// Whether what was mirrored is not there any more: a node has found something else, or none of them has it. One alone that
    /// says so may have lost it, and takes it up again.
    fn is_gone(&self) -> bool {
        let peers = self.peers.all();
        let refuses = |peer: &Arc<Peer>| peer.mirror(&self.resource, self.fanout.wake()).was_refused();
        let mut up = peers.iter().filter(|peer| peer.is_up()).peekable();
        self.is_changed.load(Ordering::Relaxed) || up.peek().is_some() && up.all(refuses)
    }

    fn learn(&self, spec: Arc<MirrorSpec>) {
        self.spec.send_if_modified(|known| match known {
            Some(Ok(known)) => {
                if !known.is_same(&spec) {
                    self.is_changed.store(true, Ordering::Relaxed);
                    self.doubt.notify_one();
                }
                false
            }
            Some(Err(_)) | None => {
                *known = Some(Ok(spec));
                true
            }
        });
    }

    /// Takes over what one node tells, until it is gone.
    async fn listen(&self, mirror: Arc<RemoteMirror>) {
        let (mut spec, mut facts, mut refused) = (mirror.spec(), mirror.facts(), mirror.refused());
        // The senders live in the mirror itself.
        drop(mirror);
        loop {
            let told = tokio::select! {
                told = spec.changed() => told,
                told = facts.changed() => told,
                told = refused.changed() => told,
            };
            if told.is_err() {
                return;
            }
            let refused = *refused.borrow_and_update();
            match (spec.borrow_and_update().clone(), refused) {
                (Some(_), Some(_)) => self.doubt.notify_one(),
                (Some(spec), None) => self.learn(spec),
                (None, Some(reason)) => {
                    self.spec.send_if_modified(|known| {
                        known.is_none().then(|| *known = Some(Err(reason))).is_some()
                    });
                }
                (None, None) => {}
            }
            if let Some(facts) = facts.borrow_and_update().clone() {
                self.facts.send_replace(Some(facts));
            }
        }
    }
}

/// The spec that a node tells first, or why there is none.
pub(super) async fn first(mut spec: watch::Receiver<Spec>) -> Result<Arc<MirrorSpec>, Unmirrored> {
    match spec.wait_for(Option::is_some).await {
        Ok(told) => told.clone().unwrap_or(Err(Unmirrored::NotServed)),
        // The process stops.
        Err(_) => Err(Unmirrored::NotServed),
    }
}
