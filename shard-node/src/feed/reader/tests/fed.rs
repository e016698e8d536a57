//! A simulated apiserver, a feed that reads its pods, and subscribers that check that what they get leads them on.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::super::describe;
use super::super::super::handle::FeedHandle;
use super::super::super::metrics::FeedCounters;
use super::super::super::prove;
use super::super::super::ring::RingBounds;
use super::super::super::tick::Tick;
use super::super::*;
use super::{Next, Subscription, next};
use weir_core::GroupVersionResource;
use weir_core::message::{FeedMessage, ListId};
use weir_daemon::{Lifecycle, StopCause};
use weir_sim::{Churn, ChurnShape, ClusterConfig, Handle, Listen, Record, Sim, SimConfig};
use weir_upstream::{Origin, UpstreamOptions};

/// How long anything may take.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// A feed in front of a simulated apiserver.
pub(super) struct Fed {
    pub(super) sim: Sim,
    pub(super) feed: Arc<FeedHandle>,
    churn: Mutex<Churn>,
    lifecycle: Lifecycle,
    first: ResourceVersion,
    _instance: Handle,
}

/// What a subscriber found.
#[derive(Debug)]
pub(super) enum Got {
    Said(Statement<Change>),
    Part { list: ListId, seq: u32, end: Option<ResourceVersion> },
    Restored(History),
    Behind,
}

/// What a subscriber read on its way.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// Whole lists.
    pub(super) lists: usize,
    /// Where the first statement began.
    pub(super) first_after: Option<ResourceVersion>,
}

/// How often a feed may tick, at least so far apart.
pub(super) const APART: Duration = Duration::from_millis(200);

fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

pub(super) async fn got(subscription: &Subscription) -> Got {
    match next(subscription).await {
        Next::Behind => Got::Behind,
        Next::Nothing => panic!("a subscription waits for something"),
        Next::Message(message) => match &*message {
            FeedMessage::Statement(said) => Got::Said(said.clone()),
            FeedMessage::List(part) => {
                Got::Part { list: part.list, seq: part.seq, end: part.is_last.then_some(part.at) }
            }
            FeedMessage::Restored(history) => Got::Restored(*history),
        },
    }
}

/// Reads until everything up to `end` is there. Statements have no hole and lists no part missing.
pub(super) async fn read_to(subscription: &Subscription, end: ResourceVersion) -> Read {
    let mut read = Read::default();
    let (mut position, mut part) = (None, None);
    while position < Some(end) {
        match got(subscription).await {
            Got::Said(said) => {
                read.first_after.get_or_insert(said.after());
                assert!(position.is_none_or(|position| said.after() <= position && position < said.to()));
                position = Some(said.to());
            }
            Got::Part { list, seq, end } => {
                assert_eq!(seq, part.filter(|(known, _)| *known == list).map_or(0, |(_, seq)| seq + 1));
                part = Some((list, seq));
                read.lists += usize::from(end.is_some());
                position = end.or(position);
            }
            Got::Restored(_) => position = None,
            Got::Behind => panic!("passed at {position:?}"),
        }
    }
    read
}

// === impl Fed ===

impl Fed {
    pub(super) async fn start(seed: u64) -> Self {
        Self::bounded(seed, 1 << 20).await
    }

    /// With a ring of so many bytes of log.
    pub(super) async fn bounded(seed: u64, log_bytes: usize) -> Self {
        Self::limited(seed, log_bytes, ReaderLimits::default()).await
    }

