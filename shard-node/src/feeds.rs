//! The feeds that run in this process: one for each mirror that somebody subscribes to here, whoever it is. A feed starts
//! with its first subscriber and ends when it has had none for a while, or when there is nothing to read any more.
//!
//! A feed reads upstream and nothing else. It never asks another feed, so nodes that see each other as the feed of a mirror
//! do not wait for each other.

mod metrics;
pub mod starting;
mod subscription;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::info;
use weir_core::GroupVersionResource;
use weir_core::mirror::MirrorSpec;
use weir_daemon::Lifecycle;
use weir_proto::session::Unmirrored;
use weir_upstream::Upstream;

pub use metrics::FeedsMetrics;
pub use subscription::{FeedLost, LocalSubscription, Said};

use crate::feed::handle::FeedHandle;
use crate::feed::metrics::FeedMetrics;
use crate::feed::prove::{self, Asking};
use crate::feed::reader::Reader;
use crate::feed::ring::Standing;
use crate::feed::tick::{Tick, TickNamespace};
use starting::NotDescribed;

/// How long a feed goes on without a subscriber: long enough for all of them to restart one after the other.
pub const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// How often subscribers are counted.
const IDLE_CHECK: Duration = Duration::from_secs(1);

/// A feed that runs.
#[derive(Debug)]
pub struct RunningFeed {
    /// What it reads.
    pub spec: Arc<MirrorSpec>,
    /// The ring and the questions.
    pub handle: Arc<FeedHandle>,
}

/// Why there is no feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFeed {
    /// The resource cannot be mirrored.
    #[error("not mirrored: {0:?}")]
    Unmirrored(Unmirrored),
    /// Upstream could not be asked what the resource is.
    #[error("upstream could not be asked")]
    Unreachable,
    /// The process stops.
    #[error("the process stops")]
    Stopping,
}

/// How far a feed is.
#[derive(Clone, Debug)]
enum State {
    Starting,
    Running(Arc<RunningFeed>),
    Refused(NoFeed),
}

/// What a subscriber finds.
enum Found {
    Subscribed(LocalSubscription),
    Refused(NoFeed),
    Starting(watch::Receiver<State>),
}

/// The feeds of this process.
#[derive(Debug)]
pub struct Feeds {
    upstream: Upstream,
    lifecycle: Lifecycle,
    metrics: (FeedMetrics, FeedsMetrics),
    idle_limit: Duration,
    tick: Option<TickNamespace>,
    feeds: Mutex<HashMap<GroupVersionResource, watch::Sender<State>>>,
}

// === impl Feeds ===

impl Feeds {
    /// None yet.
    pub fn new(upstream: Upstream, lifecycle: Lifecycle, metrics: (FeedMetrics, FeedsMetrics)) -> Self {
        Self { upstream, lifecycle, metrics, idle_limit: IDLE_LIMIT, tick: None, feeds: Mutex::default() }
    }

    /// The same with feeds that go on without a subscriber for so long.
    #[must_use]
    pub fn idle_for(self, idle_limit: Duration) -> Self {
        Self { idle_limit, ..self }
    }

    /// The same with feeds that tick where they find objects for it.
    #[must_use]
    pub fn ticking_in(self, tick: Option<TickNamespace>) -> Self {
        Self { tick, ..self }
    }

    /// Where feeds read.
    pub fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// Subscribes to the feed of a mirror; starts it if it does not run.
    pub async fn subscribe(
        self: &Arc<Self>,
        resource: &GroupVersionResource,
        standing: Standing,
    ) -> Result<LocalSubscription, NoFeed> {
        loop {
            match self.find(resource, standing) {
                Found::Subscribed(subscription) => return Ok(subscription),
                Found::Refused(why) => return Err(why),
                Found::Starting(mut state) => {
                    let started = state.wait_for(|state| !matches!(state, State::Starting));
                    // An error inside means that the feed has gone again; the next look starts another.
                    let stop = self.lifecycle.token();
                    stop.run_until_cancelled(started).await.ok_or(NoFeed::Stopping)?.ok();
                }
            }
        }
    }

    /// The feed of a mirror, if one runs.
    pub fn running(&self, resource: &GroupVersionResource) -> Option<Arc<RunningFeed>> {
        match &*self.feeds.lock().get(resource)?.borrow() {
            State::Running(running) => Some(running.clone()),
            State::Starting | State::Refused(_) => None,
        }
    }

