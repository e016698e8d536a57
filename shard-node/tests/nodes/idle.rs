//! Mirrors of a node that no session carries: they end after a while, and at the memory limit at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;
use weir_core::{GroupVersionResource, SlotSet};
use weir_shard_node::memory::{Admission, Keeper, MemoryMetrics};
use weir_shard_node::node::SessionId;
use weir_shard_node::node::cell::Wake;

use crate::world::{LIMIT, Plan, World, pods, until};

fn nodes() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "nodes")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_ends_when_no_session_carries_it_and_leaves_its_feed() {
    let world = World::start(41).await;
    let port = World::ports(1).remove(0);
    let idle = Duration::from_millis(300);
    let plan = Plan { idle, ..World::plan(SlotSet::ALL, &[]) };
    let node = world.node(port, plan).await;
    let carried = node.host.attach(&pods()).await.unwrap();
    let session = SessionId(1);
    carried.cell.attach(session, Wake::from(Arc::new(Notify::new())));
    let unused = node.host.attach(&nodes()).await.unwrap();
    let number = unused.number;
    let cell = Arc::downgrade(&unused.cell);
    drop(unused);
    until("the mirror that nobody carries ends", || node.host.hosted(&nodes()).is_none()).await;
    until("nothing is left of it", || cell.upgrade().is_none()).await;
    assert_eq!(node.host.hosted(&pods()).map(|hosted| hosted.number), Some(carried.number));
    carried.cell.detach(session);
    until("the other ends when it is left", || node.host.hosted(&pods()).is_none()).await;
    let again = node.host.attach(&nodes()).await.unwrap();
    assert_ne!(again.number, number, "a number names one mirror only");
    let feed = node.host.feeds().running(&pods());
    until("nobody subscribes to its feed", || {
        feed.as_ref().is_none_or(|feed| feed.handle.subscribers() == 0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_a_mirror_that_is_ended_meanwhile_gets_the_next() {
    let world = World::start(42).await;
    for instance in [0, 1] {
        world.sim.instance(instance).freeze();
    }
    let node = world.node(World::ports(1).remove(0), World::plan(SlotSet::ALL, &[])).await;
    let resource = pods();
    let ended = async {
        until("the mirror begins", || node.host.is_begun(&resource)).await;
        node.host.end(&resource);
        for instance in [0, 1] {
            world.sim.instance(instance).thaw();
        }
    };
    let (attached, ()) = tokio::join!(timeout(LIMIT, node.host.attach(&resource)), ended);
    assert_eq!(attached.expect("it does not wait for what has ended").unwrap().number.get(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_memory_limit_what_no_session_carries_goes_first() {
    let world = World::start(43).await;
    let node = world.node(World::ports(1).remove(0), World::plan(SlotSet::ALL, &[])).await;
    let carried = node.host.attach(&pods()).await.unwrap();
    carried.cell.attach(SessionId(1), Wake::from(Arc::new(Notify::new())));
    let unused = node.host.attach(&nodes()).await.unwrap();
    until("both have content", || carried.cell.window().is_some() && unused.cell.window().is_some()).await;
    let held = carried.cell.holdings().accounted() + unused.cell.holdings().accounted();
    let check = |limit: usize| {
        let holder = (node.host.clone(), node.host.started());
        Keeper::new(limit, holder, Admission::default(), MemoryMetrics::default()).check();
    };
    check(held);
    assert!(node.host.hosted(&nodes()).is_some(), "nothing is too much");
    check(held - 1);
    assert!(node.host.hosted(&nodes()).is_none() && node.host.hosted(&pods()).is_some());
    check(1);
    assert!(node.host.hosted(&pods()).is_some(), "what a session carries stays");
    assert!(carried.cell.holdings().live_objects > 0);
}
