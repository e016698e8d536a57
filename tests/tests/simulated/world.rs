//! The whole of weir in one process in front of a simulated apiserver of two instances, and a client of it. Between them
//! everything is real: TLS, HTTP/2, tokens, access reviews, the kubeconfig file.
//!
//! A world ends with its value. A task of weir's that panics fails the test that owns the world, even if no client noticed.

mod changes;
mod cluster;
mod memory;
mod pki;
mod requests;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::time::{Instant, interval, timeout};
use weir_core::policy::MirrorPolicy;
use weir_core::{GroupResource, ResourceVersion, WindowBounds};
use weir_daemon::admin::metrics::Metrics;
use weir_daemon::clients::{ClientPort, ClientTls, ListenerCertificate};
use weir_daemon::followed::Reloads;
use weir_daemon::{Lifecycle, StopCause};
use weir_proxy::audit::file::{FileOptions, LogFile};
use weir_proxy::audit::{Audit, Sink};
use weir_proxy::audited::Audited;
use weir_proxy::auth::{Authorizer, RbacReader, Rechecks, StandingLimits};
use weir_proxy::drain::Drain;
use weir_proxy::http::answer::Proxy;
use weir_proxy::http::clients::{ClientLimits, Clients};
use weir_proxy::http::entrance::EntranceLimits;
use weir_proxy::http::server::{HEAD_LIMIT, Server as ProxyServer};
use weir_proxy::mirror::Mirror;
use weir_proxy::mirror::check::CHECK_EVERY;
use weir_proxy::mirror::proofs::PROOF_LIMIT;
use weir_proxy::mirror::registry::{IDLE_LIMIT, Mirrors, State};
use weir_proxy::passthrough::Passthrough;
use weir_shard_node::feed::tick::TickNamespace;
use weir_shard_node::memory::Admission;
use weir_sim::{Churn, ChurnShape, ClusterConfig, RequestLine, Right, Sim, SimConfig, User};
use weir_upstream::{Origin, Upstream, UpstreamOptions};

use self::cluster::{Directory, Instance};
pub(crate) use self::pki::Pki;
use crate::client::{Client, LIMIT, Server, Whole};
use crate::fleet::{Fleet, Wanted};
use crate::relay::Relays;
use crate::truth::Collection;

/// What a test may want otherwise.
pub(crate) struct Settings {
    pub(crate) sim: SimConfig,
    pub(crate) shape: ChurnShape,
    pub(crate) bounds: WindowBounds,
    pub(crate) shards: usize,
    /// How often mirrors are compared with upstream without a reason.
    pub(crate) check_every: Duration,
    /// What a test may want otherwise of the fleet.
    pub(crate) fleet: Wanted,
    /// Mirrors that are ready before the world is; without any, a resource is mirrored when it is asked for.
    pub(crate) mirrors: Vec<&'static str>,
    /// How long a mirror goes on that nobody uses.
    pub(crate) idle: Duration,
    /// How long a mirror may take to prove that it is fresh.
    pub(crate) proof_limit: Duration,
    /// The namespace in which feeds tick, if they are to.
    pub(crate) ticks_in: Option<&'static str>,
    /// What a client may cost.
    pub(crate) limits: ClientLimits,
    /// How many connections there may be.
    pub(crate) entrance: EntranceLimits,
    /// How long a client is waited for that asks for nothing.
    pub(crate) heads_within: Duration,
    /// Whether clients may show certificates, and weir is a front proxy.
    pub(crate) has_certificates: bool,
    /// How likely a request is the last that its connection takes.
    pub(crate) goaway_chance: f64,
    /// Whether there are wires between weir and upstream that can be cut.
    pub(crate) has_wires: bool,
    /// When rights are asked for again, and how often a second.
    pub(crate) rechecks: (StandingLimits, u32),
    /// Answers about these are audited, in a file of the world's directory.
    pub(crate) audited: Option<&'static str>,
    /// Done to the simulation before weir reads from it.
    pub(crate) before: fn(&Sim),
}

