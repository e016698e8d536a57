//! Several shard nodes in one process in front of a simulated apiserver. Between them everything is real: sockets, HTTP/2,
//! the services. Each has a life of its own, so that one can die while the others go on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, interval, timeout};
use weir_core::policy::MirrorPolicy;
use weir_core::{GroupVersionResource, ResourceVersion, Slot, SlotSet, WindowBounds};
use weir_daemon::members::{Members, NodeAddress, StaticNode};
use weir_daemon::peer::{Dialer, PeerPort, PeerServer};
use weir_daemon::{Lifecycle, StopCause};
use weir_shard_node::feed::metrics::FeedMetrics;
use weir_shard_node::feeds::{Feeds, FeedsMetrics};
use weir_shard_node::host::{Host, HostMetrics, HostParts, Hosted, IDLE_LIMIT};
use weir_shard_node::remote::FollowLimits;
use weir_shard_node::rpc::ShardService;
use weir_shard_node::rpc::feed::FeedService;
use weir_shard_node::rpc::metrics::Metrics;
use weir_shard_node::rpc::mirrors::Mirrors;
use weir_sim::{
    Churn, ChurnShape, ClusterConfig, EventType, Handle, Listen, Record, Sim, SimConfig, Upheaval,
};
use weir_upstream::{Origin, Upstream, UpstreamOptions};

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Limits that a test can wait for.
pub(crate) const LIMITS: FollowLimits = FollowLimits {
    first_choice: Duration::from_secs(10),
    back_for: Duration::from_millis(300),
    silent: Duration::from_millis(500),
    behind: Duration::from_millis(500),
    suspended: Duration::from_secs(60),
};

/// The simulated cluster, and what is common to all nodes.
pub(crate) struct World {
    pub(crate) sim: Sim,
    churn: Mutex<Churn>,
    instances: Vec<Handle>,
    directory: PathBuf,
}

/// How a node is made.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) slots: SlotSet,
    /// The nodes that it sees.
    pub(crate) sees: Vec<NodeAddress>,
    pub(crate) bounds: WindowBounds,
    /// Which instance of upstream comes first.
    pub(crate) instance: usize,
    /// How the others know it, where that is not the address that it listens on.
    pub(crate) own: Option<SocketAddr>,
    /// How long a mirror goes on that no session carries.
    pub(crate) idle: Duration,
}

/// One shard node.
pub(crate) struct Node {
    pub(crate) host: Arc<Host>,
    pub(crate) address: SocketAddr,
    pub(crate) metrics: HostMetrics,
    lifecycle: Lifecycle,
    is_killed: bool,
}

pub(crate) fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    let mut tick = interval(Duration::from_millis(5));
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not in time");
        tick.tick().await;
    }
}

// === impl World ===

impl World {
    pub(crate) async fn start(seed: u64) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        println!("seed {seed}");
        #[expect(clippy::disallowed_methods, reason = "the tester's own switch, not a setting of weir")]
        if std::env::var("WEIR_LOG").is_ok() {
            // Only the first world of a process can.
            let _ = weir_daemon::telemetry::start(weir_daemon::telemetry::LogFormat::Text, None);
        }
        let cluster = ClusterConfig { seed, ..ClusterConfig::default() };
        let sim = Sim::new(SimConfig { cluster, ..SimConfig::default() });
        let churn = sim.with(|cluster| Churn::fill(cluster, seed, ChurnShape::default()));
        let mut instances = Vec::new();
        for index in 0..2 {
            instances.push(sim.serve(index, Listen::default()).await.unwrap());
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("weir-nodes-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: sim\n\
             clusters: [{{name: sim, cluster: {{server: \"http://{}\"}}}}]\n\
             users: [{{name: sim, user: {{token: admin}}}}]\n\
             contexts: [{{name: sim, context: {{cluster: sim, user: sim}}}}]\n",
            instances[0].addr()
        );
        std::fs::write(directory.join("kubeconfig"), kubeconfig).unwrap();
        Self { sim, churn: Mutex::new(churn), instances, directory }
    }

    /// Some writes, of which many concern pods.
    pub(crate) fn write(&self, steps: usize) {
        let mut churn = self.churn.lock().unwrap();
        for _ in 0..steps {
            self.sim.with(|cluster| churn.step(cluster));
        }
    }

    /// The pods in some slots, and the last revision at which one changed.
    pub(crate) fn truth(&self, slots: &SlotSet) -> (BTreeMap<String, u64>, ResourceVersion) {
        let resource = self.sim.resource("pods").unwrap();
        let mut events = Vec::new();
        for record in self.sim.log() {
            match record {
                Record::Event(event) if event.resource == resource => events.push(event),
                Record::Upheaval(Upheaval::Restored(at)) => events.retain(|event| event.rv <= at),
                Record::Event(_) | Record::Upheaval(_) => {}
            }
        }
        let last = events.last().map_or(ResourceVersion::ZERO, |event| event.rv);
        let mut pods = BTreeMap::new();
        for event in events.iter().filter(|event| slots.contains(Slot::of_uid(event.uid()))) {
            let key = event.key().as_str().to_owned();
            match event.event {
                EventType::Added | EventType::Modified => drop(pods.insert(key, event.rv.get())),
                EventType::Deleted => drop(pods.remove(&key)),
            }
        }
        (pods, last)
    }

