//! From upstream's bytes to an object, and from a feed's message to a shard's.

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use weir_bench::mirrored::puts;
use weir_bench::pods::{PodBytes, PodMirror, PodNumber};
use weir_core::message::FeedMessage;
use weir_core::object::scan::{FieldPaths, scan};
use weir_core::object::watch_line::WatchLine;
use weir_core::{Object, ResourceVersion, SlotSet};

const AT: ResourceVersion = ResourceVersion::new(1_000);
const SIZES: [usize; 3] = [1_000, 4_000, 16_000];
const CHANGES: usize = 100;

fn json(bytes: usize) -> String {
    PodNumber(4_711).json(AT, PodBytes::about(bytes))
}

#[divan::bench(args = SIZES, max_time = 1)]
fn object_scan(bencher: Bencher<'_, '_>, bytes: usize) {
    let (json, mirror) = (json(bytes), PodMirror::new());
    let fields = mirror.spec.schema.table().fields();
    let paths: Vec<&[String]> = fields.iter().map(|field| field.path.as_slice()).collect();
    let paths = FieldPaths::new(&paths).expect("the paths of pods are well formed");
    let bencher = bencher.counter(BytesCount::new(json.len()));
    bencher.bench(|| scan(divan::black_box(json.as_bytes()), &paths).map(|scanned| scanned.labels.len()));
}

#[divan::bench(args = SIZES, max_time = 1)]
fn object_parse(bencher: Bencher<'_, '_>, bytes: usize) {
    let (json, mirror) = (json(bytes), PodMirror::new());
    let bencher = bencher.counter(BytesCount::new(json.len()));
    bencher.bench(|| Object::parse(divan::black_box(json.as_bytes()), &mirror.spec.schema));
}

/// A line of a watch, from its bytes to the object that is kept.
#[divan::bench(args = SIZES, max_time = 1)]
fn watch_line_to_object(bencher: Bencher<'_, '_>, bytes: usize) {
    let mirror = PodMirror::new();
    let object = format!(r#"{{"kind":"Pod","apiVersion":"v1",{}"#, &json(bytes)[1..]);
    let line = format!(r#"{{"type":"MODIFIED","object":{object}}}"#);
    bencher.counter(BytesCount::new(line.len())).bench(|| {
        let line = divan::black_box(line.as_bytes());
        let parsed = WatchLine::parse(line).expect("a made line is one");
        Object::parse(parsed.object_of(line), &mirror.spec.schema)
    });
}

/// One of `shards` takes its part of a statement of 100 changes.
#[divan::bench(args = [1, 4, 16], max_time = 1)]
fn statement_narrowing(bencher: Bencher<'_, '_>, shards: usize) {
    let mirror = PodMirror::new();
    let objects = (1..=CHANGES).map(|number| {
        let at = ResourceVersion::new(AT.get() + number as u64);
        mirror.object(PodNumber(number), at, PodBytes::about(1_000))
    });
    let message = FeedMessage::Statement(puts(AT, objects));
    let slots = SlotSet::of_shard(0, shards);
    bencher.counter(ItemsCount::new(CHANGES)).bench(|| divan::black_box(&message).narrowed(&slots));
}