/// All of it.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) client: Client,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) fleet: Fleet,
    pub(crate) tasks: Lifecycle,
    /// What clients have cost.
    pub(crate) clients: Clients,
    metrics: Metrics,
    /// What is refused for want of memory.
    admission: Admission,
    churn: Arc<Mutex<Churn>>,
    is_stopped: bool,
    pki: Pki,
    requests: Mutex<Vec<RequestLine>>,
    instances: Vec<Instance>,
    /// Between weir and each instance.
    wires: Vec<Relays>,
    directory: Directory,
}

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
            check_every: CHECK_EVERY,
            fleet: Default::default(),
            mirrors: vec!["pods", "configmaps", "nodes", "gauges.metering.weir.test"],
            idle: IDLE_LIMIT,
            proof_limit: PROOF_LIMIT,
            ticks_in: None,
            limits: ClientLimits::default(),
            entrance: EntranceLimits::default(),
            heads_within: HEAD_LIMIT,
            has_certificates: false,
            goaway_chance: 0.0,
            has_wires: false,
            rechecks: (StandingLimits::default(), 20),
            audited: None,
            before: |_| {},
        }
    }

    /// What is mirrored.
    pub(crate) fn policy(&self) -> MirrorPolicy {
        MirrorPolicy { named: self.mirrors.iter().map(|name| GroupResource::parse(name)).collect() }
    }

    /// Where feeds tick.
    pub(crate) fn tick(&self) -> Option<TickNamespace> {
        self.ticks_in.map(|namespace| namespace.parse().unwrap())
    }

    /// The proxy with all that it judges and tells by, and what operators see of it.
    fn serve(
        &self,
        (mirrors, admission, clients): (&Arc<Mirrors>, &Admission, &Clients),
        (upstream, directory, pki): (Upstream, &Directory, &Pki),
        lifecycle: &Lifecycle,
    ) -> (Server, Metrics) {
        let (audit, audited) = audit(self, directory, lifecycle);
        let authorizer = Authorizer::new(upstream.clone()).explaining(audited);
        let authorizer = rechecked(authorizer, (self.rechecks, &upstream), lifecycle);
        let metrics = Metrics::new("tests", lifecycle);
        let passthrough = Passthrough::new(upstream, lifecycle.clone());
        let proxy = Proxy::new(mirrors.clone(), authorizer.clone(), passthrough, Drain::new());
        let proxy = proxy.admitting(admission.clone()).limiting(clients.clone()).audited(audit.clone());
        let server = metrics.with_registry(|registry| {
            authorizer.register(registry);
            audit.register(registry);
            self.listen(proxy, lifecycle, (pki, registry))
        });
        (server, metrics)
    }

    /// The proxy behind a free port.
    fn listen(&self, proxy: Proxy, lifecycle: &Lifecycle, (pki, registry): (&Pki, &mut Registry)) -> Server {
        let client_ca = self.has_certificates.then(|| pki.client_ca());
        let tls = ClientTls::new(ListenerCertificate::Loopback, client_ca).unwrap();
        let port = ClientPort::bind("127.0.0.1:0".parse().unwrap(), tls.clone()).unwrap();
        let server = Server::new(port.local_address(), tls.ca_pem().unwrap());
        let proxy = ProxyServer::new(Arc::new(proxy), lifecycle.clone());
        let proxy =
            proxy.limited(self.entrance).heads_within(self.heads_within).moving_clients(self.goaway_chance);
        proxy.register(registry);
        lifecycle.spawn_critical("listener", proxy.run(port));
        server
    }

    /// Mirrors that keep five events.
    pub(crate) fn keep_little(&mut self) {
        self.bounds = WindowBounds {
            max_events: 5,
            free_bytes: 0,
            max_percent_of_live: 0,
            min_age: Duration::ZERO,
            ..WindowBounds::default()
        };
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
        log_if_wanted();
        let mut settings = Settings::new(seed);
        change(&mut settings);
        let sim = Sim::new(settings.sim.clone());
        sim.with(cluster::define_gauges);
        let churn = sim.with(|cluster| Churn::fill(cluster, seed, settings.shape));
        (settings.before)(&sim);
        let directory = Directory::new();
        let pki = Pki::new(&directory.0);
        let instances = cluster::serve(&sim, (&directory, &pki)).await;
        let lifecycle = Lifecycle::new();
        let origin = Origin::Kubeconfig { path: Some(directory.0.join("kubeconfig")), context: None };
        let tasks = Lifecycle::new();
        let wires: Vec<_> = instances.iter().map(|_| Relays::new(tasks.clone())).collect();
        let addresses = instances.iter().zip(&wires).map(|(one, wire)| match settings.has_wires {
            true => wire.to(one.server.address),
            false => one.server.address,
        });
        let urls = addresses.map(|address| format!("https://{address}").parse().unwrap());
        let options = UpstreamOptions { origin, urls: urls.collect() };
        let upstream = Upstream::load(options.clone(), &lifecycle).await.unwrap();
        if settings.has_certificates {
            upstream.be_front_proxy(pki.front_proxy(), &lifecycle, &Reloads::default()).unwrap();
        }
        let (fleet, backing) = Fleet::start(&settings, &options, &lifecycle).await;
        let of_mirrors = (settings.policy(), backing);
        let mirrors = Mirrors::new(upstream.clone(), lifecycle.clone(), of_mirrors).idle_for(settings.idle);
        let mirrors = mirrors.checked_every(settings.check_every).proved_within(settings.proof_limit);
        let mirrors = Arc::new(mirrors);
        timeout(LIMIT, mirrors.start_named()).await.expect("mirrors ready in time").unwrap();
        let (admission, clients) = (Admission::default(), Clients::new(settings.limits));
        let proxied = (&mirrors, &admission, &clients);
        let (server, metrics) = settings.serve(proxied, (upstream, &directory, &pki), &lifecycle);
        let client = Client::new(server, ADMIN, tasks.clone());
        let (churn, requests) = (Arc::new(Mutex::new(churn)), Mutex::default());
        Self {
            sim,
            client,
            lifecycle,
            mirrors,
            fleet,
            tasks,
            clients,
            metrics,
            admission,
            churn,
            is_stopped: false,
            pki,
            requests,
            instances,
            wires,
            directory,
        }
    }

    /// Certificates.
    pub(crate) fn pki(&self) -> &Pki {
        &self.pki
    }

    /// A client of one instance, past weir.
    pub(crate) fn upstream(&self, instance: usize) -> Client {
        let server = self.instances[instance].server.clone();
        Client::new(server, ADMIN, self.tasks.clone()).with_header("user-agent", "oracle")
    }

    /// The death of an instance.
    pub(crate) fn kill(&self, instance: usize) {
        drop(self.instances[instance].handle.lock().unwrap().take());
    }

    /// Nothing comes through between weir and an instance from now on, and nobody is told.
    pub(crate) fn cut(&self, instance: usize) {
        self.wires[instance].cut();
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

    /// Where audit events are.
    pub(crate) fn audit_log(&self) -> std::path::PathBuf {
        self.directory.0.join("audit").join("audit.log")
    }

    /// A number that operators see, by its name and labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.encode();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    /// Stops weir as a signal does, and says which of its tasks did not end.
    pub(crate) async fn stop(&mut self) -> Vec<String> {
        self.is_stopped = true;
        self.lifecycle.stop(StopCause::Asked);
        let stopped = self.lifecycle.stopped(LIMIT).await;
        stopped.left.into_iter().map(std::borrow::Cow::into_owned).collect()
    }

    /// The answer of a mirror that may be on its way to it.
    pub(crate) async fn mirrored(&self, path: &str) -> Whole {
        let deadline = Instant::now() + LIMIT;
        let mut tick = interval(Duration::from_millis(2));
        loop {
            tick.tick().await;
            let answer = self.client.get(path).await;
            if answer.is_mirrored() || Instant::now() > deadline {
                return answer.mirrored();
            }
        }
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
        self.fleet.check();
        assert!(!is_stopped || std::thread::panicking(), "a task of weir's panicked or ended");
    }
}

