//! Mirrors that end: nobody uses them any more, or upstream serves their resource no longer, or as something else.

use std::sync::Arc;
use std::time::Duration;

use weir_proxy::mirror::registry::State;
use weir_sim::{Node, Op, StoreKey};

use crate::stream::Event;
use crate::truth::{Choice, Collection};
use crate::world::World;

/// How long a mirror goes on here that nobody uses.
const IDLE: Duration = Duration::from_millis(400);

/// Starts a mirror, and leaves it alone.
async fn list(world: &World, collection: &Collection) {
    let path = Choice::all(collection).path("watch=1&resourceVersion=0&timeoutSeconds=1");
    world.client.watch(&path).await.mirrored();
    world.mirrored(&Choice::all(collection).path("resourceVersion=0")).await;
}

fn is_there(world: &World, collection: &Collection) -> bool {
    world.mirrors.state(collection.gvr()).is_some()
}

/// Serves gauges or not, at both instances.
fn serve_gauges(world: &World, is_served: bool) {
    let gauges = world.sim.resource("gauges.metering.weir.test").unwrap();
    world.sim.with(|cluster| cluster.set_served(gauges, is_served));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_ends_that_nobody_uses_and_gives_its_memory_back() {
    let world = World::with(131, |settings| (settings.mirrors, settings.idle) = (Vec::new(), IDLE)).await;
    let (pods, maps) = (world.collection("pods"), world.collection("configmaps"));
    let mut watch =
        world.client.watch(&Choice::all(&pods).path("watch=1&resourceVersion=0")).await.mirrored();
    assert!(matches!(watch.next().await, Event::Change(_)));
    let kept = Arc::downgrade(&world.mirror(&pods));
    list(&world, &maps).await;
    let unused = Arc::downgrade(&world.mirror(&maps));
    world.until("the mirror of config maps ends", || !is_there(&world, &maps)).await;
    world.until("nothing is left of it", || unused.upgrade().is_none()).await;
    assert!(is_there(&world, &pods) && kept.upgrade().is_some(), "somebody watches pods");
    drop(watch);
    world.until("the mirror of pods ends", || !is_there(&world, &pods)).await;
    world.until("nothing is left of it", || kept.upgrade().is_none()).await;
    list(&world, &maps).await;
    assert!(is_there(&world, &maps), "who comes later starts another");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mirror_that_is_named_never_ends_for_want_of_users() {
    let world = World::with(132, |settings| settings.idle = IDLE).await;
    let (pods, nodes) = (world.collection("pods"), world.collection("nodes"));
    let before = Arc::downgrade(&world.mirror(&nodes));
    // As long as a mirror that ends takes, again and again.
    let mut ticks = tokio::time::interval(IDLE);
    for _ in 0..4 {
        ticks.tick().await;
        world.client.get(&Choice::all(&pods).path("resourceVersion=0")).await.mirrored();
    }
    assert!(before.upgrade().is_some() && is_there(&world, &nodes));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl01_a_kind_that_is_deleted_ends_its_watches_and_comes_back_anew() {
    let world = World::start(133).await;
    let gauges = world.collection("gauges.metering.weir.test");
    let choice = Choice::all(&gauges);
    let from_now = choice.path(&format!("watch=1&resourceVersion={}", world.head()));
    world.settled(&gauges).await;
    let mut watch = world.client.watch(&from_now).await.mirrored();
    let before = Arc::downgrade(&world.mirror(&gauges));
    serve_gauges(&world, false);
    assert!(matches!(watch.next().await, Event::Error { code: 410, .. }), "its client has to list again");
    assert_eq!(watch.next().await, Event::End);
    drop(watch);
    world.until("the mirror is gone", || before.upgrade().is_none()).await;
    for query in ["resourceVersion=0", "watch=1&resourceVersion=0", ""] {
        let answer = world.client.get(&choice.path(query)).await;
        assert_eq!(answer.code, 404, "{query}: {}", answer.text());
        assert!(answer.answered_by().starts_with("passed; "), "{query}");
    }
    serve_gauges(&world, true);
    world.mirrored(&choice.path("resourceVersion=0")).await;
    world.client.watch(&choice.path("watch=1&resourceVersion=0")).await.mirrored();
    world.settled(&gauges).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl02_a_kind_whose_selectable_fields_change_is_mirrored_anew() {
    let world = World::start(134).await;
    let gauges = world.collection("gauges.metering.weir.test");
    let by_unit = Choice::all(&gauges).path("resourceVersion=0&fieldSelector=spec.unit%3Dms");
    world.client.get(&by_unit).await.mirrored();
    world.settled(&gauges).await;
    let from_now = Choice::all(&gauges).path(&format!("watch=1&resourceVersion={}", world.head()));
    let mut watch = world.client.watch(&from_now).await.mirrored();
    world.sim.with(|cluster| {
        let resource = cluster.resource("customresourcedefinitions.apiextensions.k8s.io").unwrap();
        let patch = r#"{"spec":{"versions":[{"name":"v1","served":true,"selectableFields":[]}]}}"#;
        let key = StoreKey::new(None, "gauges.metering.weir.test");
        cluster.apply(Op::Patch { resource, key, patch: Node::parse(patch.as_bytes()).unwrap() }).unwrap();
    });
    for instance in [0, 1] {
        world.sim.instance(instance).end_streams();
    }
    assert!(
        matches!(watch.next().await, Event::Error { code: 410, .. }),
        "what it was told may be otherwise"
    );
    drop(watch);
    let by_unit = by_unit.as_str();
    world.mirrored(&Choice::all(&gauges).path("resourceVersion=0")).await;
    let answer = world.client.get(by_unit).await;
    assert_eq!(answer.code, 400, "the field is not selectable any more: {}", answer.text());
    let is_anew = matches!(&*world.mirrors.state(gauges.gvr()).unwrap().borrow(), State::Ready(_));
    assert!(is_anew);
}
