//! What a process gives up that has the shards too, and what its clients notice. The limit is looked at when a test says so;
//! that it is looked at every second, and what a shard node gives up, is tested where it is made.

use weir_shard_node::memory::Holder;

use crate::truth::{Choice, Collection};
use crate::world::World;

fn held(world: &World) -> usize {
    world.mirrors.cells().iter().map(|cell| cell.holdings().accounted()).sum()
}

fn is_there(world: &World, collection: &Collection) -> bool {
    world.mirrors.state(collection.gvr()).is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_are_cut_and_what_is_answered_stays_right() {
    let world = World::start(141).await;
    let maps = world.collection("configmaps");
    let mut watch = world
        .client
        .watch(&Choice::all(&maps).path(&format!("watch=1&resourceVersion={}", world.head())))
        .await;
    let below = world.create("team-0", "first");
    world.churn(400);
    world.settled(&maps).await;
    let before = held(&world);
    world.check_memory(before - 1, 400);
    let after = held(&world);
    assert!(after < before && after > before / 2, "some of it goes: {before} to {after}");
    world.check_memory(1, 400);
    let floor = world.mirror(&maps).window().unwrap().floor;
    assert!(floor > below, "windows are short now");
    assert_eq!(watch.change().await.version.rv, below, "an open watch has what it was to get");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_that_nobody_uses_end_at_the_limit() {
    let world = World::with(142, |settings| settings.mirrors = Vec::new()).await;
    let (pods, maps) = (world.collection("pods"), world.collection("configmaps"));
    let path = |collection: &Collection| Choice::all(collection).path("watch=1&resourceVersion=0");
    let mut watch = world.client.watch(&path(&maps)).await.mirrored();
    drop(world.client.watch(&path(&pods)).await.mirrored());
    world.until("nobody watches pods", || world.interests(&pods) == 0).await;
    let whole = held(&world);
    world
        .until("the mirror of pods ends", || {
            world.check_memory(whole - 1, 0);
            !is_there(&world, &pods)
        })
        .await;
    assert!(is_there(&world, &maps), "it is in use");
    let written = world.create("team-0", "later");
    while watch.change().await.version.rv != written {}
}
