//! Nodes that see different ones: no answer depends on whom a node takes for the feed.

use crate::faults::{finish, watchers};
use crate::truth::Choice;
use crate::world::World;

/// Nobody sees itself: of two nodes each takes the other one for the feed.
fn each_other(index: usize) -> Vec<usize> {
    vec![index ^ 1]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ds01_nodes_that_take_each_other_for_the_feed_read_upstream_and_ask_no_further() {
    let world = World::with(221, |settings| settings.fleet.views = Some(each_other)).await;
    let pods = world.collection("pods");
    assert_eq!(world.feed_lists(&pods, 0).len(), world.fleet.len(), "each is the feed of another one");
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    for _ in 0..5 {
        world.churn(30);
        world.settled(&pods).await;
        world.client.get(&Choice::all(&pods).path("resourceVersion=0")).await.mirrored();
    }
    let saw = finish(&world, &pods, watchers).await;
    for saw in &saw {
        assert_eq!((saw.rounds.len(), saw.breaks, saw.refusals), (1, 0, 0), "a client had to begin again");
    }
    assert_eq!(world.feed_lists(&pods, mark), [], "a feed listed again");
}
