//! All mirrors of this process: which resources may be mirrored, which are, and how far they are.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};
use weir_core::policy::MirrorPolicy;
use weir_core::{GroupResource, GroupVersionResource, SlotSet, WindowBounds};
use weir_daemon::Lifecycle;
use weir_proto::session::Unmirrored;
use weir_shard_node::feed::describe::{self, DescribeError};
use weir_shard_node::feed::handle::FeedHandle;
use weir_shard_node::feed::prove;
use weir_shard_node::feed::reader::Reader;
use weir_shard_node::feed::ring::SubscriberId;
use weir_shard_node::node::cell::NodeCell;
use weir_shard_node::subscriber;
use weir_upstream::{ConnectError, Role, Upstream};

use super::check::counts::CheckMetrics;
use super::check::{CHECK_EVERY, SelfCheck};
use super::feed::{Feed, RemoteFeed};
use super::proofs::ProofMetrics;
use super::{Mirror, nodes};
use crate::hub::fanout::Fanout;
use crate::peers::Peers;
use crate::shards::Shards;

/// How long a resource that could not be described is left alone.
const DESCRIBE_AGAIN: Duration = Duration::from_secs(5);

/// Where the shards of a mirror are.
#[derive(Clone, Debug)]
pub enum Backing {
    /// In this process, which also reads upstream.
    Local {
        /// In how many shards.
        shards: usize,
        /// How much log.
        bounds: WindowBounds,
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
    Refused(Instant),
}

/// Why a named mirror did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Upstream cannot be reached.
    #[error("connect to upstream")]
    Connect(#[from] ConnectError),
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
        source: DescribeError,
    },
}