    /// How many run.
    pub fn len(&self) -> usize {
        let is_running = |state: &&watch::Sender<State>| matches!(*state.borrow(), State::Running(_));
        self.feeds.lock().values().filter(is_running).count()
    }

    /// Whether none runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Subscribes under the lock, so that a feed about to end sees the subscriber or is not found.
    fn find(self: &Arc<Self>, resource: &GroupVersionResource, standing: Standing) -> Found {
        let mut feeds = self.feeds.lock();
        if let Some(sender) = feeds.get(resource) {
            let state = sender.borrow().clone();
            return match state {
                State::Starting => Found::Starting(sender.subscribe()),
                State::Running(running) => {
                    self.metrics.1.subscriptions.inc();
                    Found::Subscribed(LocalSubscription::new(running, standing))
                }
                State::Refused(why) => Found::Refused(why),
            };
        }
        let sender = watch::Sender::new(State::Starting);
        let receiver = sender.subscribe();
        feeds.insert(resource.clone(), sender);
        drop(feeds);
        let (feeds, resource) = (self.clone(), resource.clone());
        let stop = self.lifecycle.token().clone();
        self.lifecycle.spawn(format!("feed of {resource}"), async move {
            // Whether it was told or ended by itself makes no difference.
            let _ = stop.run_until_cancelled(feeds.run(&resource)).await;
        });
        Found::Starting(receiver)
    }

    /// One feed, from its first subscriber until it has had none for a while. What it has entered it takes out itself.
    async fn run(&self, resource: &GroupVersionResource) {
        let first = self.first_instance(resource);
        let spec = match starting::describe(&self.upstream, resource, first).await {
            Ok(spec) => Arc::new(spec),
            Err(refused) => return self.refuse(resource, refused).await,
        };
        let counters = self.metrics.0.of(resource);
        let tick = self.tick.as_ref().and_then(|namespace| Tick::of(&spec, namespace, &counters));
        let (questions, asking) = prove::questions(tick);
        let handle = Arc::new(FeedHandle::new(questions).counted_by(counters));
        let running = Arc::new(RunningFeed { spec, handle });
        self.set(resource, State::Running(running.clone()));
        info!(%resource, "feed started");
        let _one = counted(&self.metrics.1.running);
        self.read(resource, &running, (asking, first)).await;
        info!(%resource, "feed ended");
    }

    async fn read(
        &self,
        resource: &GroupVersionResource,
        running: &RunningFeed,
        (asking, first): (Asking, usize),
    ) {
        let RunningFeed { spec, handle } = running;
        let reader = Reader::new(self.upstream.clone(), spec.clone(), (handle.clone(), asking), first);
        tokio::select! {
            biased;
            () = self.idle(resource, handle) => {}
            // What it read is not there any more: whoever subscribes next learns what is.
            () = reader.run() => drop(self.feeds.lock().remove(resource)),
        }
        handle.end();
    }

    /// Resolves when the feed has had no subscriber for a while, and takes it out in the same step.
    async fn idle(&self, resource: &GroupVersionResource, handle: &FeedHandle) {
        let mut busy = Instant::now();
        let mut check = tokio::time::interval(IDLE_CHECK);
        loop {
            check.tick().await;
            let mut feeds = self.feeds.lock();
            if handle.subscribers() > 0 {
                busy = Instant::now();
            } else if busy.elapsed() >= self.idle_limit {
                feeds.remove(resource);
                return;
            }
        }
    }

    /// Remembers for a while that there is no feed.
    async fn refuse(&self, resource: &GroupVersionResource, refused: NotDescribed) {
        self.set(resource, State::Refused(refused.why()));
        tokio::time::sleep(refused.lasts()).await;
        self.feeds.lock().remove(resource);
    }

    fn set(&self, resource: &GroupVersionResource, state: State) {
        if let Some(sender) = self.feeds.lock().get(resource) {
            sender.send_replace(state);
        }
    }

    /// Spreads the mirrors over the instances, all processes alike.
    fn first_instance(&self, resource: &GroupVersionResource) -> usize {
        let hash = weir_core::fnv1a64(resource.collection_path().as_bytes());
        // A remainder by a length is below it.
        usize::try_from(hash % self.upstream.instances().len().max(1) as u64).unwrap_or(0)
    }
}

/// Counts something for as long as the value lives.
fn counted(gauge: &Gauge) -> impl Drop + use<> {
    struct Counted(Gauge);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.dec();
        }
    }
    gauge.inc();
    Counted(gauge.clone())
}