    /// Addresses for so many nodes, in the order in which they come as the feed of pods.
    pub(crate) fn ports(count: usize) -> Vec<PeerPort> {
        let mut ports: Vec<_> =
            (0..count).map(|_| PeerPort::bind("127.0.0.1:0".parse().unwrap(), None).unwrap()).collect();
        let names: Vec<_> = ports.iter().map(|port| port.local_address().to_string()).collect();
        let order = weir_core::rendezvous::order(names.iter().map(String::as_str), &pods());
        ports.sort_by_key(|port| order.iter().position(|name| *name == port.local_address().to_string()));
        ports
    }

    /// A node of these slots that sees the nodes at these addresses.
    pub(crate) fn plan(slots: SlotSet, sees: &[SocketAddr]) -> Plan {
        let sees = sees.iter().copied().map(NodeAddress::from).collect();
        Plan { slots, sees, bounds: WindowBounds::default(), instance: 0, own: None, idle: IDLE_LIMIT }
    }

    /// A node that listens; what it begins with is under way.
    pub(crate) async fn node(&self, port: PeerPort, plan: Plan) -> Node {
        let Plan { slots, sees, bounds, instance, own, idle } = plan;
        let (lifecycle, address) = (Lifecycle::new(), port.local_address());
        let origin = Origin::Kubeconfig { path: Some(self.directory.join("kubeconfig")), context: None };
        let mut urls: Vec<_> =
            self.instances.iter().map(|one| format!("http://{}", one.addr()).parse().unwrap()).collect();
        urls.rotate_left(instance);
        let upstream = Upstream::load(UpstreamOptions { origin, urls }, &lifecycle).await.unwrap();
        let alone = sees.is_empty().then(|| NodeAddress::from(address));
        let sees = sees.into_iter().chain(alone);
        let nodes = sees.map(|address| StaticNode { index: 0, count: 1, address });
        let metrics = HostMetrics::default();
        let host = Host::new(HostParts {
            upstream,
            lifecycle: lifecycle.clone(),
            members: Members::fixed(nodes.collect()).unwrap(),
            dialer: Dialer::new(None, lifecycle.clone()),
            own: own.unwrap_or(address).into(),
            slots,
            bounds,
            policy: MirrorPolicy::default(),
            idle,
            limits: LIMITS,
            metrics: metrics.clone(),
            tick: None,
        });
        let shard = ShardService::new(Mirrors::of(host.clone()), lifecycle.clone(), Metrics::default());
        let feed = FeedService::new(host.feeds().clone(), lifecycle.clone());
        let server = PeerServer::new(feed, shard, lifecycle.clone());
        lifecycle.spawn_critical("peers", server.run(port));
        Node { host, address, metrics, lifecycle, is_killed: false }
    }

    /// Waits until the nodes have all pods of their slots, and compares.
    pub(crate) async fn compare(&self, nodes: &[&Node]) {
        for node in nodes {
            let (truth, last) = self.truth(&node.host.slots());
            let pods = node.pods().await;
            let has_come = || pods.cell.window().is_some_and(|window| window.frontier >= last);
            until(&format!("{} at {last}", node.address), has_come).await;
            assert_eq!(crate::held::content(&pods, None), truth, "{}", node.address);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

// === impl Node ===

impl Node {
    /// The mirror of pods; started if need be.
    pub(crate) async fn pods(&self) -> Arc<Hosted> {
        timeout(LIMIT, self.host.attach(&pods())).await.expect("attached in time").expect("pods are mirrored")
    }

    /// Waits until the node has what it begins with.
    pub(crate) async fn ready(&self) {
        timeout(LIMIT, self.host.start()).await.expect("ready in time");
    }

    /// How many lists of pods its feeds have read.
    pub(crate) fn lists(&self) -> u64 {
        self.metrics.feed.of(&pods()).lists.get()
    }

    /// Feeds of its own upstream that end soon when nobody subscribes to them.
    pub(crate) fn brief_feeds(&self) -> Arc<Feeds> {
        let upstream = self.host.feeds().upstream().clone();
        let metrics = (FeedMetrics::default(), FeedsMetrics::default());
        Arc::new(Feeds::new(upstream, self.lifecycle.clone(), metrics).idle_for(Duration::from_millis(100)))
    }

    /// Whether it is a feed of pods.
    pub(crate) fn is_feed(&self) -> bool {
        self.host.feeds().running(&pods()).is_some_and(|feed| feed.handle.subscribers() > 0)
    }

    /// A task that ends with the node.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.lifecycle.token().clone();
        self.lifecycle.spawn("of a test", async move {
            // Whether it was told or ended by itself makes no difference.
            let _ = stop.run_until_cancelled(task).await;
        });
    }

    /// Its sudden death: nothing is said on its connections.
    pub(crate) async fn kill(mut self) -> SocketAddr {
        self.is_killed = true;
        self.lifecycle.stop(StopCause::Asked);
        let stopped = self.lifecycle.stopped(Duration::ZERO).await;
        assert_eq!(stopped.cause, StopCause::Asked);
        until("its tasks are gone", || self.lifecycle.is_empty()).await;
        self.address
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let is_well = self.is_killed || !self.lifecycle.is_stopping();
        self.lifecycle.stop(StopCause::Asked);
        assert!(is_well || std::thread::panicking(), "a task of the node panicked or ended");
    }
}
