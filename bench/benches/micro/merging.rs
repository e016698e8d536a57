//! The proxy's side: merging what nodes say, and reading a hub.

use std::cell::Cell;
use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use weir_bench::pods::{PodBytes, PodMirror, PodNumber};
use weir_core::interest::Interest;
use weir_core::message::{Delivery, EventKind, FromNode, InterestEvent, OpenId, ToNode};
use weir_core::{Object, ResourceVersion, SlotSet, SourceId, Statement};
use weir_proxy::hub::{Hub, HubBounds};
use weir_proxy::merge::{CREDIT, Merges, NodeIndex, Output};

const AT: ResourceVersion = ResourceVersion::new(1_000);
const READ: usize = 256;

fn object() -> Arc<Object> {
    PodMirror::new().object(PodNumber(1), AT, PodBytes::about(1_000))
}

/// Where all nodes begin.
const START: ResourceVersion = ResourceVersion::new(1);

/// Each node says one interval in which the one event is its own; the last of them releases them all.
#[divan::bench(args = [1, 4, 8, 32], max_time = 1)]
fn merge_on_said(bencher: Bencher<'_, '_>, nodes: usize) {
    let shards = |index| SlotSet::of_shard(index, nodes);
    let (mut merges, object) = (Merges::new((0..nodes).map(shards).collect(), CREDIT), object());
    for index in 0..nodes {
        merges.on_session(NodeIndex(index), shards(index));
        let first = Statement::nothing(SourceId(1), ResourceVersion::ZERO, START);
        merges.on_node(NodeIndex(index), FromNode::Said(first));
    }
    let opens = opened(&mut merges);
    let at = Cell::new(START);
    let round = || {
        let after = at.get();
        at.set(ResourceVersion::new(after.get() + nodes as u64));
        let said = opens.iter().zip(1..).map(|(open, step)| said((after, at.get()), step, (*open, &object)));
        said.collect::<Vec<_>>()
    };
    bencher.counter(ItemsCount::new(nodes)).with_inputs(round).bench_local_values(|round| {
        let outputs =
            round.into_iter().enumerate().map(|(index, said)| merges.on_node(NodeIndex(index), said));
        outputs.map(|outputs| outputs.len()).sum::<usize>()
    });
}

/// Opens everything at every node.
fn opened(merges: &mut Merges) -> Vec<OpenId> {
    let (_, outputs) = merges.open(Arc::new(Interest::everything()), START);
    let mut opens = Vec::new();
    for output in outputs {
        if let Output::Send(node, ToNode::Open(open)) = output {
            merges.on_node(node, FromNode::Live { id: open.id, at: START });
            opens.push(open.id);
        }
    }
    opens
}

fn said(
    (after, to): (ResourceVersion, ResourceVersion),
    step: u64,
    (open, object): (OpenId, &Arc<Object>),
) -> FromNode {
    let rv = ResourceVersion::new(after.get() + step);
    let tags = vec![(open, EventKind::Modified)];
    let delivery = Delivery { rv, present: Some(object.clone()), gone: None, tags };
    FromNode::Said(
        Statement::new(SourceId(1), after, to, vec![delivery]).expect("the event is in the interval"),
    )
}

/// One client reads 256 events of a full hub.
#[divan::bench(max_time = 1)]
fn hub_read(bencher: Bencher<'_, '_>) {
    let (mut hub, object) = (Hub::new(ResourceVersion::ZERO, HubBounds::default()), object());
    let most = HubBounds::default().max_events as u64;
    hub.push((1..=most).map(|rv| event(rv, &object)).collect());
    let cursor = ResourceVersion::new(most / 2);
    bencher.counter(ItemsCount::new(READ)).bench_local(|| hub.read(divan::black_box(cursor), READ));
}

/// A full hub takes one event, and drops one.
#[divan::bench(max_time = 1)]
fn hub_push(bencher: Bencher<'_, '_>) {
    let (mut hub, object) = (Hub::new(ResourceVersion::ZERO, HubBounds::default()), object());
    let at = Cell::new(0);
    let next = || {
        at.set(at.get() + 1);
        vec![event(at.get(), &object)]
    };
    (0..HubBounds::default().max_events).for_each(|_| hub.push(next()));
    bencher.with_inputs(next).bench_local_values(|events| hub.push(events));
}

fn event(rv: u64, object: &Arc<Object>) -> InterestEvent {
    InterestEvent { rv: ResourceVersion::new(rv), kind: EventKind::Modified, object: object.clone() }
}
