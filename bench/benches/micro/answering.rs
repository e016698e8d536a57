//! Requests and answers: reading path and options, and making the bodies of lists and watches.

use std::sync::Arc;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use weir_bench::mirrored::Mirrored;
use weir_bench::pods::{PodBytes, PodMirror};
use weir_core::interest::Interest;
use weir_core::options::{ListOptions, WatchListGate};
use weir_core::query::Query;
use weir_core::request_info::RequestInfo;
use weir_core::{ResourceVersion, WindowBounds};
use weir_proxy::http::body::ProxyBody;
use weir_proxy::http::list_body::{self, Items, ListMeta};
use weir_proxy::shards::snapshot::Snapshot;

const PODS: usize = 10_000;
const SIZE: PodBytes = PodBytes::about(1_000);
const AT: ResourceVersion = ResourceVersion::new(1_000);
const PATH: &str = "/api/v1/namespaces/team-001/pods";
const QUERY: &str = "allowWatchBookmarks=true&fieldSelector=spec.nodeName%3Dnode-00017&labelSelector=app%3Dweb%2Ctier+in+%28front%2Cback%29&resourceVersion=12345&timeoutSeconds=431&watch=true";

/// What a request needs before anybody is asked: query, path, options and their checks.
#[divan::bench(max_time = 1)]
fn request_parse(bencher: Bencher<'_, '_>) {
    bencher.bench(|| {
        let query = Query::parse(divan::black_box(QUERY));
        let info = RequestInfo::parse("GET", divan::black_box(PATH), &query);
        let mut options = ListOptions::decode(&query).expect("the options are well formed");
        options.validate(WatchListGate::On).expect("and allowed");
        (info, options)
    });
}

/// A list of 10,000 objects over `shards` shards, up to the byte ranges that a connection writes.
#[divan::bench(args = [1, 4], max_time = 2)]
fn list_body(bencher: Bencher<'_, '_>, shards: usize) {
    let (pods, mirror) = filled(shards);
    let meta = ListMeta { at: AT, continue_token: String::new(), remaining: None, shard: None };
    let body = || list_body::list((&pods.spec, &pods.facts), &meta, Items::Rest(snapshot(&mirror)), false);
    let bytes = drained(body(), PODS);
    let bencher = bencher.counter(ItemsCount::new(PODS)).counter(BytesCount::new(bytes));
    bencher.with_inputs(body).bench_local_values(|body| drained(body, PODS));
}

/// The same objects as the initial events of a watch.
#[divan::bench(args = [1, 4], max_time = 2)]
fn watch_frames(bencher: Bencher<'_, '_>, shards: usize) {
    let (pods, mirror) = filled(shards);
    let interest = Arc::new(Interest::everything());
    let body = || mirror.watch(&pods, (&interest, AT), Some(snapshot(&mirror)));
    let bytes = drained(body(), PODS);
    let bencher = bencher.counter(ItemsCount::new(PODS)).counter(BytesCount::new(bytes));
    bencher.with_inputs(body).bench_local_values(|body| drained(body, PODS));
}

fn filled(shards: usize) -> (PodMirror, Mirrored) {
    let (pods, mirror) = (PodMirror::new(), Mirrored::new(shards, WindowBounds::default()));
    mirror.fill(AT, pods.objects(PODS, AT, SIZE).into_iter());
    (pods, mirror)
}

fn snapshot(mirror: &Mirrored) -> Snapshot {
    let everything = Arc::new(Interest::everything());
    let snapshot = mirror.fanout.shards().snapshot(&everything, AT, None).now_or_never();
    snapshot.expect("shards in this process do not wait").expect("the revision is in the window")
}

/// Takes pieces until so many objects are through; their bytes.
fn drained(mut body: ProxyBody, objects: usize) -> usize {
    let (mut bytes, mut seen) = (0, 0);
    while seen < objects {
        let frame =
            body.frame().now_or_never().flatten().expect("nothing here waits").expect("nothing here fails");
        let data = frame.into_data().expect("bodies are data");
        bytes += data.len();
        seen += data
            .parts()
            .filter(|part| part.starts_with(b"{\"metadata\"") || part.starts_with(b"\"metadata\""))
            .count();
    }
    bytes
}
