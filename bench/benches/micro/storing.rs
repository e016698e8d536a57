//! The store: taking changes, reading a snapshot in chunks, reading the log.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use weir_bench::mirrored::{list, puts};
use weir_bench::pods::{PodBytes, PodMirror, PodNumber};
use weir_core::interest::Interest;
use weir_core::message::{FeedMessage, LogRequest, SnapshotRequest, SnapshotStart};
use weir_core::{Object, ResourceVersion, SlotSet, WindowBounds};
use weir_shard_node::store::Store;

const PODS: usize = 10_000;
const SIZE: PodBytes = PodBytes::about(1_000);
const AT: ResourceVersion = ResourceVersion::new(1_000);
const CHUNK: usize = 512;
const LOGGED: usize = 1_000;
/// The pod of the first change.
const CHANGED: usize = (AT.get() as usize + 1) * 37 % PODS;
/// A window that is full soon, so that every change also makes one leave.
const BOUNDS: WindowBounds = WindowBounds {
    max_age: Duration::from_secs(600),
    max_events: LOGGED,
    max_percent_of_live: 50,
    free_bytes: 64 << 20,
    min_age: Duration::ZERO,
};

fn filled(pods: &PodMirror) -> (Store, Vec<Arc<Object>>) {
    let mut store = Store::new(SlotSet::ALL, BOUNDS);
    let objects = pods.objects(PODS, AT, SIZE);
    for message in list(AT, objects.iter().cloned()) {
        let FeedMessage::List(chunk) = message else { continue };
        store.list(chunk);
    }
    (store, objects)
}

/// Changes of pods spread over the collection, rising from `after`.
fn changes(objects: &[Arc<Object>], after: ResourceVersion, count: usize) -> Vec<Arc<Object>> {
    let numbers = (1..=count as u64).map(|step| after.get() + step);
    numbers.map(|rv| Arc::new(objects[rv as usize * 37 % PODS].with_rv(ResourceVersion::new(rv)))).collect()
}

/// A statement of `events` changes to a store of 10,000 objects whose window is full.
#[divan::bench(args = [1, 100], max_time = 2)]
fn store_apply(bencher: Bencher<'_, '_>, events: usize) {
    let pods = PodMirror::new();
    let (mut store, objects) = filled(&pods);
    let at = Cell::new(AT);
    let next = || {
        let after = at.get();
        at.set(ResourceVersion::new(after.get() + events as u64));
        puts(after, changes(&objects, after, events))
    };
    for _ in 0..LOGGED.div_ceil(events) {
        store.apply(next(), Duration::ZERO).expect("no gap");
    }
    let bencher = bencher.counter(ItemsCount::new(events)).with_inputs(next);
    bencher.bench_local_values(|statement| store.apply(statement, Duration::ZERO));
}

/// All 10,000 objects, in chunks of 512.
#[divan::bench(max_time = 1)]
fn snapshot_in_chunks(bencher: Bencher<'_, '_>) {
    let (store, _) = filled(&PodMirror::new());
    let interest = Arc::new(Interest::everything());
    bencher.counter(ItemsCount::new(PODS)).bench_local(|| {
        let (mut from, mut read) = (None, 0);
        loop {
            let request = SnapshotRequest {
                history: weir_core::History::FIRST,
                interest: interest.clone(),
                slots: SlotSet::ALL,
                at: AT,
                from: from.take(),
                max_objects: CHUNK,
            };
            let chunk = store.snapshot(&request).expect("the revision is in the window");
            read += chunk.objects.len();
            match chunk.next {
                Some(key) => from = Some(SnapshotStart::Behind(key)),
                None => return read,
            }
        }
    });
}

/// A log of 1,000 changes, for everything and for one node's pods.
#[divan::bench(args = ["everything", "one node"], max_time = 1)]
fn log_read(bencher: Bencher<'_, '_>, of: &str) {
    let pods = PodMirror::new();
    let (mut store, objects) = filled(&pods);
    let statement = puts(AT, changes(&objects, AT, LOGGED));
    let to = statement.to();
    store.apply(statement, Duration::ZERO).expect("no gap");
    let everything = of == "everything";
    let interest =
        if everything { Arc::new(Interest::everything()) } else { pods.of_node(PodNumber(CHANGED)) };
    let request =
        LogRequest { history: weir_core::History::FIRST, interest, slots: SlotSet::ALL, after: AT, to };
    bencher.counter(ItemsCount::new(LOGGED)).bench_local(|| store.log(&request));
}
