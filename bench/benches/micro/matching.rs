//! Registered interests: one change, of which one interest hears, while more and more of them are registered.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use weir_bench::mirrored::{list, puts};
use weir_bench::pods::{PodBytes, PodMirror, PodNumber};
use weir_core::message::{Credit, FeedMessage, Open, OpenId, ToNode};
use weir_core::{Object, ResourceVersion, SlotSet, WindowBounds};
use weir_shard_node::node::{Node, SessionId};

const PODS: usize = 10_000;
const SIZE: PodBytes = PodBytes::about(1_000);
const AT: ResourceVersion = ResourceVersion::new(1_000);
const SESSION: SessionId = SessionId(0);
const BOUNDS: WindowBounds = WindowBounds {
    max_age: Duration::from_secs(600),
    max_events: 1_000,
    max_percent_of_live: 50,
    free_bytes: 64 << 20,
    min_age: Duration::ZERO,
};

/// A node with an interest in each of the first `interests` nodes of the cluster takes a change of a pod of one of them.
#[divan::bench(args = [0, 1, 100, 10_000], max_time = 2)]
fn node_takes_one_change(bencher: Bencher<'_, '_>, interests: usize) {
    let pods = PodMirror::new();
    let objects = pods.objects(PODS, AT, SIZE);
    let mut node = Node::new(SlotSet::ALL, BOUNDS);
    for message in list(AT, objects.iter().cloned()) {
        node.on_feed(message, Duration::ZERO).expect("no gap");
    }
    node.attach(SESSION);
    for number in 0..interests {
        let interest = pods.of_node(PodNumber(number));
        let open =
            Open { id: OpenId(number as u64), interest, slots: SlotSet::ALL, credit: Credit(u32::MAX) };
        node.on_session(SESSION, ToNode::Open(open));
    }
    let at = Cell::new(AT);
    let next = || next(&objects, &at, interests.max(1));
    for _ in 0..BOUNDS.max_events {
        node.on_feed(next(), Duration::ZERO).expect("no gap");
    }
    bencher.with_inputs(next).bench_local_values(|message| node.on_feed(message, Duration::ZERO));
}

/// A change of one of at most 100 pods, spread over those that have an interest, so that more interests do not mean
/// more pods.
fn next(objects: &[Arc<Object>], at: &Cell<ResourceVersion>, among: usize) -> FeedMessage {
    let (after, pods) = (at.get(), among.min(100));
    let rv = after.next();
    at.set(rv);
    let object = objects[rv.get() as usize % pods * (among / pods)].with_rv(rv);
    FeedMessage::Statement(puts(after, [Arc::new(object)]))
}