    /// With these limits of the reader.
    pub(super) async fn limited(seed: u64, log_bytes: usize, limits: ReaderLimits) -> Self {
        println!("seed {seed}");
        let cluster = ClusterConfig { seed, instances: 1, ..ClusterConfig::default() };
        let sim = Sim::new(SimConfig { cluster, ..SimConfig::default() });
        let churn = sim.with(|cluster| Churn::fill(cluster, seed, ChurnShape::default()));
        let instance = sim.serve(0, Listen::default()).await.unwrap();
        let lifecycle = Lifecycle::new();
        let path = kubeconfig(&instance);
        let origin = Origin::Kubeconfig { path: Some(path.clone()), context: None };
        let upstream =
            Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, &lifecycle).await.unwrap();
        std::fs::remove_file(path).unwrap();
        let connection = upstream.instances()[0].connect(Role::Feed).await.unwrap();
        let spec = Arc::new(describe::describe(&connection, &pods()).await.unwrap());
        let counters = FeedCounters::default();
        let tick = Tick::of(&spec, &"team-0".parse().unwrap(), &counters);
        let (questions, asking) = prove::questions(tick);
        let bounds = RingBounds { log_bytes, list_bytes: 1 << 20 };
        let feed = Arc::new(FeedHandle::bounded(questions, bounds).counted_by(counters));
        let reader = Reader::new(upstream, spec, (feed.clone(), asking), 0).limited(limits);
        let stop = lifecycle.token().clone();
        lifecycle.spawn("feed", async move {
            let _ = stop.run_until_cancelled(reader.run()).await;
        });
        let mut fed = Self {
            sim,
            feed,
            churn: Mutex::new(churn),
            lifecycle,
            first: ResourceVersion::ZERO,
            _instance: instance,
        };
        fed.first = fed.written();
        fed
    }

    /// Changes so many pods.
    pub(super) fn write(&self, pods: usize) {
        let mut churn = self.churn.lock().unwrap();
        let before = self.pod_changes().len();
        while self.pod_changes().len() < before + pods {
            self.sim.with(|cluster| churn.step(cluster));
        }
    }

    /// Changes so many other things, and no pod.
    pub(super) fn write_others(&self, changes: usize) {
        let resource = self.sim.resource("namespaces").unwrap();
        for number in 0..changes {
            let body = format!(r#"{{"metadata":{{"name":"other-{number}"}}}}"#);
            let body = weir_sim::Node::parse(body.as_bytes()).unwrap();
            self.sim.apply(weir_sim::Op::Create { resource, namespace: None, body }).unwrap();
        }
    }

    /// The last change of a pod.
    pub(super) fn written(&self) -> ResourceVersion {
        *self.pod_changes().last().unwrap()
    }

    /// The last change of a pod before the feed began.
    pub(super) fn first(&self) -> ResourceVersion {
        self.first
    }

    /// Lets the feed come to upstream's present, in which nothing happens.
    pub(super) async fn catch_up(&self) {
        let now = loop {
            // Refused until the feed has a connection.
            match self.feed.newest(true).await {
                Some(now) => break now,
                None => tokio::task::yield_now().await,
            }
        };
        self.reached(now).await;
    }

    /// Creates the pod that ticks are written to.
    pub(super) fn create_tick(&self) {
        let resource = self.sim.resource("pods").unwrap();
        let body = weir_sim::Node::parse(br#"{"metadata":{"name":"weir-tick"}}"#).unwrap();
        let namespace = Some("team-0".to_owned());
        self.sim.apply(weir_sim::Op::Create { resource, namespace, body }).unwrap();
    }

    /// The codes with which ticks were answered since this was asked last.
    pub(super) fn ticks(&self) -> Vec<u16> {
        let path = "/api/v1/namespaces/team-0/pods/weir-tick?";
        let is_tick = |line: &weir_sim::RequestLine| line.verb == "patch" && line.uri.starts_with(path);
        self.sim.take_requests().into_iter().filter(is_tick).map(|line| line.code).collect()
    }

    /// Waits for a connection over which the feed asks.
    pub(super) async fn connected(&self) {
        while self.feed.newest(false).await.is_none() {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the feed has come to a revision.
    pub(super) async fn reached(&self, revision: ResourceVersion) {
        let deadline = tokio::time::Instant::now() + LIMIT;
        while self.feed.position() < Some(revision) {
            assert!(tokio::time::Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
    }

    /// No log from before the present is left.
    pub(super) fn forget_history(&self) {
        self.sim.instance(0).forget_history(self.sim.resource("pods").unwrap());
    }

    /// Lets things happen that the feed will not be able to read: its watch is gone meanwhile, and the log too.
    pub(super) fn hold(&self, change: impl FnOnce()) {
        let instance = self.sim.instance(0);
        instance.hold();
        change();
        instance.cut_streams();
        instance.restart();
        instance.catch_up();
        self.forget_history();
    }

    /// Comes back from the last backup, as another history.
    pub(super) fn restore(&self) {
        self.sim.restore();
    }

    /// Lists of all pods that upstream was asked for since this was asked last.
    pub(super) fn lists(&self) -> usize {
        let requests = self.sim.take_requests();
        let is_list = |uri: &str| uri.starts_with("/api/v1/pods?limit=") && !uri.contains("fieldSelector");
        requests.iter().filter(|request| request.verb == "list" && is_list(&request.uri)).count()
    }

    /// Lists, late lists, watches, backfills, restores.
    pub(super) fn counted(&self) -> [u64; 5] {
        let counters = self.feed.counters();
        [&counters.lists, &counters.late_lists, &counters.watches, &counters.backfills, &counters.restores]
            .map(prometheus_client::metrics::counter::Counter::get)
    }

    fn pod_changes(&self) -> Vec<ResourceVersion> {
        let resource = self.sim.resource("pods").unwrap();
        let of = |record: Record| match record {
            Record::Event(event) if event.resource == resource => Some(event.rv),
            Record::Event(_) | Record::Upheaval(_) => None,
        };
        self.sim.log().into_iter().filter_map(of).collect()
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        let is_well = !self.lifecycle.is_stopping();
        self.lifecycle.stop(StopCause::Asked);
        assert!(is_well || std::thread::panicking(), "a task of the feed panicked");
    }
}

/// A file that names the instance.
fn kubeconfig(instance: &Handle) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-feed-{}-{number}", std::process::id()));
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: sim\n\
         clusters: [{{name: sim, cluster: {{server: \"http://{}\"}}}}]\n\
         users: [{{name: sim, user: {{token: admin}}}}]\n\
         contexts: [{{name: sim, context: {{cluster: sim, user: sim}}}}]\n",
        instance.addr()
    );
    std::fs::write(&path, text).unwrap();
    path
}
