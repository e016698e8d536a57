//! The shard nodes of a world: each has a runtime of its own, and nothing in common with the proxy or another node but the
//! sockets between them. A node that is killed takes all its tasks and connections with it at once, as a process does; one
//! that hangs has its only thread held, so that its kernel answers for it and nobody else.
//!
//! Each fleet has a loopback address of its own. A port that a node gave up can so be taken by nobody but the node itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use weir_core::policy::MirrorPolicy;
use weir_core::{SlotSet, WindowBounds};
use weir_daemon::members::{Members, NodeAddress, Resolve};
use weir_daemon::peer::{Dialer, PeerPort, PeerServer};
use weir_daemon::{Lifecycle, StopCause};
use weir_proxy::mirror::registry::Backing;
use weir_proxy::peers::Peers;
use weir_shard_node::feed::tick::TickNamespace;
use weir_shard_node::host::{Host, HostMetrics, HostParts};
use weir_shard_node::remote::FollowLimits;
use weir_shard_node::rpc::ShardService;
use weir_shard_node::rpc::feed::FeedService;
use weir_shard_node::rpc::metrics::Metrics;
use weir_shard_node::rpc::mirrors::Mirrors;
use weir_upstream::{Upstream, UpstreamOptions};

use crate::client::LIMIT;
use crate::relay::Relays;
use crate::world::Settings;

/// Shards of a fleet at most; a world that asks for more gets so many. Each costs a runtime for each of its replicas.
const MAX_SHARDS: usize = 2;
/// Nodes of each shard.
const REPLICAS: usize = 2;

/// What a test may want otherwise.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Which nodes each one sees; without it, all of them.
    pub(crate) views: Option<fn(usize) -> Vec<usize>>,
    /// A node that does not see itself, and reaches others through relays only, which can be cut.
    pub(crate) relayed: Option<usize>,
    pub(crate) limits: FollowLimits,
}

/// All nodes of a world, and the proxy's view of them.
pub(crate) struct Fleet {
    pub(crate) peers: Arc<Peers>,
    pub(crate) relays: Relays,
    plan: Arc<Plan>,
    nodes: Vec<Node>,
}

/// What all nodes have in common.
struct Plan {
    shards: usize,
    addresses: Vec<SocketAddr>,
    bounds: WindowBounds,
    policy: MirrorPolicy,
    idle: Duration,
    upstream: UpstreamOptions,
    limits: FollowLimits,
    tick: Option<TickNamespace>,
    /// Whom each node sees, by the addresses by which it does.
    views: Vec<Vec<SocketAddr>>,
}

/// One replica of one shard.
struct Node {
    shard: usize,
    address: SocketAddr,
    running: Mutex<Option<Running>>,
}

/// A node that runs.
struct Running {
    runtime: Runtime,
    lifecycle: Lifecycle,
    ready: JoinHandle<()>,
}

/// Addresses as DNS would give them: nothing says which shard a node is of, and not all need be there.
struct Named(Vec<SocketAddr>);

/// A node that hangs, until this is dropped.
pub(crate) struct Hanging {
    _held: std::sync::mpsc::SyncSender<()>,
}

// === impl Wanted ===

impl Wanted {
    fn views(&self, addresses: &[SocketAddr], relays: &Relays) -> Vec<Vec<SocketAddr>> {
        let view = |index: usize| {
            let mut seen = self.views.map_or((0..addresses.len()).collect(), |views| views(index));
            let is_relayed = self.relayed == Some(index);
            seen.retain(|other| !is_relayed || *other != index);
            let address = |other: usize| {
                if is_relayed { relays.to(addresses[other]) } else { addresses[other] }
            };
            seen.into_iter().map(address).collect()
        };
        (0..addresses.len()).map(view).collect()
    }
}

// === impl Fleet ===

