//! The whole of weir in one process in front of a simulated apiserver of two instances, and a client of it. Between them
//! everything is real: TLS, HTTP/2, tokens, access reviews, the kubeconfig file.
//!
//! A world ends with its value. A task of weir's that panics fails the test that owns the world, even if no client noticed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsAcceptor;
use weir_core::{GroupResource, GroupVersionResource, ResourceVersion, WindowBounds};
use weir_daemon::tls::ServerTls;
use weir_daemon::{Lifecycle, Listener, SocketOptions, StopCause};
use weir_proxy::auth::Authorizer;
use weir_proxy::http::answer::Proxy;
use weir_proxy::http::server::Server as ProxyServer;
use weir_proxy::mirror::Mirror;
use weir_proxy::mirror::registry::{MirrorPolicy, Mirrors, State};
use weir_proxy::passthrough::Passthrough;
use weir_sim::{
    Churn, ChurnShape, Cluster, ClusterConfig, Handle, Listen, Node, Op, Preconditions, RequestLine,
    ResourceInfo, Right, Scope, Sim, SimConfig, StoreKey, User,
};
use weir_upstream::{Origin, Upstream, UpstreamOptions};

use crate::client::{Client, LIMIT, Server};
use crate::truth::Collection;

/// What a test may want otherwise.
pub(crate) struct Settings {
    pub(crate) sim: SimConfig,
    pub(crate) shape: ChurnShape,
    pub(crate) bounds: WindowBounds,
    pub(crate) shards: usize,
    /// Mirrors that are ready before the world is; without any, a resource is mirrored when it is asked for.
    pub(crate) mirrors: Vec<&'static str>,
    /// Done to the simulation before weir reads from it.
    pub(crate) before: fn(&Sim),
}

/// All of it.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) client: Client,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) tasks: Lifecycle,
    churn: Arc<Mutex<Churn>>,
    is_stopped: bool,
    requests: Mutex<Vec<RequestLine>>,
    instances: Vec<(Mutex<Option<Handle>>, Server)>,
    _directory: Directory,
}

/// A churn that goes on until it is stopped or dropped.
pub(crate) struct Churning(tokio::task::AbortHandle);

/// A directory that is removed with its value.
struct Directory(PathBuf);

/// The token that may do everything, and that weir itself has.
pub(crate) const ADMIN: &str = "admin";
/// The token of somebody who may read config maps in `team-0` and nothing else.
pub(crate) const BOB: &str = "bob-token";

// === impl Settings ===

impl Settings {
    fn new(seed: u64) -> Self {
        let reader = Right::new(&["get", "list", "watch"], "", &["configmaps"]).in_namespace("team-0");
        let users =
            vec![(ADMIN.to_owned(), User::admin("admin")), (BOB.to_owned(), User::named("bob").may(reader))];
        Self {
            sim: SimConfig {
                cluster: ClusterConfig { seed, ..ClusterConfig::default() },
                users,
                ..SimConfig::default()
            },
            shape: ChurnShape::default(),
            bounds: WindowBounds::default(),
            shards: 4,
            mirrors: vec!["pods", "configmaps", "nodes", "gauges.metering.weir.test"],
            before: |_| {},
        }
    }
}

// === impl World ===

impl World {
    /// A world in which pods, config maps, nodes and gauges are mirrored.
    pub(crate) async fn start(seed: u64) -> Self {
        Self::with(seed, |_| {}).await
    }

