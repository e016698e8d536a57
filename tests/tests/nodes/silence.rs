//! Nodes that are there and say nothing, or nothing new: one that hangs is left when others have gone on without it, one that
//! lags when its replica has; when all are silent, nobody is at fault.

use std::time::Duration;

use weir_shard_node::remote::FollowLimits;
use weir_tests::checker::Listing;

use crate::faults::{finish, watchers};
use crate::truth::{Choice, Collection};
use crate::watcher::Saw;
use crate::world::{Settings, World};

/// A consistent list, judged: it holds what was written before it was asked for.
async fn fresh_list(world: &World, collection: &Collection) {
    let head = world.head();
    let list = world.client.get(&Choice::all(collection).path("")).await.fresh();
    let (meta, items) = collection.items(&list);
    let listing = Listing { at: meta.at(), items, not_older_than: head, ..Listing::default() };
    collection.truth(&world.sim).check_list(&Choice::all(collection), &listing);
}

/// No watcher noticed a thing, and nothing was listed again. Lists that had to be fresh may have been upstream's.
fn undisturbed(world: &World, (collection, mark): (&Collection, usize), saw: &[Saw]) {
    for saw in saw {
        assert_eq!((saw.rounds.len(), saw.breaks, saw.refusals), (1, 0, 0), "a client had to begin again");
    }
    assert_eq!(world.feed_lists(collection, mark), [], "a feed listed again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_hangs_is_left_and_clients_notice_nothing() {
    let world = World::start(211).await;
    let pods = world.collection("pods");
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    let churning = world.churning(Duration::from_millis(10));
    for index in 0..world.fleet.len() {
        let lost = world.fleet.peers.sessions_lost();
        let hanging = world.fleet.hang(index).await;
        world.until("the node is left", || world.fleet.peers.sessions_lost() > lost).await;
        world.settled(&pods).await;
        fresh_list(&world, &pods).await;
        drop(hanging);
        let peers = &world.fleet.peers;
        world.until("the node is back", || peers.sessions_up() == world.fleet.len()).await;
    }
    churning.stop(&world).await;
    let saw = finish(&world, &pods, watchers).await;
    undisturbed(&world, (&pods, mark), &saw);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_replicas_that_hang_are_a_hole_and_what_was_open_goes_on_when_they_wake() {
    let world = World::start(212).await;
    let pods = world.collection("pods");
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    let mut hanging = Vec::new();
    for index in world.fleet.of_shard(1) {
        hanging.push(world.fleet.hang(index).await);
    }
    world.churn(20);
    world.until("the hole is seen", || world.fleet.peers.holes() == [1]).await;
    let refused = world.client.get(&Choice::all(&pods).path("resourceVersion=0")).await;
    assert_eq!(
        (refused.code, refused.headers.contains_key("retry-after")),
        (503, true),
        "{}",
        refused.text()
    );
    drop(hanging);
    world.churn(20);
    world.settled(&pods).await;
    let saw = finish(&world, &pods, watchers).await;
    for saw in &saw {
        assert_eq!((saw.rounds.len(), saw.breaks), (1, 0), "a client had to begin again");
    }
    assert_eq!(world.feed_lists(&pods, mark), [], "a feed listed again");
}

/// A world in which node 0 alone reaches the others through relays, and does not judge whom it follows.
fn relayed(settings: &mut Settings) {
    settings.fleet.relayed = Some(0);
    let long = Duration::from_secs(600);
    settings.fleet.limits = FollowLimits { silent: long, behind: long, ..FollowLimits::default() };
}

/// Makes the proxy follow node 0, and nobody else of its shard.
async fn follow_the_first(world: &World) -> usize {
    let other = world.fleet.of_shard(0)[1];
    world.fleet.kill(other).await;
    let peers = &world.fleet.peers;
    world.until("the other one is lost", || peers.sessions_up() == world.fleet.len() - 1).await;
    other
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_cut_from_its_feed_lags_and_is_left_for_its_replica() {
    let world = World::with(213, relayed).await;
    let pods = world.collection("pods");
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    let other = follow_the_first(&world).await;
    world.churn(20);
    world.settled(&pods).await;
    world.fleet.revive(other).await;
    world.fleet.ready().await;
    let moves = world.mirror(&pods).fanout().moves();
    world.fleet.relays.cut();
    let churning = world.churning(Duration::from_millis(10));
    for _ in 0..5 {
        fresh_list(&world, &pods).await;
    }
    world.until("the node is left", || world.mirror(&pods).fanout().moves() > moves).await;
    for _ in 0..5 {
        fresh_list(&world, &pods).await;
    }
    churning.stop(&world).await;
    world.settled(&pods).await;
    world.fleet.relays.heal();
    let saw = finish(&world, &pods, watchers).await;
    undisturbed(&world, (&pods, mark), &saw);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf08_a_revision_that_the_only_node_has_not_is_waited_for_and_shown_when_it_comes() {
    let world = World::with(214, relayed).await;
    let maps = world.collection("configmaps");
    world.settled(&maps).await;
    follow_the_first(&world).await;
    world.fleet.relays.cut();
    let written = world.create("team-0", "late");
    let choice = Choice::all(&maps);
    let late = choice.path(&format!("resourceVersion={written}&resourceVersionMatch=NotOlderThan"));
    let answer = world.client.get(&late).await;
    let is_late = answer.code == 504 || answer.answered_by().starts_with("passed");
    assert!(is_late, "{} {}", answer.code, answer.answered_by());
    let mut stream = world.client.watch(&choice.path(&format!("watch=1&resourceVersion={written}"))).await;
    fresh_list(&world, &maps).await;
    world.fleet.relays.heal();
    world.settled(&maps).await;
    let next = world.patch("team-0", "late", r#"{"data":{"n":"1"}}"#);
    assert_eq!(stream.change().await.version.rv, next, "what follows, and nothing else");
    let list = world.client.get(&late).await.mirrored();
    assert!(maps.items(&list).0.at() >= written);
}
