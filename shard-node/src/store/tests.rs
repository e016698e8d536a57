//! The store against a naive one, over random histories, bounds, chunks and starts; and its refusals, one by one.

mod naive;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use weir_core::interest::{Interest, Scope};
use weir_core::message::{
    CountRequest, ListChunk, ListId, LogRequest, SnapshotRequest, SnapshotStart, Unanswered,
};
use weir_core::selector::LabelSelector;
use weir_core::shard_selector::ShardSelector;
use weir_core::statement::Statement;
use weir_core::{History, Object, ObjectKey, ResourceVersion, SlotSet, SourceId, WindowBounds};

use super::{Holdings, Listed, Store};
use crate::testing::{Pod, rv};
use naive::{Naive, Step};

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..8_usize, any::<bool>(), 0..80_usize).prop_map(|(pod, app, padding)| Step::Put { pod, app, padding }),
        3 => (0..8_usize).prop_map(|pod| Step::Delete { pod }),
        1 => Just(Step::Skip),
        4 => (0..30_u64).prop_map(|seconds| Step::Feed { seconds }),
        1 => Just(Step::List),
    ];
    proptest::collection::vec(step, 1..60)
}

fn bounds() -> impl Strategy<Value = WindowBounds> {
    let seconds = prop_oneof![Just(0_u64), Just(20), Just(10_000)];
    (
        seconds,
        prop_oneof![Just(0_usize), Just(3), Just(1_000)],
        prop_oneof![Just(0_usize), Just(1_500), Just(1 << 20)],
    )
        .prop_map(|(seconds, max_events, free_bytes)| WindowBounds {
            max_age: Duration::from_secs(seconds.max(20)),
            max_events,
            max_percent_of_live: 50,
            free_bytes,
            min_age: Duration::from_secs(seconds.min(20)),
        })
}

fn interests() -> Vec<Interest> {
    let sharded = |path: &str, start: &str, end: &str| {
        let text = format!("shardRange({path}, '{start}', '{end}')");
        let shard = ShardSelector::parse(&text).unwrap();
        Interest::new(Scope::default(), LabelSelector::everything(), Vec::new(), Some(shard))
    };
    let namespace = |name: Option<&str>| Scope { namespace: Some("b".into()), name: name.map(Into::into) };
    let everything = LabelSelector::everything;
    let red = || LabelSelector::parse("app=red").unwrap();
    vec![
        Interest::everything(),
        Interest::new(Scope::default(), red(), Vec::new(), None),
        Interest::new(namespace(None), everything(), Vec::new(), None),
        Interest::new(namespace(Some("pod1")), everything(), Vec::new(), None),
        Interest::new(namespace(None), LabelSelector::parse("app!=red").unwrap(), Vec::new(), None),
        sharded("object.metadata.uid", "0x0000000000000000", "0x8000000000000000"),
        sharded("object.metadata.uid", "0x2000000000000000", "0x2800000000000000"),
        sharded("object.metadata.namespace", "0x8000000000000000", "0x10000000000000000"),
    ]
}

fn chunk((list, at): (u64, u64), seq: u32, is_last: bool, objects: Vec<Arc<Object>>) -> ListChunk {
    ListChunk { list: ListId(list), at: rv(at), seq, is_last, objects }
}

fn request(interest: &Interest, slots: SlotSet, at: ResourceVersion) -> SnapshotRequest {
    let interest = Arc::new(interest.clone());
    SnapshotRequest { history: History::FIRST, interest, slots, at, from: None, max_objects: 2 }
}

/// The whole snapshot, in chunks.
fn snapshot(store: &Store, mut request: SnapshotRequest) -> Result<Vec<Arc<Object>>, Unanswered> {
    let mut objects = Vec::new();
    loop {
        let chunk = store.snapshot(&request)?;
        assert!(chunk.objects.len() <= request.max_objects);
        objects.extend(chunk.objects);
        let Some(next) = chunk.next else { return Ok(objects) };
        request.from = Some(SnapshotStart::Behind(next));
    }
}

