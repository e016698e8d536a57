//! The order in which memory is given up, over real shards with a clock of the test's own.

use parking_lot::Mutex;
use weir_core::message::{FeedMessage, ListChunk, ListId};
use weir_core::statement::Statement;
use weir_core::{SlotSet, SourceId, WindowBounds};

use super::*;
use crate::testing::{Pod, rv};

/// Two mirrors: one in use, one not.
struct Mirrors {
    used: Arc<NodeCell>,
    unused: Mutex<Option<Arc<NodeCell>>>,
    others: usize,
}

impl Holder for Mirrors {
    fn cells(&self) -> Vec<Arc<NodeCell>> {
        self.unused.lock().iter().chain([&self.used]).cloned().collect()
    }

    fn other_bytes(&self) -> usize {
        self.others
    }

    fn end_idle(&self, _: usize) -> usize {
        self.unused.lock().take().map_or(0, |cell| cell.holdings().accounted())
    }
}

/// A shard with one pod that was changed at these seconds.
fn cell(seconds: &[u64]) -> Arc<NodeCell> {
    let pod = Pod { padding: 10_000, ..Pod::new("ns", "pod", "uid") };
    let cell = NodeCell::new(SlotSet::ALL, WindowBounds::default());
    let objects = vec![pod.object(1)];
    let list = ListChunk { list: ListId(1), at: rv(1), seq: 0, is_last: true, objects };
    cell.on_feed(FeedMessage::List(list), Duration::ZERO).unwrap();
    for (at, second) in (2..).zip(seconds) {
        let said = Statement::new(SourceId(1), rv(at - 1), rv(at), vec![pod.put(at)]).unwrap();
        cell.on_feed(FeedMessage::Statement(said), Duration::from_secs(*second)).unwrap();
    }
    Arc::new(cell)
}

fn keeper(limit: usize, mirrors: &Arc<Mirrors>, admission: &Admission) -> Keeper<Mirrors> {
    let started = Instant::now();
    Keeper::new(limit, (mirrors.clone(), started), admission.clone(), MemoryMetrics::default())
}

fn held(mirrors: &Mirrors) -> usize {
    mirrors.cells().iter().map(|cell| cell.holdings().accounted()).sum()
}

fn events(cell: &NodeCell) -> usize {
    cell.holdings().log_events
}

/// Mirrors whose changes are 500, 100, 50 and 0 s old in the one, 300 s in the other.
async fn mirrors() -> (Arc<Mirrors>, Instant) {
    let (used, unused) = (cell(&[0, 400, 450, 500]), cell(&[200]));
    let started = Instant::now();
    tokio::time::advance(Duration::from_secs(500)).await;
    (Arc::new(Mirrors { used, unused: Mutex::new(Some(unused)), others: 0 }), started)
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_given_up_in_order_and_live_objects_never() {
    let (mirrors, started) = mirrors().await;
    let admission = Admission::default();
    let metrics = MemoryMetrics::default();
    let keep = |limit: usize| {
        let keeper = Keeper::new(limit, (mirrors.clone(), started), admission.clone(), metrics.clone());
        keeper.check();
    };
    let taken = || {
        let MemoryMetrics { windows, idle_mirrors, young_windows, lists, watches, .. } = &metrics;
        [windows, idle_mirrors, young_windows, lists, watches]
            .map(prometheus_client::metrics::counter::Counter::get)
    };
    let whole = held(&mirrors);
    keep(whole);
    assert_eq!((held(&mirrors), taken()), (whole, [0; 5]), "nothing is too much");
    keep(whole - 1);
    assert_eq!((events(&mirrors.used), taken()), (3, [1, 0, 0, 0, 0]), "the oldest change of all");
    let unused = mirrors.unused.lock().clone().unwrap();
    assert_eq!(events(&unused), 1, "a younger one of another mirror stays");
    keep(held(&mirrors) - 1);
    assert_eq!((events(&unused), events(&mirrors.used)), (0, 3));
    keep(held(&mirrors) - 1);
    assert_eq!((events(&mirrors.used), taken()), (2, [3, 0, 0, 0, 0]), "what is younger than 75 s is left");
    keep(held(&mirrors) - 1);
    assert!(mirrors.unused.lock().is_none(), "then the mirror that nobody uses");
    assert_eq!((events(&mirrors.used), taken()), (2, [3, 1, 0, 0, 0]));
    keep(held(&mirrors) - 1);
    assert_eq!(
        (events(&mirrors.used), taken()),
        (1, [3, 1, 1, 0, 0]),
        "then what is promised, the older part first"
    );
    keep(1);
    let left = mirrors.used.holdings();
    assert_eq!((left.log_events, left.live_objects, taken()), (0, 1, [3, 1, 2, 1, 0]));
    assert!(admission.refuses(Refused::Lists) && !admission.refuses(Refused::Watches));
    keep(1);
    assert!(admission.refuses(Refused::Watches) && taken()[4] == 1);
    keep(1);
    assert_eq!(taken(), [3, 1, 2, 1, 1], "that nothing more can be refused is no news");
    assert_eq!(mirrors.used.holdings().live_objects, 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_admitted_again_step_by_step_well_below_the_limit() {
    let (mirrors, _) = mirrors().await;
    let admission = Admission::default();
    for _ in 0..3 {
        keeper(0, &mirrors, &admission).check();
    }
    let left = held(&mirrors);
    keeper(left, &mirrors, &admission).check();
    assert!(admission.refuses(Refused::Watches), "at the limit nothing changes");
    keeper(2 * left, &mirrors, &admission).check();
    assert!(!admission.refuses(Refused::Watches) && admission.refuses(Refused::Lists));
    keeper(2 * left, &mirrors, &admission).check();
    assert!(!admission.refuses(Refused::Lists));
}

#[tokio::test(start_paused = true)]
async fn what_is_held_besides_shards_counts() {
    let admission = Admission::default();
    let mirrors = Mirrors { used: cell(&[0]), unused: Mutex::default(), others: 1 << 30 };
    keeper(1 << 29, &Arc::new(mirrors), &admission).check();
    assert!(admission.refuses(Refused::Lists));
}