impl Fleet {
    /// The nodes of a world with these settings, and the proxy's way to them; all have what is mirrored from the start.
    pub(crate) async fn start(
        settings: &Settings,
        upstream: &UpstreamOptions,
        lifecycle: &Lifecycle,
    ) -> (Self, Backing) {
        let shards = settings.shards.min(MAX_SHARDS);
        let own = IpAddr::V4(Ipv4Addr::from_bits(rand::random_range(0x7f01_0001..0x7fff_fffe)));
        let bound: Vec<_> = (0..shards * REPLICAS).map(|_| bind(SocketAddr::new(own, 0))).collect();
        let addresses: Vec<_> = bound.iter().map(|(_, port)| port.local_address()).collect();
        let relays = Relays::new(lifecycle.clone());
        let plan = Plan {
            shards,
            bounds: settings.bounds,
            policy: settings.policy(),
            idle: settings.idle,
            upstream: upstream.clone(),
            limits: settings.fleet.limits,
            tick: settings.tick(),
            views: settings.fleet.views(&addresses, &relays),
            addresses,
        };
        let plan = Arc::new(plan);
        let started = join_all(bound.into_iter().enumerate().map(|(index, bound)| plan.run(index, bound)));
        let nodes = started.await.into_iter().zip(0..).map(|(running, index)| Node {
            shard: plan.shard_of(index),
            address: plan.addresses[index],
            running: Mutex::new(Some(running)),
        });
        let nodes = nodes.collect();
        let dialer = Dialer::new(None, lifecycle.clone());
        let peers = Arc::new(Peers::new(dialer, lifecycle.clone(), shards));
        let (run, stop) =
            (peers.clone().run(plan.members(&plan.addresses, lifecycle)), lifecycle.token().clone());
        lifecycle.spawn_critical("nodes", async move {
            // Whether it was told or ended by itself, the lifecycle knows.
            let _ = stop.run_until_cancelled(run).await;
        });
        let fleet = Self { peers: peers.clone(), relays, plan, nodes };
        fleet.ready().await;
        (fleet, Backing::Nodes(peers))
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes of a shard.
    pub(crate) fn of_shard(&self, shard: usize) -> Vec<usize> {
        (0..self.len()).filter(|index| self.nodes[*index].shard == shard).collect()
    }

    /// The address of a node.
    pub(crate) fn address(&self, index: usize) -> NodeAddress {
        self.nodes[index].address.into()
    }

    /// Ends a node with all that it has, at once.
    pub(crate) async fn kill(&self, index: usize) {
        let running = self.nodes[index].running.lock().unwrap().take().expect("the node runs");
        running.check();
        let Running { runtime, .. } = running;
        // The end of a runtime waits for its threads, which nobody may do inside another one.
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(LIMIT)).await.unwrap();
    }

    /// Ends a node as a signal does: it is told, and finishes.
    pub(crate) async fn stop(&self, index: usize) {
        let running = self.nodes[index].running.lock().unwrap().take().expect("the node runs");
        running.check();
        let Running { runtime, lifecycle, .. } = running;
        lifecycle.stop(StopCause::Asked);
        let stopped = lifecycle.stopped(LIMIT).await;
        assert!(stopped.left.is_empty(), "left of a node: {:?}", stopped.left);
        tokio::task::spawn_blocking(move || runtime.shutdown_timeout(LIMIT)).await.unwrap();
    }

    /// Starts a node that does not run, with nothing, at its old address.
    pub(crate) async fn revive(&self, index: usize) {
        let node = &self.nodes[index];
        let running = self.plan.run(index, bind(node.address)).await;
        let before = node.running.lock().unwrap().replace(running);
        assert!(before.is_none(), "a node runs once");
    }

    /// Waits until all nodes that run have all that they begin with.
    pub(crate) async fn ready(&self) {
        for node in &self.nodes {
            let ready = node.running.lock().unwrap().as_mut().map(|running| {
                let done = running.runtime.spawn(async {});
                std::mem::replace(&mut running.ready, done)
            });
            if let Some(ready) = ready {
                timeout(LIMIT, ready).await.expect("a node is ready in time").unwrap();
            }
        }
    }