/// What weir logs is shown where the tester asks for it.
#[expect(clippy::disallowed_methods, reason = "the tester's own switch, not a setting of weir")]
fn log_if_wanted() {
    if std::env::var("WEIR_LOG").is_ok() {
        // Only the first world of a process can.
        let _ = weir_daemon::telemetry::start(weir_daemon::telemetry::LogFormat::Text, None);
    }
}

/// Where events go, and of which answers.
fn audit(settings: &Settings, directory: &Directory, lifecycle: &Lifecycle) -> (Audit, Audited) {
    let audited = Audited::of(&settings.audited.map(str::to_owned).into_iter().collect::<Vec<_>>());
    let path = directory.0.join("audit").join("audit.log");
    std::fs::create_dir(directory.0.join("audit")).unwrap();
    let options = FileOptions { path, max_bytes: 1 << 30, max_backups: 0 };
    let (sink, source) = Sink::new("file");
    let file = LogFile::open(options).unwrap();
    lifecycle.spawn("audit file", file.run(source, lifecycle.token().clone()));
    let audit = Audit::new(audited.clone(), vec![sink]);
    (audit, audited)
}

/// What judges callers, and goes on doing it.
fn rechecked(
    authorizer: Authorizer,
    ((limits, rate), upstream): ((StandingLimits, u32), &Upstream),
    lifecycle: &Lifecycle,
) -> Authorizer {
    let authorizer = authorizer.rechecked(limits);
    let rechecks = Rechecks::new(authorizer.clone(), NonZeroU32::new(rate).unwrap()).run();
    let rbac = RbacReader::new(upstream.clone(), authorizer.clone()).run();
    let stop = lifecycle.token().clone();
    let both = Box::pin(async { tokio::join!(rechecks, rbac) });
    let both = stop.run_until_cancelled_owned(both);
    lifecycle.spawn("rights", async move {
        Box::pin(both).await;
    });
    authorizer
}