/// Runs the history, asking everything after each step that changed the store.
fn run(steps: &[Step], bounds: WindowBounds, ask: impl Fn(&Store, &Naive)) {
    let (mut store, mut naive, mut now, mut lists) =
        (Store::new(SlotSet::ALL, bounds), Naive::default(), Duration::ZERO, 0);
    naive.revision = 1;
    store.list(chunk((0, 1), 0, true, Vec::new()));
    for step in steps {
        match step {
            Step::Put { .. } | Step::Delete { .. } | Step::Skip => {
                naive.write(step);
                continue;
            }
            Step::Feed { seconds } => {
                now += Duration::from_secs(*seconds);
                let after = store.window().unwrap().frontier;
                store.apply(naive.statement(after), now).unwrap();
            }
            Step::List => {
                lists += 1;
                let objects = naive.present(ResourceVersion::MAX).into_values().collect();
                store.list(chunk((lists, naive.revision), 0, true, objects));
            }
        }
        store.check();
        ask(&store, &naive);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// At every revision of the window, every snapshot is the replay of the log, in key order, in chunks; outside the
    /// window it is refused.
    #[test]
    fn snapshots_equal_the_replay(steps in steps(), bounds in bounds()) {
        run(&steps, bounds, |store, naive| {
            let window = store.window().unwrap();
            for at in window.floor.get().saturating_sub(2)..=window.frontier.get() + 2 {
                for interest in interests() {
                    let got = snapshot(store, request(&interest, SlotSet::ALL, rv(at)));
                    if window.contains(rv(at)) {
                        let present = naive.present(rv(at)).into_values();
                        let expected: Vec<_> = present.filter(|object| interest.matches(object)).collect();
                        assert_eq!(bytes(&got.unwrap()), bytes(&expected), "at {at} of {window:?}: {interest:?}");
                    } else {
                        assert!(got.is_err(), "at {at} of {window:?}");
                    }
                }
            }
        });
    }

    /// From every revision of the window the log is what the interest sees; from below it is refused.
    #[test]
    fn logs_equal_the_replay(steps in steps(), bounds in bounds()) {
        run(&steps, bounds, |store, naive| {
            let window = store.window().unwrap();
            for after in window.floor.get().saturating_sub(2)..=window.frontier.get() {
                for interest in interests() {
                    let request = LogRequest {
                        history: History::FIRST,
                        interest: Arc::new(interest.clone()),
                        slots: SlotSet::ALL,
                        after: rv(after),
                        to: ResourceVersion::MAX,
                    };
                    match store.log(&request) {
                        Ok(said) => {
                            let seen: Vec<_> = said.events().iter().map(|event| (event.rv.get(), event.kind, event.object.bytes().to_vec())).collect();
                            assert_eq!((said.after(), said.to()), (rv(after), window.frontier));
                            assert_eq!(seen, naive.log(&interest, rv(after), window.frontier), "{interest:?}");
                        }
                        Err(error) => {
                            assert!(rv(after) < window.floor, "{error:?}");
                            assert_eq!(error, Unanswered::TooOld { floor: window.floor });
                        }
                    }
                }
            }
        });
    }

    /// Counts, point reads and starts in the middle agree with the snapshot.
    #[test]
    fn counts_and_points_equal_the_replay(steps in steps(), bounds in bounds(), start in "[ab]/pod[0-9]") {
        run(&steps, bounds, |store, naive| {
            let at = store.window().unwrap().frontier;
            let present = naive.present(at);
            for key in (0..8).map(|number| naive.pod(number)).map(|pod| ObjectKey::new(&pod.namespace, &pod.name)) {
                let got = store.get(History::FIRST, &key, at).unwrap();
                assert_eq!(got.map(|object| object.rv()), present.get(&key).map(|object| object.rv()));
            }
            let from = SnapshotStart::At(start.as_str().into());
            for interest in interests() {
                let got = snapshot(store, SnapshotRequest { from: Some(from.clone()), ..request(&interest, SlotSet::ALL, at) });
                let behind = present.values().filter(|object| object.key().as_str() >= start.as_str());
                let expected: Vec<_> = behind.filter(|object| interest.matches(object)).cloned().collect();
                assert_eq!(bytes(&got.unwrap()), bytes(&expected));
            }
            let scope = Scope { namespace: Some("a".into()), name: None };
            let in_scope = present.keys().filter(|key| key.as_str() >= start.as_str() && key.namespace() == "a");
            let count = CountRequest {
                history: History::FIRST,
                scope,
                slots: SlotSet::ALL,
                at,
                from: Some(from),
                at_most: usize::MAX,
            };
            assert_eq!(store.count(&count).unwrap(), (in_scope.count(), None));
            assert_eq!(store.holdings().live_objects, present.len());
        });
    }

    /// Stores of disjoint slots answer with disjoint parts whose union is the answer of one store; and a store asked for
    /// some of its slots answers for those only.
    #[test]
    fn slots_cut_answers(steps in steps(), count in 1..5_usize) {
        run(&steps, WindowBounds::default(), |store, naive| {
            let at = store.window().unwrap().frontier;
            let mut parts = Vec::new();
            for slots in (0..count).map(|index| SlotSet::of_shard(index, count)) {
                let part = snapshot(store, request(&Interest::everything(), slots, at)).unwrap();
                assert!(part.iter().all(|object| slots.contains(object.slot())));
                parts.extend(part);
                let said = store.log(&LogRequest {
                    history: History::FIRST,
                    interest: Arc::new(Interest::everything()),
                    slots,
                    after: store.window().unwrap().floor,
                    to: at,
                });
                assert!(said.unwrap().events().iter().all(|event| slots.contains(event.object.slot())));
            }
            parts.sort_by(|a, b| a.key().cmp(b.key()));
            assert_eq!(bytes(&parts), bytes(&naive.present(at).into_values().collect::<Vec<_>>()));
        });
    }
}

fn bytes(objects: &[Arc<Object>]) -> Vec<String> {
    objects.iter().map(|object| String::from_utf8(object.bytes().to_vec()).unwrap()).collect()
}

#[test]
fn a_store_without_content_answers_nothing() {
    let store = Store::new(SlotSet::ALL, WindowBounds::default());
    let everything = Interest::everything();
    assert_eq!(store.snapshot(&request(&everything, SlotSet::ALL, rv(0))).unwrap_err(), Unanswered::Empty);
    assert_eq!((store.window(), store.holdings()), (None, Holdings::default()));
}

#[test]
fn slots_that_the_store_does_not_wholly_hold_are_refused() {
    let mut store = Store::new(SlotSet::of_shard(0, 2), WindowBounds::default());
    store.list(chunk((1, 5), 0, true, Vec::new()));
    let refused = store.snapshot(&request(&Interest::everything(), SlotSet::ALL, rv(5))).unwrap_err();
    assert_eq!(refused, Unanswered::NotMine, "half an answer would look like a whole one");
}

#[test]
fn a_list_is_content_only_when_it_is_whole() {
    let mut store = Store::new(SlotSet::ALL, WindowBounds::default());
    let pods = ["a", "b", "c"].map(|name| Pod::new("ns", name, name).object(3));
    let part = |index: usize| vec![pods[index].clone()];
    assert_eq!(store.list(chunk((1, 5), 0, false, part(0))), Listed::Staged);
    assert_eq!(store.list(chunk((1, 5), 2, true, part(2))), Listed::Ignored, "a chunk is missing");
    assert_eq!(store.window(), None);
    assert_eq!(store.list(chunk((1, 5), 0, false, part(0))), Listed::Ignored, "a repeat");
    assert_eq!(store.list(chunk((1, 5), 1, false, part(1))), Listed::Staged);
    assert_eq!(store.list(chunk((1, 5), 2, true, part(2))), Listed::Installed(rv(5)));
    assert_eq!(store.holdings().live_objects, 3);
}

#[test]
fn two_lists_at_once_do_not_push_each_other_out() {
    let mut store = Store::new(SlotSet::ALL, WindowBounds::default());
    let pod = Pod::new("ns", "a", "u");
    assert_eq!(store.list(chunk((1, 5), 0, false, Vec::new())), Listed::Staged);
    assert_eq!(store.list(chunk((2, 7), 0, false, Vec::new())), Listed::Staged);
    assert_eq!(store.list(chunk((1, 5), 1, true, vec![pod.object(4)])), Listed::Installed(rv(5)));
    assert_eq!(store.list(chunk((2, 7), 1, true, vec![pod.object(6)])), Listed::Installed(rv(7)));
    assert_eq!(store.get(History::FIRST, &ObjectKey::new("ns", "a"), rv(7)).unwrap().unwrap().rv(), rv(6));
    assert_eq!(
        store.list(chunk((3, 7), 0, true, Vec::new())),
        Listed::Ignored,
        "not newer than the frontier"
    );
}

#[test]
fn memory_returns_when_the_window_moves() {
    let bounds = WindowBounds { max_age: Duration::from_secs(60), ..WindowBounds::default() };
    let mut store = Store::new(SlotSet::ALL, bounds);
    store.list(chunk((1, 1), 0, true, Vec::new()));
    let large = |name: usize| Pod { padding: 2_000, ..Pod::new("ns", &format!("pod{name}"), "u") };
    let small = |name: usize| Pod { padding: 0, ..large(name) };
    let changes = (0..100).map(|number| large(number).put(2 + number as u64)).collect();
    store.apply(Statement::new(SourceId(1), rv(1), rv(101), changes).unwrap(), Duration::ZERO).unwrap();
    let before = store.holdings();
    let changes = (0..99).map(|number| small(number).put(102 + number as u64)).collect();
    store.apply(Statement::new(SourceId(1), rv(101), rv(200), changes).unwrap(), Duration::ZERO).unwrap();
    assert!(store.holdings().log_bytes > before.live_bytes * 9 / 10, "the window keeps what was replaced");
    store.trim(Duration::from_secs(61));
    store.check();
    let after = store.holdings();
    assert_eq!((after.log_events, after.log_bytes), (0, 0));
    assert!(after.live_bytes < before.live_bytes / 3, "{before:?} {after:?}");
}
