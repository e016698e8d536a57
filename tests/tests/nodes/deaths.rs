//! Nodes that end abruptly and come back with nothing: what one had, its replica has, and clients notice nothing; what none
//! has, upstream is asked for once, and until then nobody is given a part for the whole.

use std::time::Duration;

use futures_util::future::join_all;
use weir_core::{ResourceVersion, rendezvous};
use weir_daemon::members::NodeAddress;
use weir_tests::checker::Listing;

use crate::client::Whole;
use crate::faults::{finish, unnoticed, watchers};
use crate::truth::{Choice, Collection};
use crate::world::World;

/// The node that everybody takes for the feed of a collection.
pub(crate) fn feed_of(world: &World, collection: &Collection) -> usize {
    let addresses: Vec<_> = (0..world.fleet.len()).map(|index| world.fleet.address(index)).collect();
    let order = rendezvous::order(addresses.iter().map(NodeAddress::as_str), collection.gvr());
    addresses.iter().position(|address| address.as_str() == order[0]).unwrap()
}

/// Waits until the proxy has lost so many sessions in all, and has one with every node.
async fn reconnected(world: &World, lost: u64) {
    let peers = &world.fleet.peers;
    world.until("the sessions end", || peers.sessions_lost() >= lost).await;
    world.until("all nodes are back", || peers.sessions_up() == world.fleet.len()).await;
}

/// Ways to ask for the whole of a collection at once.
const WAYS: [&str; 5] = [
    "",
    "resourceVersion=0",
    "limit=500",
    "limit=500&resourceVersion=0",
    "resourceVersionMatch=NotOlderThan&resourceVersion=1",
];

/// A list that is whole, or a refusal by which a client knows to come again.
fn whole_or_refused(world: &World, (collection, at_least): (&Collection, ResourceVersion), answer: &Whole) {
    match answer.code {
        200 => {
            let (meta, items) = collection.items(answer);
            let listing = Listing { at: meta.at(), items, not_older_than: at_least, ..Listing::default() };
            collection.truth(&world.sim).check_list(&Choice::all(collection), &listing);
        }
        503 => {
            assert_eq!(answer.json()["kind"], "Status");
            assert!(answer.headers.contains_key("retry-after"), "{:?}", answer.headers);
        }
        429 => assert!(answer.headers.contains_key("retry-after"), "{:?}", answer.headers),
        other => panic!("{other}: {}", answer.text()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf03_nodes_that_die_one_by_one_and_come_back_empty_cost_nobody_anything() {
    let world = World::start(201).await;
    let pods = world.collection("pods");
    world.churn(50);
    world.settled(&pods).await;
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    let churning = world.churning(Duration::from_millis(10));
    for index in 0..world.fleet.len() {
        let lost = world.fleet.peers.sessions_lost();
        world.fleet.kill(index).await;
        world.churn(20);
        world.settled(&pods).await;
        world.fleet.revive(index).await;
        world.fleet.ready().await;
        reconnected(&world, lost + 1).await;
        world.churn(10);
        world.settled(&pods).await;
    }
    churning.stop(&world).await;
    let saw = finish(&world, &pods, watchers).await;
    unnoticed(&world, &pods, (&saw, mark));
    for name in ["configmaps", "nodes", "gauges.metering.weir.test"] {
        assert_eq!(world.feed_lists(&world.collection(name), mark), [], "{name} was copied, not listed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf03_a_rolling_restart_of_all_nodes_is_no_list_and_no_reset() {
    let world = World::start(202).await;
    let pods = world.collection("pods");
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    let churning = world.churning(Duration::from_millis(10));
    for _ in 0..2 {
        for index in 0..world.fleet.len() {
            let lost = world.fleet.peers.sessions_lost();
            world.fleet.stop(index).await;
            world.fleet.revive(index).await;
            world.fleet.ready().await;
            reconnected(&world, lost + 1).await;
        }
    }
    churning.stop(&world).await;
    let saw = finish(&world, &pods, watchers).await;
    unnoticed(&world, &pods, (&saw, mark));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_feed_that_dies_with_batches_on_their_way_is_followed_by_another_one() {
    let world = World::start(203).await;
    let pods = world.collection("pods");
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    for _ in 0..3 {
        let feed = feed_of(&world, &pods);
        let lost = world.fleet.peers.sessions_lost();
        world.churn(300);
        world.fleet.kill(feed).await;
        world.churn(50);
        world.settled(&pods).await;
        world.fleet.revive(feed).await;
        world.fleet.ready().await;
        reconnected(&world, lost + 1).await;
    }
    let saw = finish(&world, &pods, watchers).await;
    unnoticed(&world, &pods, (&saw, mark));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ds05_without_a_node_for_a_shard_nobody_is_given_a_part_for_the_whole() {
    let world = World::start(204).await;
    let pods = world.collection("pods");
    world.churn(30);
    world.settled(&pods).await;
    let watchers = watchers(&world, &pods).await;
    let gone = world.fleet.of_shard(0);
    join_all(gone.iter().map(|index| world.fleet.kill(*index))).await;
    let mut refused = 0;
    for round in 0..12 {
        world.churn(3);
        let head = world.head();
        for way in WAYS {
            let not_older_than = if way.contains("=0") { ResourceVersion::ZERO } else { head };
            let list = world.client.get(&Choice::all(&pods).path(way)).await;
            whole_or_refused(&world, (&pods, not_older_than.min(head)), &list);
            refused += usize::from(list.code == 503 && round > 0);
        }
    }
    assert_eq!(world.fleet.peers.holes(), [0]);
    assert!(refused > 0, "the hole was seen by nobody");
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0\
                 &allowWatchBookmarks=true";
    let stream = world.client.get(&Choice::all(&pods).path(query)).await;
    assert_eq!((stream.code, stream.headers.contains_key("retry-after")), (503, true), "{}", stream.text());
    let mark = world.mark();
    for index in gone {
        world.fleet.revive(index).await;
    }
    world.fleet.ready().await;
    // Until the proxy has tried again there is a hole for it, and 503 is right.
    world.until("the hole is gone", || world.fleet.peers.holes().is_empty()).await;
    world.mirrored(&Choice::all(&pods).path("resourceVersion=0")).await;
    world.churn(10);
    for saw in finish(&world, &pods, watchers).await {
        assert!(
            (1..=2).contains(&saw.rounds.len()),
            "one new list for what nobody had: {}",
            saw.rounds.len()
        );
    }
    assert!(world.feed_lists(&pods, mark).len() <= 1, "{:#?}", world.feed_lists(&pods, mark));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_death_of_all_nodes_upstream_lists_each_mirror_once() {
    let world = World::start(205).await;
    let pods = world.collection("pods");
    let watchers = watchers(&world, &pods).await;
    for _ in 0..2 {
        let mark = world.mark();
        join_all((0..world.fleet.len()).map(|index| world.fleet.kill(index))).await;
        world.churn(30);
        for index in 0..world.fleet.len() {
            world.fleet.revive(index).await;
        }
        world.fleet.ready().await;
        world.settled(&pods).await;
        for name in ["pods", "configmaps", "nodes", "gauges.metering.weir.test"] {
            let lists = world.feed_lists(&world.collection(name), mark);
            assert_eq!(lists.len(), 1, "{name}: {lists:#?}");
        }
    }
    for saw in finish(&world, &pods, watchers).await {
        assert!(saw.rounds.len() <= 3, "one new list for each time: {}", saw.rounds.len());
    }
}
