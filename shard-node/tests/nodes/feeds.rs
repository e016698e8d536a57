//! Which node is the feed, and what happens to the others when it is not any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, interval, timeout};
use weir_core::{GroupVersionResource, History, SlotSet};
use weir_daemon::peer::PeerPort;
use weir_proto::session::Unmirrored;
use weir_shard_node::feed::ring::Standing;

use crate::relay::Relay;
use crate::world::{LIMIT, Node, Plan, World, pods, until};

fn shard(index: usize, count: usize) -> SlotSet {
    SlotSet::of_shard(index, count)
}

/// A shard on each of so many nodes that all see each other, the first choice for pods first.
async fn shards(world: &World, count: usize) -> Vec<Node> {
    let ports = World::ports(count);
    let all: Vec<_> = ports.iter().map(PeerPort::local_address).collect();
    let mut nodes = Vec::new();
    for (index, port) in ports.into_iter().enumerate() {
        nodes.push(world.node(port, World::plan(shard(index, count), &all)).await);
    }
    for node in &nodes {
        node.ready().await;
        node.pods().await;
    }
    nodes
}

fn all(nodes: &[Node]) -> Vec<&Node> {
    nodes.iter().collect()
}

fn lists(nodes: &[Node]) -> u64 {
    nodes.iter().map(Node::lists).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_reads_upstream_for_all() {
    let world = World::start(1).await;
    let nodes = shards(&world, 3).await;
    world.compare(&all(&nodes)).await;
    world.write(300);
    world.compare(&all(&nodes)).await;
    assert_eq!(lists(&nodes), 1);
    assert_eq!(nodes.iter().map(Node::is_feed).collect::<Vec<_>>(), [true, false, false]);
    for node in &nodes {
        let facts = node.pods().await.facts.borrow().clone();
        assert_eq!(facts.map(|facts| facts.list_kind.to_string()), Some("PodList".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_feed_dies_the_next_one_leads_on_without_a_list() {
    let world = World::start(2).await;
    let mut nodes = shards(&world, 3).await;
    world.compare(&all(&nodes)).await;
    let floors: Vec<_> = pods_windows(&nodes[1..]).await;
    nodes.remove(0).kill().await;
    world.write(300);
    world.compare(&all(&nodes)).await;
    assert!(nodes[0].is_feed() && !nodes[1].is_feed());
    assert_eq!(lists(&nodes), 0, "the one list was the dead node's");
    assert_eq!(pods_windows(&nodes).await, floors, "windows go on");
    assert!(nodes.iter().all(|node| node.metrics.follow.feeds_lost.get() > 0));
}

async fn pods_windows(nodes: &[Node]) -> Vec<u64> {
    let mut floors = Vec::new();
    for node in nodes {
        floors.push(node.pods().await.cell.window().unwrap().floor.get());
    }
    floors
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_better_feed_that_is_back_is_taken_while_the_old_one_is_read() {
    let world = World::start(3).await;
    let mut nodes = shards(&world, 3).await;
    world.compare(&all(&nodes)).await;
    let sees: Vec<_> = nodes.iter().map(|node| node.address).collect();
    let first = nodes.remove(0).kill().await;
    world.write(50);
    world.compare(&all(&nodes)).await;
    let port = PeerPort::bind(first, None).unwrap();
    let back = world.node(port, World::plan(shard(0, 3), &sees)).await;
    back.ready().await;
    back.pods().await;
    until("both are handed over", || {
        world.write(1);
        nodes.iter().all(|node| node.metrics.follow.hand_overs.get() == 1)
    })
    .await;
    until("nobody reads the old one", || !nodes[0].is_feed()).await;
    world.write(100);
    world.compare(&[&back, &nodes[0], &nodes[1]]).await;
    assert!(back.is_feed());
    assert_eq!(lists(&nodes), 0, "those that had content needed none");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_death_of_all_nodes_upstream_lists_once() {
    let world = World::start(4).await;
    let nodes = shards(&world, 4).await;
    world.compare(&all(&nodes)).await;
    let mut addresses = Vec::new();
    for node in nodes {
        addresses.push(node.kill().await);
    }
    world.write(50);
    // The first choice comes last, and the others wait for it.
    let mut nodes = Vec::new();
    for (index, address) in addresses.iter().enumerate().rev() {
        let port = PeerPort::bind(*address, None).unwrap();
        nodes.push(world.node(port, World::plan(shard(index, 4), &addresses)).await);
    }
    for node in &nodes {
        node.ready().await;
        node.pods().await;
    }
    world.compare(&all(&nodes)).await;
    assert_eq!(lists(&nodes), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ds_01_nodes_that_take_each_other_for_the_feed_do_not_wait_for_each_other() {
    let world = World::start(5).await;
    let ports = World::ports(2);
    let all: Vec<_> = ports.iter().map(PeerPort::local_address).collect();
    let mut nodes = Vec::new();
    for (index, port) in ports.into_iter().enumerate() {
        // Each sees the other one alone.
        nodes.push(world.node(port, World::plan(shard(index, 2), &[all[1 - index]])).await);
    }
    let (a, b) = timeout(LIMIT, async { tokio::join!(nodes[0].pods(), nodes[1].pods()) }).await.unwrap();
    until("both have content", || a.cell.window().is_some() && b.cell.window().is_some()).await;
    world.write(200);
    world.compare(&[&nodes[0], &nodes[1]]).await;
    assert!(nodes.iter().all(|node| node.is_feed() && node.lists() == 1), "each reads upstream itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_stands_still_while_others_go_on_is_left() {
    let world = World::start(6).await;
    let ports = World::ports(3);
    let all: Vec<_> = ports.iter().map(PeerPort::local_address).collect();
    let mut ports = ports.into_iter();
    // The second node reads upstream itself, from the other instance; the third one is on the feed of the first.
    let mut node = async |slots, sees: &[_], instance| {
        let plan = World::plan(slots, sees);
        world.node(ports.next().unwrap(), Plan { instance, ..plan }).await
    };
    let first = node(shard(0, 3), &[all[0]], 0).await;
    let second = node(shard(1, 3), &[all[1]], 1).await;
    let third = node(shard(2, 3), &all, 0).await;
    for node in [&first, &second, &third] {
        node.ready().await;
        node.pods().await;
    }
    world.compare(&[&first, &second, &third]).await;
    assert!(first.is_feed() && second.is_feed());
    let held = held_instance(&world, &first, &second).await;
    world.write(200);
    world.compare(&[&second, &third]).await;
    let (_, last) = world.truth(&SlotSet::ALL);
    assert!(first.pods().await.cell.window().unwrap().frontier < last, "it stands still");
    assert_eq!(third.lists(), 0, "led on, not listed anew");
    held.catch_up();
    world.compare(&[&first]).await;
}

/// Holds the instance that the first node reads.
async fn held_instance(world: &World, first: &Node, second: &Node) -> weir_sim::InstanceHandle {
    for index in 0..2 {
        let instance = world.sim.instance(index);
        instance.hold();
        world.write(20);
        let (_, last) = world.truth(&SlotSet::ALL);
        let pods = second.pods().await;
        let (pods, mut frontiers) = (pods.cell.clone(), interval(Duration::from_millis(5)));
        let comes = async {
            while pods.window().is_none_or(|window| window.frontier < last) {
                frontiers.tick().await;
            }
        };
        // Nothing tells that a watch is held, so one that is not is given the time that it would need.
        let has_come = timeout(Duration::from_secs(1), comes).await.is_ok();
        if has_come && first.pods().await.cell.window().unwrap().frontier < last {
            return instance;
        }
        instance.catch_up();
    }
    panic!("both nodes read the same instance");
}

/// A relay whose address comes first as the feed of pods, and a node behind it among others.
async fn behind_relay(world: &World) -> (Relay, Vec<Node>) {
    let mut ports = World::ports(3).into_iter();
    let behind = ports.next().unwrap();
    let others: Vec<_> = ports.as_slice().iter().map(PeerPort::local_address).collect();
    let relay = loop {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let names: Vec<_> =
            [listener.local_addr().unwrap(), others[0], others[1]].map(|a| a.to_string()).into();
        if weir_core::rendezvous::order(names.iter().map(String::as_str), &pods())[0] == names[0] {
            break Relay::new(listener, behind.local_address());
        }
    };
    let all = [relay.address, others[0], others[1]];
    let plan = Plan { own: Some(relay.address), ..World::plan(shard(0, 3), &all) };
    let mut nodes = vec![world.node(behind, plan).await];
    for (port, index) in ports.zip(1..) {
        nodes.push(world.node(port, World::plan(shard(index, 3), &all)).await);
    }
    for node in &nodes {
        node.ready().await;
        node.pods().await;
    }
    (relay, nodes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_whose_node_hangs_is_left_and_taken_again() {
    let world = World::start(9).await;
    let (relay, nodes) = behind_relay(&world).await;
    world.compare(&all(&nodes)).await;
    assert!(nodes[0].is_feed(), "all read it");
    relay.freeze();
    let frozen = Instant::now();
    world.write(200);
    world.compare(&all(&nodes)).await;
    let gap = frozen.elapsed();
    assert!(gap < Duration::from_secs(10), "sooner than by pings of the connection: {gap:?}");
    assert!(nodes[1].is_feed(), "the next in order");
    relay.thaw();
    until("both are handed over", || {
        world.write(1);
        nodes[1..].iter().all(|node| node.metrics.follow.hand_overs.get() == 1)
    })
    .await;
    world.write(100);
    world.compare(&all(&nodes)).await;
    assert_eq!(lists(&nodes), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_upstream_is_a_new_history_on_every_node() {
    let world = World::start(10).await;
    let nodes = shards(&world, 3).await;
    world.sim.back_up();
    world.write(200);
    world.compare(&all(&nodes)).await;
    world.sim.restore();
    for node in &nodes {
        let pods = node.pods().await;
        until("another history", || {
            pods.cell.standing().is_some_and(|(history, _)| history == History::new(1))
        })
        .await;
    }
    world.write(50);
    world.compare(&all(&nodes)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_ends_when_nobody_subscribes_to_it_and_begins_again() {
    let world = World::start(8).await;
    let node = world.node(World::ports(1).remove(0), World::plan(SlotSet::ALL, &[])).await;
    let feeds = node.brief_feeds();
    let subscribe = async || feeds.subscribe(&pods(), Standing::nothing(History::FIRST)).await.unwrap();
    let (one, two) = tokio::join!(subscribe(), subscribe());
    assert!(Arc::ptr_eq(one.feed(), two.feed()), "single flight");
    drop(one);
    let feed = two.feed().clone();
    until("the list is there", || feed.handle.position().is_some()).await;
    assert_eq!(feeds.len(), 1);
    drop(two);
    until("it has ended", || feeds.is_empty()).await;
    assert!(feeds.running(&pods()).is_none());
    let again = subscribe().await;
    assert!(!Arc::ptr_eq(again.feed(), &feed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_upstream_does_not_serve_is_refused_by_every_node() {
    let world = World::start(7).await;
    let nodes = shards(&world, 2).await;
    let unknown = GroupVersionResource::new("", "v1", "widgets");
    for node in &nodes {
        let attached = timeout(LIMIT, node.host.attach(&unknown)).await.expect("an answer in time");
        assert_eq!(attached.map(|_| ()), Err(Unmirrored::NotServed));
        let secrets = GroupVersionResource::new("", "v1", "secrets");
        assert_eq!(node.host.attach(&secrets).await.map(|_| ()), Err(Unmirrored::Forbidden));
        assert!(node.host.hosted(&unknown).is_none());
        assert_eq!(node.host.all().len(), 1, "pods");
    }
    assert!(nodes[0].host.feeds().running(&pods()).is_some());
}