    pub(crate) async fn with(seed: u64, change: impl FnOnce(&mut Settings)) -> Self {
        println!("seed {seed}");
        #[expect(clippy::disallowed_methods, reason = "the tester's own switch, not a setting of weir")]
        if std::env::var("WEIR_LOG").is_ok() {
            // Only the first world of a process can.
            let _ = weir_daemon::telemetry::start(weir_daemon::telemetry::LogFormat::Text, None);
        }
        let mut settings = Settings::new(seed);
        change(&mut settings);
        let sim = Sim::new(settings.sim);
        sim.with(define_gauges);
        let churn = sim.with(|cluster| Churn::fill(cluster, seed, settings.shape));
        (settings.before)(&sim);
        let directory = Directory::new();
        let instances = serve(&sim, &directory).await;
        let lifecycle = Lifecycle::new();
        let origin = Origin::Kubeconfig { path: Some(directory.0.join("kubeconfig")), context: None };
        let urls = instances.iter().map(|(_, server)| format!("https://{}", server.address).parse().unwrap());
        let options = UpstreamOptions { origin, urls: urls.collect() };
        let upstream = Upstream::load(options, &lifecycle).await.unwrap();
        let policy = MirrorPolicy {
            shards: settings.shards,
            bounds: settings.bounds,
            named: settings.mirrors.iter().map(|name| GroupResource::parse(name)).collect(),
        };
        let mirrors = Arc::new(Mirrors::new(upstream.clone(), lifecycle.clone(), policy));
        timeout(LIMIT, mirrors.start_named()).await.expect("mirrors ready in time").unwrap();
        let server = weir(&mirrors, upstream, &lifecycle);
        let tasks = Lifecycle::new();
        let client = Client::new(server, ADMIN, tasks.clone());
        let (churn, requests) = (Arc::new(Mutex::new(churn)), Mutex::default());
        Self {
            sim,
            client,
            lifecycle,
            mirrors,
            tasks,
            churn,
            is_stopped: false,
            requests,
            instances,
            _directory: directory,
        }
    }

    /// A client of one instance, past weir.
    pub(crate) fn upstream(&self, instance: usize) -> Client {
        let server = self.instances[instance].1.clone();
        Client::new(server, ADMIN, self.tasks.clone()).with_header("user-agent", "oracle")
    }

    /// The death of an instance.
    pub(crate) fn kill(&self, instance: usize) {
        drop(self.instances[instance].0.lock().unwrap().take());
    }

    pub(crate) fn collection(&self, name: &str) -> Collection {
        Collection::named(&self.sim, name)
    }

    /// The mirror of a resource that is mirrored.
    pub(crate) fn mirror(&self, collection: &Collection) -> Arc<Mirror> {
        let state = self.mirrors.state(collection.gvr()).expect("a mirror was asked for");
        match &*state.borrow() {
            State::Ready(mirror) => mirror.clone(),
            other => panic!("{} is {other:?}", collection.gvr()),
        }
    }

    /// How many interests are open in the mirror of a resource.
    pub(crate) fn interests(&self, collection: &Collection) -> usize {
        self.mirror(collection).fanout().interests()
    }

    /// Makes so many random changes, one after the other.
    pub(crate) fn churn(&self, steps: usize) {
        for _ in 0..steps {
            self.sim.with(|cluster| self.churn.lock().unwrap().step(cluster));
        }
    }

    /// Makes so many random changes and something else at one blow: nobody sees the one without the other.
    pub(crate) fn churn_and(&self, steps: usize, then: impl FnOnce(&mut Cluster)) {
        self.sim.with(|cluster| {
            let mut churn = self.churn.lock().unwrap();
            for _ in 0..steps {
                churn.step(cluster);
            }
            then(cluster);
        });
    }

    /// The same the other way round.
    pub(crate) fn first_then_churn(&self, first: impl FnOnce(&mut Cluster), steps: usize) {
        self.sim.with(|cluster| {
            first(cluster);
            let mut churn = self.churn.lock().unwrap();
            for _ in 0..steps {
                churn.step(cluster);
            }
        });
    }

