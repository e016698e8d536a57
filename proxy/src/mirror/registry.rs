//! All mirrors of this process: which resources may be mirrored, which are, and how far they are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};
use weir_core::{GroupResource, GroupVersionResource, SlotSet, WindowBounds};
use weir_daemon::Lifecycle;
use weir_shard_node::feed::describe::{self, DescribeError};
use weir_shard_node::feed::handle::FeedHandle;
use weir_shard_node::feed::prove;
use weir_shard_node::feed::reader::Reader;
use weir_shard_node::feed::ring::SubscriberId;
use weir_shard_node::node::cell::NodeCell;
use weir_shard_node::subscriber;
use weir_upstream::{ConnectError, Role, Upstream};

use super::Mirror;
use crate::hub::fanout::Fanout;
use crate::shards::Shards;

/// How long a resource that could not be described is left alone.
const DESCRIBE_AGAIN: Duration = Duration::from_secs(5);

/// Resources that are never mirrored unless they are named: their objects change all the time and nobody watches them, or
/// upstream keeps no cache of them.
const NEVER_UNASKED: [&str; 4] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io", "secrets"];

/// What is mirrored, and how.
#[derive(Clone, Debug)]
pub struct MirrorPolicy {
    /// In how many shards.
    pub shards: usize,
    /// How much log.
    pub bounds: WindowBounds,
    /// Resources named in the configuration.
    pub named: BTreeSet<GroupResource>,
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
    started: Instant,
    mirrors: DashMap<GroupVersionResource, watch::Sender<State>>,
}

// === impl Mirrors ===

impl Mirrors {
    /// None yet.
    pub fn new(upstream: Upstream, lifecycle: Lifecycle, policy: MirrorPolicy) -> Self {
        Self { upstream, lifecycle, policy, started: Instant::now(), mirrors: DashMap::new() }
    }

    /// Whether the resource may be mirrored.
    pub fn allows(&self, resource: &GroupVersionResource) -> bool {
        let named = resource.group_resource();
        self.policy.named.contains(&named)
            || (self.policy.named.is_empty() && !NEVER_UNASKED.contains(&named.to_string().as_str()))
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
        let instances = self.upstream.instances();
        let first = self.mirrors.len() % instances.len();
        let connection = instances[first].connect(Role::Feed).await?;
        let described = describe::describe(&connection, resource).await;
        let spec = described
            .map_err(|source| StartError::Describe { resource: resource.group_resource(), source })?;
        let (questions, asking) = prove::questions();
        let (spec, feed) = (Arc::new(spec), Arc::new(FeedHandle::new(questions)));
        let nodes: Vec<_> = (0..self.policy.shards)
            .map(|index| {
                Arc::new(NodeCell::new(SlotSet::of_shard(index, self.policy.shards), self.policy.bounds))
            })
            .collect();
        for (index, node) in nodes.iter().enumerate() {
            let carry = subscriber::run(feed.clone(), node.clone(), SubscriberId(index as u64), self.started);
            self.carry(format!("shard {index} of {resource}"), carry);
        }
        let fanout = Arc::new(Fanout::new(Shards::new(nodes)));
        self.carry(format!("fan-out of {resource}"), fanout.clone().run());
        let reader = Reader::new(self.upstream.clone(), spec.clone(), (feed.clone(), asking), first);
        self.carry(format!("feed of {resource}"), reader.run());
        let mirror = Arc::new(Mirror::new(spec, feed, fanout));
        self.carry(format!("restores of {resource}"), mirror.clone().follow_restores());
        Ok(mirror)
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