/// All mirrors.
#[derive(Debug)]
pub struct Mirrors {
    upstream: Upstream,
    lifecycle: Lifecycle,
    policy: MirrorPolicy,
    backing: Backing,
    started: Instant,
    counts: (ProofMetrics, CheckMetrics),
    check_every: Duration,
    mirrors: DashMap<GroupVersionResource, watch::Sender<State>>,
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
            counts: Default::default(),
            check_every: CHECK_EVERY,
            mirrors: DashMap::new(),
        }
    }

    /// The same with mirrors that are compared with upstream so often.
    #[must_use]
    pub fn checked_every(self, check_every: Duration) -> Self {
        Self { check_every, ..self }
    }

    /// Shows what is counted of proofs and self-checks.
    pub fn register(&self, registry: &mut Registry) {
        let (proofs, checks) = &self.counts;
        proofs.register(registry);
        checks.register(registry);
    }

    /// The mirrors that answer.
    pub fn ready(&self) -> Vec<Arc<Mirror>> {
        let ready = self.mirrors.iter().filter_map(|state| match &*state.borrow() {
            State::Ready(mirror) => Some(mirror.clone()),
            State::Loading | State::Refused(_) => None,
        });
        ready.collect()
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

    /// How far the mirror of a resource is; `None` if nobody has asked for one.
    pub fn state(&self, resource: &GroupVersionResource) -> Option<watch::Receiver<State>> {
        self.mirrors.get(resource).map(|state| state.subscribe())
    }

    /// Starts the mirror of a resource, or finds it started.
    pub fn start(self: &Arc<Self>, resource: &GroupVersionResource) -> watch::Receiver<State> {
        let mut is_new = false;
        let entry = self.mirrors.entry(resource.clone()).or_insert_with(|| {
            is_new = true;
            watch::Sender::new(State::Loading)
        });
        let is_due = matches!(*entry.borrow(), State::Refused(until) if Instant::now() >= until);
        if is_due {
            entry.send_replace(State::Loading);
        }
        let (sender, receiver) = (entry.clone(), entry.subscribe());
        drop(entry);
        if is_new || is_due {
            let (mirrors, resource) = (self.clone(), resource.clone());
            let stop = self.lifecycle.token().clone();
            self.lifecycle.spawn(format!("start mirror {resource}"), async move {
                if let Some(state) = stop.run_until_cancelled(mirrors.load(&resource)).await {
                    sender.send_replace(state);
                }
            });
        }
        receiver
    }

    /// Starts the mirrors that the configuration names, at the versions that upstream prefers, and waits until they answer.
    pub async fn start_named(self: &Arc<Self>) -> Result<(), StartError> {
        if self.policy.named.is_empty() {
            return Ok(());
        }
        let instances = self.upstream.instances();
        let connection = instances[0].connect(Role::Feed).await?;
        let mut starting = Vec::new();
        for named in &self.policy.named {
            let describe = |source| StartError::Describe { resource: named.clone(), source };
            let resource = describe::preferred(&connection, named).await.map_err(describe)?;
            describe::describe(&connection, &resource).await.map_err(describe)?;
            starting.push(self.start(&resource));
        }
        for mut state in starting {
            // The sender lives in the registry, so the channel cannot close.
            let _ = state.wait_for(|state| matches!(state, State::Ready(_))).await;
        }
        Ok(())
    }

    async fn load(self: &Arc<Self>, resource: &GroupVersionResource) -> State {
        match self.assemble(resource).await {
            Ok(mirror) => {
                let mut facts = mirror.feed.facts();
                let _ = facts.wait_for(Option::is_some).await;
                let _ = mirror.fanout.frontier().wait_for(|frontier| !frontier.is_zero()).await;
                info!(%resource, "mirror ready");
                State::Ready(mirror)
            }
            Err(error) => {
                let reason = &error as &dyn std::error::Error;
                warn!(%resource, error = reason, "not mirrored");
                State::Refused(Instant::now() + DESCRIBE_AGAIN)
            }
        }
    }

    /// Builds the mirror's parts and starts their tasks.
    async fn assemble(self: &Arc<Self>, resource: &GroupVersionResource) -> Result<Arc<Mirror>, StartError> {
        let mirror = match &self.backing {
            Backing::Local { shards, bounds } => self.assemble_here(resource, (*shards, *bounds)).await?,
            Backing::Nodes(peers) => self.assemble_on_nodes(resource, peers).await?,
        };
        let mirror = Arc::new(mirror);
        self.carry(format!("restores of {resource}"), mirror.clone().follow_restores());
        let counts = self.counts.1.of(&resource.group_resource());
        let check = SelfCheck::new(mirror.clone(), self.check_every, counts);
        self.carry(format!("self-check of {resource}"), check.run());
        Ok(mirror)
    }

    async fn assemble_here(
        &self,
        resource: &GroupVersionResource,
        (shards, bounds): (usize, WindowBounds),
    ) -> Result<Mirror, StartError> {
        let instances = self.upstream.instances();
        let first = self.mirrors.len() % instances.len();
        let connection = instances[first].connect(Role::Feed).await?;
        let described = describe::describe(&connection, resource).await;
        let spec = described
            .map_err(|source| StartError::Describe { resource: resource.group_resource(), source })?;
        let (questions, asking) = prove::questions();
        let (spec, feed) = (Arc::new(spec), Arc::new(FeedHandle::new(questions)));
        let nodes = (0..shards).map(|index| NodeCell::new(SlotSet::of_shard(index, shards), bounds));
        let nodes: Vec<_> = nodes.map(Arc::new).collect();
        for (index, node) in nodes.iter().enumerate() {
            let carry = subscriber::run(feed.clone(), node.clone(), SubscriberId(index as u64), self.started);
            self.carry(format!("shard {index} of {resource}"), carry);
        }
        let fanout = Arc::new(Fanout::new(Shards::local(nodes)));
        self.carry(format!("fan-out of {resource}"), fanout.clone().run());
        let reader = Reader::new(self.upstream.clone(), spec.clone(), (feed.clone(), asking), first);
        self.carry(format!("feed of {resource}"), reader.run());
        let proofs = self.counts.0.of(&resource.group_resource());
        Ok(Mirror::new(spec, Feed::Local(feed), (fanout, proofs)))
    }

    async fn assemble_on_nodes(
        &self,
        resource: &GroupVersionResource,
        peers: &Arc<Peers>,
    ) -> Result<Mirror, StartError> {
        let slots = (0..peers.shards()).map(|index| SlotSet::of_shard(index, peers.shards()));
        let fanout = Arc::new(Fanout::new(Shards::new(slots.collect())));
        let told = nodes::Told::new(resource, peers, &fanout);
        let (spec, facts) = (told.spec(), told.facts());
        // Not critical: they end when no node mirrors the resource.
        let stop = self.lifecycle.token().child_token();
        let (nodes, carrying) = (told.follow(), fanout.clone().run());
        let both = async { tokio::join!(nodes, carrying) };
        let ending = stop.clone();
        self.lifecycle.spawn(format!("nodes of {resource}"), async move {
            // Whether it was told or ended by itself makes no difference.
            let _ = ending.run_until_cancelled(both).await;
        });
        match nodes::first(spec).await {
            Ok(spec) => {
                let feed = RemoteFeed::new(peers.clone(), resource.clone(), facts);
                let proofs = self.counts.0.of(&resource.group_resource());
                Ok(Mirror::new(spec, Feed::Remote(feed), (fanout, proofs)))
            }
            Err(reason) => {
                stop.cancel();
                peers.all().iter().for_each(|peer| peer.forget(resource));
                Err(StartError::Unmirrored { resource: resource.group_resource(), reason })
            }
        }
    }

    /// Spawns a task that a mirror cannot do without. It ends when the process is told to stop.
    fn carry(&self, name: String, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.lifecycle.token().clone();
        self.lifecycle.spawn_critical(name, async move {
            // Whether it was told or ended by itself, the lifecycle knows.
            let _ = stop.run_until_cancelled(task).await;
        });
    }
}