    /// Makes random changes beside the test.
    pub(crate) fn churning(&self, every: Duration) -> Churning {
        let (sim, churn) = (self.sim.clone(), self.churn.clone());
        let task = self.tasks.spawn("churn", async move {
            let mut tick = interval(every);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                sim.with(|cluster| churn.lock().unwrap().step(cluster));
            }
        });
        Churning(task)
    }

    /// Creates a config map and returns its revision.
    pub(crate) fn create(&self, namespace: &str, name: &str) -> ResourceVersion {
        let resource = self.sim.resource("configmaps").unwrap();
        let body =
            format!(r#"{{"metadata":{{"name":"{name}","labels":{{"tier":"front"}}}},"data":{{"n":"0"}}}}"#);
        let body = Node::parse(body.as_bytes()).unwrap();
        let namespace = Some(namespace.to_owned());
        self.sim.apply(Op::Create { resource, namespace, body }).unwrap().object.rv()
    }

    /// Changes a config map and returns its revision.
    pub(crate) fn patch(&self, namespace: &str, name: &str, patch: &str) -> ResourceVersion {
        let resource = self.sim.resource("configmaps").unwrap();
        let key = StoreKey::new(Some(namespace), name);
        let patch = Node::parse(patch.as_bytes()).unwrap();
        self.sim.apply(Op::Patch { resource, key, patch }).unwrap().object.rv()
    }

    /// Deletes a config map and returns the revision of its deletion.
    pub(crate) fn delete(&self, namespace: &str, name: &str) -> ResourceVersion {
        let resource = self.sim.resource("configmaps").unwrap();
        let key = StoreKey::new(Some(namespace), name);
        let op = Op::Delete { resource, key, only_if: Preconditions::default() };
        self.sim.apply(op).unwrap().event.unwrap().rv
    }

    /// The newest revision of upstream.
    pub(crate) fn head(&self) -> ResourceVersion {
        self.sim.read(|cluster| cluster.log().head())
    }

    /// Waits until the mirror of a resource has the last event of its collection.
    pub(crate) async fn settled(&self, collection: &Collection) {
        let last = collection.truth(&self.sim).now().last();
        let mirror = self.mirror(collection);
        let reached = timeout(LIMIT, mirror.reached(last)).await;
        reached.unwrap_or_else(|_| {
            panic!("{} at {:?}, not at {last} in time", collection.gvr(), mirror.window())
        });
    }

    /// All requests that upstream got.
    pub(crate) fn requests(&self) -> Vec<RequestLine> {
        let mut requests = self.requests.lock().unwrap();
        requests.extend(self.sim.take_requests());
        requests.clone()
    }

    /// How many requests upstream got; what comes later is [`World::since`].
    pub(crate) fn mark(&self) -> usize {
        self.requests().len()
    }

    /// The requests that upstream got behind a mark.
    pub(crate) fn since(&self, mark: usize) -> Vec<RequestLine> {
        self.requests().split_off(mark)
    }

    /// Lists of a collection by its feed behind a mark: not the questions for a revision, which name nobody.
    pub(crate) fn feed_lists(&self, collection: &Collection, mark: usize) -> Vec<RequestLine> {
        let is_list = |line: &RequestLine| {
            line.user_agent.contains("(feed)") && line.verb == "list" && !line.uri.contains("fieldSelector")
        };
        let path = format!("{}?", collection.path(None));
        self.since(mark).into_iter().filter(|line| is_list(line) && line.uri.contains(&path)).collect()
    }

    /// The instance that the feed of a collection reads. A mirror is ready before its feed watches, so this may wait.
    pub(crate) async fn feed_instance(&self, collection: &Collection) -> usize {
        let path = format!("{}?", collection.path(None));
        let is_watch = |line: &&RequestLine| {
            let is_short = line.uri.ends_with("timeoutSeconds=3");
            line.user_agent.contains("(feed)")
                && (line.verb.as_str(), line.code) == ("watch", 200)
                && line.uri.contains(&path)
                && !is_short
        };
        let newest = || self.requests().iter().rev().find(is_watch).map(|line| line.instance.0);
        self.until("a feed that watches", || newest().is_some()).await;
        newest().expect("requests are not forgotten")
    }

    /// Nothing behind the mark came from a client: weir answered by itself.
    #[track_caller]
    pub(crate) fn answered_by_weir(&self, mark: usize) {
        let is_own = |line: &&RequestLine| {
            ["(feed)", "(review)", "(proof)"].iter().any(|role| line.user_agent.contains(role))
        };
        let foreign = |line: &RequestLine| !is_own(&line) && line.user_agent != "oracle";
        let foreign: Vec<_> = self.since(mark).into_iter().filter(foreign).collect();
        assert!(foreign.is_empty(), "upstream was asked: {foreign:#?}");
    }

    /// Stops weir as a signal does, and says which of its tasks did not end.
    pub(crate) async fn stop(&mut self) -> Vec<String> {
        self.is_stopped = true;
        self.lifecycle.stop(StopCause::Asked);
        let stopped = self.lifecycle.stopped(LIMIT).await;
        stopped.left.into_iter().map(std::borrow::Cow::into_owned).collect()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + LIMIT;
        let mut tick = interval(Duration::from_millis(2));
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}: not in time");
            tick.tick().await;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let is_stopped = self.lifecycle.is_stopping() && !self.is_stopped;
        self.lifecycle.stop(StopCause::Asked);
        self.tasks.stop(StopCause::Asked);
        self.client.vanish();
        assert!(!is_stopped || std::thread::panicking(), "a task of weir's panicked or ended");
    }
}

