//! A watch over 8 shards against one over 1 shard, at 1,000 events a second: from the feed's push to the piece of the
//! client's body. The two take turns of a quarter of a second, so that what the machine does meanwhile hits both alike.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use weir_bench::mirrored::{Mirrored, list, puts};
use weir_bench::pods::{PodBytes, PodMirror, PodNumber};
use weir_bench::report::{Ranks, Table, Verdict};
use weir_core::interest::Interest;
use weir_core::message::FeedMessage;
use weir_core::{Object, ResourceVersion, WindowBounds};
use weir_daemon::Lifecycle;
use weir_proxy::http::body::ProxyBody;

const PODS: usize = 1_000;
const SIZE: PodBytes = PodBytes::about(2_000);
const EVENT_EVERY: Duration = Duration::from_millis(1);
/// Events of one turn.
const TURN: usize = 250;
const TURNS: usize = 40;
const LISTED_AT: ResourceVersion = ResourceVersion::new(1);
const MOST_LATER_MICROS: u64 = 2_000;
/// Ranges and bytes of one event in a body: head, object, end.
const PARTS: usize = 3;
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// One mirror with one watch.
struct Side {
    mirror: Mirrored,
    at: ResourceVersion,
    /// When each event that has not come yet was pushed.
    pushed: Arc<Mutex<VecDeque<Instant>>>,
    took: watch::Receiver<Vec<u64>>,
}

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table = Table::new("a watch over 8 shards against one over 1 shard, 1,000 events/s, 10 s each")?;
    let (lifecycle, pods) = (Lifecycle::new(), PodMirror::new());
    let objects = pods.objects(PODS, LISTED_AT, SIZE);
    let mut one = Side::start(1, (&pods, &objects), &lifecycle).await;
    let mut eight = Side::start(8, (&pods, &objects), &lifecycle).await;
    for turn in 0..TURNS {
        one.turn(&objects, turn).await;
        eight.turn(&objects, turn).await;
    }
    let (one, eight) = (one.ranks().await?, eight.ranks().await?);
    for (shards, ranks) in [(1, &one), (8, &eight)] {
        let [middle, high, most] = [50, 99, 100].map(|percent| ranks.percentile(percent));
        table.figure(
            &format!("{shards} shards: p50 / p99 / most"),
            &format!("{middle} / {high} / {most} µs"),
        )?;
    }
    let difference = eight.percentile(99) as i64 - one.percentile(99) as i64;
    let holds = difference <= MOST_LATER_MICROS as i64;
    table.bound(
        "p99 over 8 minus p99 over 1",
        (&format!("{difference} µs"), "2,000 µs"),
        Verdict::of_timing(holds),
    )?;
    Ok(table.holds())
}

// === impl Side ===

impl Side {
    async fn start(
        shards: usize,
        (pods, objects): (&PodMirror, &[Arc<Object>]),
        lifecycle: &Lifecycle,
    ) -> Self {
        let mirror = Mirrored::new(shards, WindowBounds::default());
        mirror.start(lifecycle);
        for message in list(LISTED_AT, objects.iter().cloned()) {
            mirror.feed.push(&message);
        }
        mirror.reached(LISTED_AT).await;
        let body = mirror.watch(pods, (&Arc::new(Interest::everything()), LISTED_AT), None);
        let (sender, took) = watch::channel(Vec::with_capacity(TURN * TURNS));
        let pushed = Arc::new(Mutex::new(VecDeque::new()));
        lifecycle.spawn("client", read(body, pushed.clone(), sender));
        Self { mirror, at: LISTED_AT, pushed, took }
    }

    /// Pushes the events of one turn, one each millisecond.
    async fn turn(&mut self, objects: &[Arc<Object>], turn: usize) {
        let mut due = tokio::time::interval(EVENT_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for event in 0..TURN {
            let (after, number) = (self.at, PodNumber((turn * TURN + event) % objects.len()));
            self.at = after.next();
            let object = Arc::new(objects[number.0].with_rv(self.at));
            let message = FeedMessage::Statement(puts(after, [object]));
            due.tick().await;
            self.pushed.lock().unwrap_or_else(PoisonError::into_inner).push_back(Instant::now());
            self.mirror.feed.push(&message);
        }
    }

    /// Microseconds of each event, once all have come.
    async fn ranks(&mut self) -> Result<Ranks> {
        let all = self.took.wait_for(|took| took.len() == TURN * TURNS);
        let took = tokio::time::timeout(DRAIN_LIMIT, all).await.context("events are missing")??.clone();
        ensure!(
            self.pushed.lock().unwrap_or_else(PoisonError::into_inner).is_empty(),
            "every event has come once"
        );
        Ok(Ranks::new(took))
    }
}

/// The client: takes the pieces of the body as the connection would.
async fn read(mut body: ProxyBody, pushed: Arc<Mutex<VecDeque<Instant>>>, took: watch::Sender<Vec<u64>>) {
    while let Some(Ok(frame)) = body.frame().await {
        let now = Instant::now();
        let events = frame.data_ref().map_or(0, |data| data.parts().count() / PARTS);
        let waited: Vec<Instant> =
            pushed.lock().unwrap_or_else(PoisonError::into_inner).drain(..events).collect();
        took.send_modify(|took| took.extend(waited.iter().map(|at| (now - *at).as_micros() as u64)));
    }
}