    /// Connections that the proxy opens when bulk is first asked for, and keeps: one a node, of which dialing makes a task.
    pub(crate) fn kept_connections(&self) -> usize {
        self.nodes.len()
    }

    /// No task of a node that runs has panicked, or ended without being told.
    pub(crate) fn check(&self) {
        for node in &self.nodes {
            if let Some(running) = &*node.running.lock().unwrap() {
                running.check();
            }
        }
    }

    /// Holds the only thread of a node.
    pub(crate) async fn hang(&self, index: usize) -> Hanging {
        let (held, until) = std::sync::mpsc::sync_channel::<()>(1);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let hold = async move {
            let _ = begun.send(());
            // An error is the end of the wait.
            let _ = until.recv();
        };
        self.nodes[index].running.lock().unwrap().as_ref().expect("the node runs").runtime.spawn(hold);
        has_begun.await.unwrap();
        Hanging { _held: held }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for node in &self.nodes {
            if let Some(running) = node.running.lock().unwrap().take() {
                running.runtime.shutdown_background();
            }
        }
    }
}

// === impl Plan ===

impl Plan {
    fn shard_of(&self, index: usize) -> usize {
        index % self.shards
    }

    fn members(&self, seen: &[SocketAddr], lifecycle: &Lifecycle) -> Members {
        let name = "nodes.weir.test:1".parse().unwrap();
        Members::dns(name, self.shards, Named(seen.to_vec()), lifecycle)
    }

    /// Runs a node behind a port that is bound.
    async fn run(self: &Arc<Self>, index: usize, (runtime, port): (Runtime, PeerPort)) -> Running {
        let (plan, lifecycle) = (self.clone(), Lifecycle::new());
        let host = runtime.spawn(plan.begin(index, port, lifecycle.clone())).await.unwrap();
        let ready = runtime.spawn(async move { host.start().await });
        Running { runtime, lifecycle, ready }
    }

    async fn begin(self: Arc<Self>, index: usize, port: PeerPort, lifecycle: Lifecycle) -> Arc<Host> {
        let host = Host::new(HostParts {
            upstream: Upstream::load(self.upstream.clone(), &lifecycle).await.unwrap(),
            lifecycle: lifecycle.clone(),
            members: self.members(&self.views[index], &lifecycle),
            dialer: Dialer::new(None, lifecycle.clone()),
            own: port.local_address().into(),
            slots: SlotSet::of_shard(self.shard_of(index), self.shards),
            bounds: self.bounds,
            policy: self.policy.clone(),
            idle: self.idle,
            limits: self.limits,
            metrics: HostMetrics::default(),
            tick: self.tick.clone(),
        });
        let feed = FeedService::new(host.feeds().clone(), lifecycle.clone());
        let service = ShardService::new(Mirrors::of(host.clone()), lifecycle.clone(), Metrics::default());
        let server = PeerServer::new(feed, service, lifecycle.clone());
        lifecycle.spawn_critical("peers", server.run(port));
        host
    }
}

// === impl Named ===

impl Resolve for Named {
    async fn resolve(&self, _: &NodeAddress) -> std::io::Result<Vec<SocketAddr>> {
        Ok(self.0.clone())
    }
}

// === impl Running ===

impl Running {
    fn check(&self) {
        let is_stopping = self.lifecycle.is_stopping();
        assert!(!is_stopping || std::thread::panicking(), "a task of a node panicked or ended");
    }
}

/// A runtime of one thread, and a port bound in it.
fn bind(address: SocketAddr) -> (Runtime, PeerPort) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let port = {
        let _inside = runtime.enter();
        PeerPort::bind(address, None).unwrap()
    };
    (runtime, port)
}
