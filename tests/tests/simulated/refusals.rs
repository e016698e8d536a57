//! What is refused when the memory limit is reached and nothing is left to give up.

use crate::truth::Choice;
use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_last_lists_are_refused_and_then_watches_and_what_is_open_goes_on() {
    let world = World::start(143).await;
    let maps = world.collection("configmaps");
    let (list, watch) = (Choice::all(&maps).path("resourceVersion=0"), Choice::all(&maps).path("watch=1"));
    let mut open = world.client.watch(&Choice::all(&maps).path("watch=1&resourceVersion=0")).await.mirrored();
    let written = world.create("team-0", "first");
    while open.change().await.version.rv != written {}
    world.check_memory(1, 0);
    let refused = world.client.get(&list).await;
    refused.refused(429, "TooManyRequests");
    assert_eq!(refused.headers["retry-after"], "5");
    drop(world.client.watch(&watch).await.mirrored());
    world.check_memory(1, 0);
    world.client.get(&watch).await.refused(429, "TooManyRequests");
    let get = "/api/v1/namespaces/team-0/configmaps/settings-0?resourceVersion=0";
    world.client.get(get).await.mirrored();
    let written = world.create("team-0", "later");
    while open.change().await.version.rv != written {}
    for _ in 0..2 {
        world.check_memory(usize::MAX, 0);
    }
    world.client.get(&list).await.mirrored();
    drop(world.client.watch(&watch).await.mirrored());
}