/// The definition of the custom resource, by which weir knows that it is one and which of its fields are selectable.
fn define_gauges(cluster: &mut Cluster) {
    let definitions = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let resource =
        cluster.register(ResourceInfo::built_in(definitions, "CustomResourceDefinition", Scope::Cluster));
    let gauges = r#"{"metadata":{"name":"gauges.metering.weir.test"},"spec":{"group":"metering.weir.test",
        "versions":[{"name":"v1","served":true,"selectableFields":[{"jsonPath":".spec.unit"}]}]}}"#;
    let body = Node::parse(gauges.as_bytes()).unwrap();
    cluster.apply(Op::Create { resource, namespace: None, body }).unwrap();
}

/// The instances of the simulation, and the kubeconfig by which weir finds them.
async fn serve(sim: &Sim, directory: &Directory) -> Vec<(Mutex<Option<Handle>>, Server)> {
    let tls = ServerTls::self_made().unwrap();
    let ca_pem = tls.ca_pem.unwrap();
    let mut instances = Vec::new();
    for index in 0..sim.read(Cluster::instances) {
        let listen = Listen { listener: None, tls: Some(tls.config.clone()) };
        let handle = sim.serve(index, listen).await.unwrap();
        let server = Server::new(handle.addr(), &ca_pem);
        instances.push((Mutex::new(Some(handle)), server));
    }
    directory.write_kubeconfig(&instances[0].1, &ca_pem);
    instances
}

/// The proxy behind a free port.
fn weir(mirrors: &Arc<Mirrors>, upstream: Upstream, lifecycle: &Lifecycle) -> Server {
    let tls = ServerTls::self_made().unwrap();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), SocketOptions::default()).unwrap();
    let server = Server::new(listener.local_address(), &tls.ca_pem.unwrap());
    let passthrough = Passthrough::new(upstream.clone(), lifecycle.clone());
    let stop = lifecycle.token().clone();
    let proxy = Arc::new(Proxy::new(mirrors.clone(), Authorizer::new(upstream), passthrough, stop));
    let proxy = ProxyServer::new(proxy, TlsAcceptor::from(tls.config), lifecycle.clone());
    lifecycle.spawn_critical("listener", proxy.run(listener));
    server
}

// === impl Churning ===

impl Churning {
    pub(crate) async fn stop(self, world: &World) {
        self.0.abort();
        world.until("the churn stops", || self.0.is_finished()).await;
    }
}

impl Drop for Churning {
    fn drop(&mut self) {
        self.0.abort();
    }
}

// === impl Directory ===

impl Directory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-world-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write_kubeconfig(&self, server: &Server, ca_pem: &str) {
        let ca = self.0.join("ca.crt");
        std::fs::write(&ca, ca_pem).unwrap();
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: sim\n\
             clusters: [{{name: sim, cluster: {{server: \"https://{}\", certificate-authority: {ca:?}}}}}]\n\
             users: [{{name: sim, user: {{token: {ADMIN}}}}}]\n\
             contexts: [{{name: sim, context: {{cluster: sim, user: sim}}}}]\n",
            server.address
        );
        std::fs::write(self.0.join("kubeconfig"), kubeconfig).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
