//! All mirrors of this process: which resources may be mirrored, which are, and how far they are.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;
use weir_core::policy::MirrorPolicy;
use weir_core::{GroupResource, GroupVersionResource, WindowBounds};
use weir_daemon::Lifecycle;
use weir_proto::session::Unmirrored;
use weir_shard_node::feed::metrics::FeedMetrics;
use weir_shard_node::feed::tick::TickNamespace;
use weir_shard_node::feeds::starting::{self, NotDescribed};
use weir_upstream::Upstream;

use super::Mirror;
use super::check::CHECK_EVERY;
use super::check::counts::CheckMetrics;
use super::demand::Demand;
use super::proofs::{PROOF_LIMIT, ProofMetrics};
use super::usage::{InUse, Usage};
use crate::peers::Peers;

/// How soon upstream is asked again that could not be asked what a named resource is.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long a mirror goes on that was begun for a request and that nobody uses: longer than the pauses of whoever lists a kind
/// again and again.
pub const IDLE_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Where the shards of a mirror are.
#[derive(Clone, Debug)]
pub enum Backing {
    /// In this process, which also reads upstream.
    Local {
        /// In how many shards.
        shards: usize,
        /// How much log.
        bounds: WindowBounds,
        /// Where feeds tick, if they are to.
        tick: Option<TickNamespace>,
    },
    /// In processes of their own.
    Nodes(Arc<Peers>),
}

/// How far a mirror is.
#[derive(Clone, Debug)]
pub enum State {
    /// It has not got its first list.
    Loading,
    /// It answers.
    Ready(Arc<Mirror>),
    /// The resource cannot be mirrored; it is tried again later.
    Refused,
    /// It has ended; who wants it begins another.
    Over,
}

/// Why a named mirror did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No node mirrors the resource.
    #[error("mirror {resource}: the nodes say {reason:?}")]
    Unmirrored {
        /// Which one.
        resource: GroupResource,
        /// Why.
        reason: Unmirrored,
    },
    /// The resource cannot be mirrored.
    #[error("mirror {resource}")]
    Describe {
        /// Which one.
        resource: GroupResource,
        /// Why.
        #[source]
        source: NotDescribed,
    },
}

/// All mirrors.
#[derive(Debug)]
pub struct Mirrors {
    pub(super) upstream: Upstream,
    pub(super) lifecycle: Lifecycle,
    policy: MirrorPolicy,
    pub(super) backing: Backing,
    pub(super) started: Instant,
    /// How long a mirror goes on that nobody uses.
    pub(super) idle: Duration,
    pub(super) proof_limit: Duration,
    pub(super) counts: (ProofMetrics, CheckMetrics),
    /// What the feeds of this process count, where it has any.
    pub(super) feeds: FeedMetrics,
    pub(super) check_every: Duration,
    mirrors: DashMap<GroupVersionResource, Entry>,
    demand: Demand,
}

/// One mirror that was begun.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) state: watch::Sender<State>,
    pub(super) usage: Arc<Usage>,
}

// === impl Mirrors ===

impl Mirrors {
    /// None yet.
    pub fn new(upstream: Upstream, lifecycle: Lifecycle, (policy, backing): (MirrorPolicy, Backing)) -> Self {
        Self {
            upstream,
            lifecycle,
            policy,
            backing,
            started: Instant::now(),
            idle: IDLE_LIMIT,
            proof_limit: PROOF_LIMIT,
            counts: Default::default(),
            feeds: FeedMetrics::default(),
            check_every: CHECK_EVERY,
            mirrors: DashMap::new(),
            demand: Demand::default(),
        }
    }

    /// The same with mirrors that are compared with upstream so often.
    #[must_use]
    pub fn checked_every(self, check_every: Duration) -> Self {
        Self { check_every, ..self }
    }

    /// The same with mirrors that may take so long to prove that they are fresh, before upstream answers instead.
    #[must_use]
    pub fn proved_within(self, proof_limit: Duration) -> Self {
        Self { proof_limit, ..self }
    }

    /// Shows what is counted of proofs, self-checks, and the feeds of this process.
    pub fn register(&self, registry: &mut Registry) {
        let (proofs, checks) = &self.counts;
        proofs.register(registry);
        checks.register(registry);
        if let Backing::Local { .. } = &self.backing {
            self.feeds.register(registry);
        }
    }

