//! Warm starts: what a copy answers is what its donor answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_core::interest::Interest;
use weir_core::message::{InterestEvent, LogRequest};
use weir_core::{ResourceVersion, SlotSet, WindowBounds};
use weir_daemon::peer::PeerPort;
use weir_shard_node::host::Hosted;
use weir_shard_node::node::cell::NodeCell;
use weir_shard_node::remote::{FollowMetrics, Follower};
use weir_shard_node::warm::{self, Donor};
use weir_sim::Churn;

use crate::held::{content, objects};
use crate::world::{LIMITS, Node, Plan, World, pods, until};

/// The log of everything behind a revision, up to another.
fn log(mirror: &Hosted, after: ResourceVersion, to: ResourceVersion) -> Vec<InterestEvent> {
    let (history, _) = mirror.cell.standing().unwrap();
    let interest = Arc::new(Interest::everything());
    let mut request = LogRequest { history, interest, slots: mirror.cell.slots(), after, to };
    let mut events = Vec::new();
    while request.after < to {
        let statement = mirror.cell.log(&request).expect("inside the window");
        events.extend(statement.events().iter().cloned());
        request.after = statement.to();
    }
    events
}

fn seen(events: &[InterestEvent]) -> Vec<(u64, String, Vec<u8>)> {
    let see =
        |event: &InterestEvent| (event.rv.get(), format!("{:?}", event.kind), event.object.bytes().to_vec());
    events.iter().map(see).collect()
}

