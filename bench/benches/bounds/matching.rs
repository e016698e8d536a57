//! 10,000 interests that differ by node: what an event costs while they are registered, and what each takes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::Instant;
use weir_bench::memory::Memory;
use weir_bench::mirrored::{Mirrored, list, puts};
use weir_bench::pods::{PodBytes, PodMirror, PodNumber};
use weir_bench::report::{Ranks, Table, Verdict};
use weir_core::message::{Credit, FeedMessage, FromNode, Open, OpenId, ToNode};
use weir_core::{Object, ResourceVersion, SlotSet, WindowBounds};
use weir_daemon::Lifecycle;
use weir_shard_node::node::{Node, SessionId};

const INTERESTS: usize = 10_000;
const PODS: usize = 20_000;
const SHARDS: usize = 4;
const SIZE: PodBytes = PodBytes::about(1_000);
const EVENTS: usize = 20_000;
const ROUNDS: usize = 5;
const SESSION: SessionId = SessionId(0);
const LISTED_AT: ResourceVersion = ResourceVersion::new(1);
/// A short window: what is measured is an event, not the growth of a log.
const BOUNDS: WindowBounds = WindowBounds {
    max_age: Duration::from_secs(600),
    max_events: 1_000,
    max_percent_of_live: 50,
    free_bytes: 0,
    min_age: Duration::ZERO,
};
/// How much an event may cost with all interests, against one: hash maps that no longer fit the caches.
const MOST_TIMES: u64 = 3;

/// What happens to the pods.
#[derive(Clone, Copy)]
enum Events {
    /// Of nodes that have an interest: each matches one.
    Matched,
    /// Of nodes without.
    Unmatched,
}

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table = Table::new("10,000 interests, one for each node")?;
    let pods = PodMirror::new();
    let mut with_one = 0;
    for interests in [0, 1, 100, INTERESTS] {
        let mut node = node_with(&pods, interests)?;
        let unmatched = cost(&mut node, &pods, (Events::Unmatched, interests))?;
        if interests == 0 {
            table.figure("an event without interests", &format!("{unmatched} ns"))?;
            continue;
        }
        let matched = cost(&mut node, &pods, (Events::Matched, interests))?;
        let measured = format!("{matched} ns where one matches, {unmatched} ns where none does");
        let what = format!("an event, {interests} interests");
        if interests < INTERESTS {
            with_one = if interests == 1 { matched } else { with_one };
            table.figure(&what, &measured)?;
        } else {
            let bound = format!("{MOST_TIMES} × that with 1");
            table.bound(&what, (&measured, &bound), Verdict::of_timing(matched <= MOST_TIMES * with_one))?;
        }
    }
    registered(&mut table, &pods)?;
    followed(&mut table, &pods).await?;
    Ok(table.holds())
}

/// A node with interests in the first nodes of the cluster.
fn node_with(pods: &PodMirror, interests: usize) -> Result<Node> {
    let mut node = Node::new(SlotSet::ALL, BOUNDS);
    for message in list(LISTED_AT, pods.objects(PODS, LISTED_AT, SIZE).into_iter()) {
        node.on_feed(message, Duration::ZERO)?;
    }
    node.attach(SESSION);
    for number in 0..interests {
        open(&mut node, pods, number);
    }
    ensure!(node.interests() == interests, "{} are registered", node.interests());
    Ok(node)
}

fn open(node: &mut Node, pods: &PodMirror, number: usize) {
    let id = OpenId(number as u64);
    let interest = pods.of_node(PodNumber(number));
    let open = Open { id, interest, slots: SlotSet::ALL, credit: Credit(u32::MAX) };
    node.on_session(SESSION, ToNode::Open(open));
}

/// What one event costs the node, in nanoseconds: the median of some rounds.
fn cost(node: &mut Node, pods: &PodMirror, (events, interests): (Events, usize)) -> Result<u64> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let after = node.window().map(|window| window.frontier).unwrap_or_default();
        let messages = messages(pods, after, |event| match events {
            Events::Matched => event % interests,
            Events::Unmatched => PODS / 2 + event % (PODS / 2),
        });
        let (begun, mut deliveries) = (Instant::now(), 0);
        for message in messages {
            let said = node.on_feed(message, Duration::ZERO)?;
            deliveries += said
                .iter()
                .filter(|(_, said)| matches!(said, FromNode::Said(said) if !said.events().is_empty()))
                .count();
        }
        rounds.push(begun.elapsed().as_nanos() as u64 / EVENTS as u64);
        let expected = match events {
            Events::Matched => EVENTS,
            Events::Unmatched => 0,
        };
        ensure!(deliveries == expected, "{deliveries} of {expected} events were delivered");
    }
    Ok(Ranks::new(rounds).percentile(50))
}

/// One statement an event; the objects are versions of few, made without parsing.
fn messages(pods: &PodMirror, after: ResourceVersion, number: impl Fn(usize) -> usize) -> Vec<FeedMessage> {
    let first: Vec<Arc<Object>> =
        (0..100).map(|event| pods.object(PodNumber(number(event)), LISTED_AT, SIZE)).collect();
    let mut at = after;
    let statements = (0..EVENTS).map(|event| {
        let before = at;
        at = before.next();
        puts(before, [Arc::new(first[event % first.len()].with_rv(at))])
    });
    statements.map(FeedMessage::Statement).collect()
}

/// What a registration takes at one node.
fn registered(table: &mut Table, pods: &PodMirror) -> Result<()> {
    let mut node = node_with(pods, 0)?;
    let before = Memory::now()?;
    (0..INTERESTS).for_each(|number| open(&mut node, pods, number));
    let added = Memory::now()?.since(before);
    table.figure(
        "a registration at a node, its interest included",
        &format!("{} B of heap", added.heap / INTERESTS),
    )
}

/// What an interest takes in all: proxy and four shards.
async fn followed(table: &mut Table, pods: &PodMirror) -> Result<()> {
    let (lifecycle, mirror) = (Lifecycle::new(), Mirrored::new(SHARDS, BOUNDS));
    mirror.start(&lifecycle);
    for message in list(LISTED_AT, pods.objects(PODS, LISTED_AT, SIZE).into_iter()) {
        mirror.feed.push(&message);
    }
    mirror.reached(LISTED_AT).await;
    let before = Memory::now()?;
    let leases: Vec<_> =
        (0..INTERESTS).map(|number| mirror.fanout.follow(&pods.of_node(PodNumber(number)))).collect();
    // A bookmark of upstream's behind all registrations: once it is through, so are they.
    let behind = LISTED_AT.next();
    mirror.feed.push(&FeedMessage::Statement(weir_core::Statement::nothing(
        weir_core::SourceId(1),
        LISTED_AT,
        behind,
    )));
    mirror.reached(behind).await;
    let added = Memory::now()?.since(before);
    ensure!(mirror.fanout.interests() == leases.len(), "every interest is open");
    table.figure(
        "an interest in all: hub, merge, 4 registrations",
        &format!("{} B of heap", added.heap / INTERESTS),
    )
}