    /// The same with mirrors that go on for so long when nobody uses them.
    #[must_use]
    pub fn idle_for(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// The mirrors that answer.
    pub fn ready(&self) -> Vec<Arc<Mirror>> {
        let ready = self.mirrors.iter().filter_map(|entry| match &*entry.state.borrow() {
            State::Ready(mirror) => Some(mirror.clone()),
            State::Loading | State::Refused | State::Over => None,
        });
        ready.collect()
    }

    /// The zero of the clock of shards in this process.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Whether the configuration names the resource: its mirror does not end for want of users.
    pub(super) fn is_named(&self, resource: &GroupVersionResource) -> bool {
        self.policy.named.contains(&resource.group_resource())
    }

    /// All that were begun.
    pub(super) fn entries(&self) -> Vec<(GroupVersionResource, Entry)> {
        self.mirrors.iter().map(|entry| (entry.key().clone(), entry.value().clone())).collect()
    }

    /// How many were begun.
    pub(super) fn len(&self) -> usize {
        self.mirrors.len()
    }

    /// Whether some shard is on no node that this process sees: then no mirror answers.
    pub fn has_hole(&self) -> bool {
        match &self.backing {
            Backing::Local { .. } => false,
            Backing::Nodes(peers) => !peers.holes().is_empty(),
        }
    }

    /// Whether the resource may be mirrored.
    pub fn allows(&self, resource: &GroupVersionResource) -> bool {
        self.policy.allows(resource)
    }

    /// Whether the mirror of a resource was begun, or is named.
    pub fn is_begun(&self, resource: &GroupVersionResource) -> bool {
        self.mirrors.contains_key(resource) || self.is_named(resource)
    }

    /// Takes note of a list of a resource that has no mirror. Whether a mirror would save something.
    pub fn is_listed_again(&self, resource: &GroupVersionResource) -> bool {
        self.demand.list(resource)
    }

    /// How far the mirror of a resource is; `None` if nobody has asked for one.
    pub fn state(&self, resource: &GroupVersionResource) -> Option<watch::Receiver<State>> {
        self.mirrors.get(resource).map(|entry| entry.state.subscribe())
    }

    /// The mirror of a resource, started if need be. It does not end for want of users while the second value lives.
    pub async fn begin(self: &Arc<Self>, resource: &GroupVersionResource) -> (watch::Receiver<State>, InUse) {
        loop {
            let Entry { state, usage } = self.enter(resource);
            let mut receiver = state.subscribe();
            drop(state);
            if let Some(in_use) = usage.begin() {
                return (receiver, in_use);
            }
            // It is about to be taken out. One that has gone was.
            let _ = receiver.wait_for(|state| matches!(state, State::Over)).await;
        }
    }

    fn enter(self: &Arc<Self>, resource: &GroupVersionResource) -> Entry {
        if let Some(entry) = self.mirrors.get(resource) {
            return entry.clone();
        }
        let mut is_new = false;
        let entry = self.mirrors.entry(resource.clone()).or_insert_with(|| {
            is_new = true;
            Entry { state: watch::Sender::new(State::Loading), usage: Arc::default() }
        });
        let entry = entry.clone();
        if is_new {
            let life = self.clone().live(resource.clone(), entry.clone());
            let stop = self.lifecycle.token().clone();
            self.lifecycle.spawn(format!("mirror of {resource}"), async move {
                // Whether it was told or ended by itself, it is not there any more.
                let _ = stop.run_until_cancelled(life).await;
            });
        }
        entry
    }

    /// Takes out a mirror that is over.
    pub(super) fn remove(&self, resource: &GroupVersionResource, entry: &Entry) {
        self.mirrors.remove_if(resource, |_, known| Arc::ptr_eq(&known.usage, &entry.usage));
        entry.state.send_replace(State::Over);
    }

    /// Starts the mirrors that the configuration names, at the versions that upstream prefers, and waits until they answer.
    pub async fn start_named(self: &Arc<Self>) -> Result<(), StartError> {
        let mut starting = Vec::new();
        for named in &self.policy.named {
            let resource = self.described(named).await?;
            self.enter(&resource);
            starting.push(resource);
        }
        for resource in starting {
            let is_told = |state: &State| !matches!(state, State::Loading | State::Refused);
            loop {
                let mut state = self.enter(&resource).state.subscribe();
                // One that has gone was refused; upstream may serve it later.
                if let Ok(State::Ready(_)) = state.wait_for(is_told).await.as_deref() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A named resource at the version that upstream prefers, once upstream is there to say that it can be mirrored.
    async fn described(&self, named: &GroupResource) -> Result<GroupVersionResource, StartError> {
        loop {
            let described = async {
                let resource = starting::preferred(&self.upstream, named).await?;
                starting::describe(&self.upstream, &resource, 0).await?;
                Ok(resource)
            };
            match described.await {
                Ok(resource) => return Ok(resource),
                Err(source @ NotDescribed::Describe(_)) if source.is_answer() => {
                    return Err(StartError::Describe { resource: named.clone(), source });
                }
                // Weir and upstream may be started together.
                Err(_) => tokio::time::sleep(ASK_AGAIN).await,
            }
        }
    }
}