/// Compares every answer that both can give.
fn assert_equal(copy: &Hosted, donor: &Hosted) {
    let (ours, theirs) = (copy.cell.window().unwrap(), donor.cell.window().unwrap());
    assert!(ours.floor >= theirs.floor, "a copy promises no more than its donor");
    let end = ours.frontier.min(theirs.frontier);
    assert!(ours.floor < end, "something to compare: {ours:?} {theirs:?}");
    let whole = log(donor, ours.floor, end);
    assert!(!whole.is_empty());
    let points = std::iter::once(ours.floor).chain(whole.iter().map(|event| event.rv));
    for at in points {
        let bytes = |mirror| {
            let objects = objects(mirror, Some(at));
            objects.iter().map(|object| object.bytes().to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(bytes(copy), bytes(donor), "snapshot at {at}");
        assert_eq!(seen(&log(copy, at, end)), seen(&log(donor, at, end)), "log after {at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_answers_as_its_donor_does() {
    let world = World::start(11).await;
    let mut ports = World::ports(3).into_iter();
    let all: Vec<_> = ports.as_slice().iter().map(PeerPort::local_address).collect();
    let half = SlotSet::of_shard(0, 2);
    // A node of all slots can be the donor of one that holds half of them.
    let feed = world.node(ports.next().unwrap(), World::plan(SlotSet::of_shard(1, 2), &all)).await;
    let donor = world.node(ports.next().unwrap(), World::plan(SlotSet::ALL, &all)).await;
    for node in [&feed, &donor] {
        node.ready().await;
        node.pods().await;
    }
    world.compare(&[&feed, &donor]).await;
    world.write(1_000);
    world.compare(&[&donor]).await;
    let copy = world.node(ports.next().unwrap(), World::plan(half, &all)).await;
    copy.ready().await;
    let hosted = copy.host.all();
    assert_eq!(hosted.len(), 1, "what a replica has is mirrored unasked");
    assert_eq!(copy.metrics.follow.warm_starts.get(), 1);
    let (ours, theirs) = (copy.pods().await, donor.pods().await);
    assert!(ours.facts.borrow().is_some() || ours.cell.window().is_some());
    let theirs_now = theirs.cell.window().unwrap();
    let length = theirs_now.frontier.get() - theirs_now.floor.get();
    let lost = ours.cell.window().unwrap().floor.get() - theirs_now.floor.get();
    assert!(lost <= length / 32, "nearly the whole window: {lost} of {length}");
    assert_same_slots(&ours, &theirs, half);
    world.write(200);
    world.compare(&[&copy, &donor, &feed]).await;
    let lists: u64 = [&feed, &donor, &copy].iter().map(|node| node.lists()).sum();
    assert_eq!(lists, 1);
    until("facts", || ours.facts.borrow().is_some()).await;
}

/// Compares a copy of some of the donor's slots.
fn assert_same_slots(copy: &Hosted, donor: &Hosted, slots: SlotSet) {
    let end = copy.cell.window().unwrap().frontier;
    let floor = copy.cell.window().unwrap().floor;
    let of_slots = |events: Vec<InterestEvent>| {
        events.into_iter().filter(|event| slots.contains(event.object.slot())).collect::<Vec<_>>()
    };
    let whole = of_slots(log(donor, floor, end));
    assert!(whole.len() > 100, "{}", whole.len());
    for at in std::iter::once(floor).chain(whole.iter().map(|event| event.rv)) {
        let bytes = |mirror| {
            let objects = objects(mirror, Some(at));
            let mine = objects.into_iter().filter(|object| slots.contains(object.slot()));
            mine.map(|object| object.bytes().to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(bytes(copy), bytes(donor), "snapshot at {at}");
    }
    assert_eq!(seen(&log(copy, floor, end)), seen(&whole));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_a_window_that_moves_is_whole() {
    let world = World::start(12).await;
    let mut ports = World::ports(3).into_iter();
    let all: Vec<_> = ports.as_slice().iter().map(PeerPort::local_address).collect();
    let bounds = WindowBounds { max_events: 60, min_age: Duration::ZERO, ..WindowBounds::default() };
    let donor = world.node(ports.next().unwrap(), Plan { bounds, ..World::plan(SlotSet::ALL, &all) }).await;
    donor.ready().await;
    donor.pods().await;
    world.compare(&[&donor]).await;
    world.write(500);
    world.compare(&[&donor]).await;
    let churn = world.sim.with(|cluster| Churn::fill(cluster, 13, weir_sim::ChurnShape::default()));
    let running = world.sim.run_churn(churn, Duration::from_millis(1));
    let mut copies = Vec::new();
    for port in ports {
        let copy = world.node(port, World::plan(SlotSet::ALL, &all)).await;
        copy.ready().await;
        copies.push(copy);
    }
    running.stop().await;
    world.write(30);
    world.compare(&[&donor, &copies[0], &copies[1]]).await;
    let theirs = donor.pods().await;
    for copy in &copies {
        assert_equal_where_both(&*copy.pods().await, &theirs);
        assert_eq!(copy.lists(), 0);
    }
    assert_eq!(donor.lists(), 1);
}

/// Compares what both still answer: the donor's window is the shorter one.
fn assert_equal_where_both(copy: &Hosted, donor: &Hosted) {
    let (ours, theirs) = (copy.cell.window().unwrap(), donor.cell.window().unwrap());
    let end = ours.frontier.min(theirs.frontier);
    let floor = ours.floor.max(theirs.floor);
    assert!(floor < end, "{ours:?} {theirs:?}");
    assert_eq!(seen(&log(copy, floor, end)), seen(&log(donor, floor, end)));
    assert_eq!(content(copy, Some(floor)), content(donor, Some(floor)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_restarted_one_after_the_other_cost_upstream_nothing() {
    let world = World::start(14).await;
    let ports = World::ports(2);
    let all: Vec<_> = ports.iter().map(PeerPort::local_address).collect();
    let mut nodes = Vec::new();
    for port in ports {
        let node = world.node(port, World::plan(SlotSet::ALL, &all)).await;
        nodes.push(node);
    }
    for node in &nodes {
        node.ready().await;
        node.pods().await;
    }
    world.write(200);
    world.compare(&[&nodes[0], &nodes[1]]).await;
    let mut lists = 0;
    for index in [0, 1, 0, 1] {
        let old = nodes.remove(index);
        lists += old.lists();
        let port = PeerPort::bind(old.kill().await, None).unwrap();
        world.write(50);
        let node = world.node(port, World::plan(SlotSet::ALL, &all)).await;
        node.ready().await;
        assert_eq!(node.metrics.follow.warm_starts.get(), 1);
        nodes.insert(index, node);
        world.write(50);
        world.compare(&[&nodes[0], &nodes[1]]).await;
        assert_equal(&*nodes[index].pods().await, &*nodes[1 - index].pods().await);
    }
    lists += nodes.iter().map(Node::lists).sum::<u64>();
    assert_eq!(lists, 1, "the one of the beginning");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_donor_that_is_gone_is_passed_over() {
    let world = World::start(15).await;
    let node = world.node(World::ports(1).remove(0), World::plan(SlotSet::ALL, &[])).await;
    let donor = node.pods().await;
    world.write(200);
    world.compare(&[&node]).await;
    let (history, window) = donor.cell.standing().unwrap();
    let gone = World::ports(1).remove(0).local_address();
    let donors = [gone, node.address].map(|address| Donor { address: address.into(), history, window });
    let copy =
        Hosted { cell: Arc::new(NodeCell::new(SlotSet::ALL, WindowBounds::default())), ..(*donor).clone() };
    let into = (&*copy.cell, Instant::now());
    assert!(!warm::copy(node.host.nodes(), &donors[..1], &donor.spec, into).await);
    assert_eq!(copy.cell.window(), None);
    assert!(warm::copy(node.host.nodes(), &donors, &donor.spec, into).await);
    assert_equal(&copy, &donor);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_upstream_has_lost_a_replica_leads_on() {
    let world = World::start(16).await;
    let mut ports = World::ports(2).into_iter();
    let all: Vec<_> = ports.as_slice().iter().map(PeerPort::local_address).collect();
    let node = world.node(ports.next().unwrap(), World::plan(SlotSet::ALL, &all)).await;
    let replica = world.node(ports.next().unwrap(), World::plan(SlotSet::ALL, &all[1..])).await;
    let theirs = replica.pods().await;
    world.write(100);
    world.compare(&[&replica]).await;
    // Content that stands still from here on.
    let (history, window) = theirs.cell.standing().unwrap();
    let donor = Donor { address: replica.address.into(), history, window };
    let ours =
        Hosted { cell: Arc::new(NodeCell::new(SlotSet::ALL, WindowBounds::default())), ..(*theirs).clone() };
    let started = Instant::now();
    assert!(warm::copy(node.host.nodes(), &[donor], &theirs.spec, (&ours.cell, started)).await);
    let before = ours.cell.window().unwrap();
    world.write(100);
    world.compare(&[&replica]).await;
    // Upstream starts anew: nothing older than now can be watched, and the feed of this node has not begun.
    world.sim.compact();
    for instance in 0..2 {
        world.sim.instance(instance).restart();
    }
    let host = &node.host;
    let follower = Follower::new(
        pods(),
        (ours.cell.clone(), started),
        (host.feeds().clone(), host.nodes().clone()),
        (LIMITS, FollowMetrics::default()),
    );
    node.spawn(follower.run());
    world.write(50);
    world.compare(&[&replica]).await;
    let (_, last) = world.truth(&SlotSet::ALL);
    until("it is led on", || ours.cell.window().is_some_and(|window| window.frontier >= last)).await;
    assert_eq!(ours.cell.window().unwrap().floor, before.floor, "by the log, not by a list");
    assert!(node.is_feed() && node.lists() > 0, "a list was there");
    assert_equal(&ours, &theirs);
}
