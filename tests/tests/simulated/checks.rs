//! Self-checks: what upstream's watches have kept from weir, or changed without an event, is found by comparing with its
//! lists, counted, and repaired by beginning anew.

use std::time::Duration;

use tokio::time::Instant;
use weir_core::ResourceVersion;
use weir_sim::{Node, Op};

use crate::client::{LIMIT, Whole};
use crate::stream::{Event, Watching};
use crate::truth::{Choice, Collection};
use crate::world::World;

/// A world in which watches say soon how far they are, and mirrors are compared so often.
async fn start(seed: u64, check_every: Duration) -> World {
    let world = World::with(seed, |settings| {
        settings.sim.timing.last_bookmark = Duration::from_millis(2_900);
        settings.sim.timing.bookmark_period = Duration::from_millis(100);
        settings.check_every = check_every;
    });
    world.await
}

/// A number that an operator sees of a resource.
fn count(world: &World, name: &str, resource: &str) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    world.mirrors.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let start = format!(r#"{name}_total{{resource="{resource}"}} "#);
    text.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |count| count.parse().unwrap())
}

fn failures(world: &World, resource: &str) -> u64 {
    count(world, "self_check_failures", resource)
}

/// Has the next event of config maps be lost on its way, and makes one, and one of another kind.
async fn lose(world: &World, maps: &Collection) -> ResourceVersion {
    world.sim.instance(world.feed_instance(maps).await).lose_next(maps.id);
    let lost = world.create("team-0", "lost");
    world.touch_node();
    lost
}

/// The mirror was built anew: who watched has to list, and finds what upstream has.
async fn repaired(world: &World, collection: &Collection, watched: Watching) -> Whole {
    let events = watched.rest().await;
    assert!(events[events.len() - 2].is_expired(), "{:?}", events.last());
    let all = Choice::all(collection);
    let list = world.mirrored(&all.path("resourceVersion=0")).await;
    let at = collection.items(&list).0.at();
    let exact = all.path(&format!("resourceVersion={at}&resourceVersionMatch=Exact"));
    assert_eq!(list.text(), world.upstream(0).get(&exact).await.text());
    list
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_event_that_a_list_meets_is_found_and_the_mirror_begins_anew() {
    let world = start(95, Duration::from_secs(3_600)).await;
    let maps = world.collection("configmaps");
    let all = Choice::all(&maps);
    let watched = world.client.watch(&all.path("watch=1&resourceVersion=0")).await.mirrored();
    let lost = lose(&world, &maps).await;
    let mark = world.mark();
    let deadline = Instant::now() + LIMIT;
    while failures(&world, "configmaps") == 0 {
        assert!(Instant::now() < deadline, "not found in time");
        // A mirror that has come to upstream's newest revision already has nothing to compare.
        world.touch_node();
        world.client.get(&all.path("")).await.fresh();
    }
    assert!(repaired(&world, &maps, watched).await.text().contains(r#""name":"lost""#));
    assert_eq!(world.feed_lists(&maps, mark).len(), 1);
    // A client that has missed the event has a position behind it, and must not go on from there.
    let resumed = world.client.watch(&all.path(&format!("watch=1&resourceVersion={lost}"))).await;
    assert!(matches!(&resumed.rest().await[..], [error, Event::End] if error.is_expired()));
    let mut stream = world.client.watch(&all.path("watch=1&resourceVersion=0")).await.mirrored();
    let next = world.create("team-0", "next");
    while stream.change().await.version.rv != next {}
    assert_eq!(failures(&world, "configmaps"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_event_is_found_without_a_client_that_meets_it() {
    let world = start(96, Duration::from_millis(200)).await;
    let maps = world.collection("configmaps");
    let watched = world.client.watch(&Choice::all(&maps).path("watch=1&resourceVersion=0")).await.mirrored();
    lose(&world, &maps).await;
    world.until("the loss is found", || failures(&world, "configmaps") == 1).await;
    assert!(repaired(&world, &maps, watched).await.text().contains(r#""name":"lost""#));
    for other in ["pods", "nodes"] {
        let path = Choice::all(&world.collection(other)).path("watch=1&resourceVersion=0&timeoutSeconds=1");
        let events = world.client.watch(&path).await.mirrored().rest().await;
        assert_eq!(events.last(), Some(&Event::End), "{other}: nothing of it was lost");
        assert_eq!(failures(&world, other), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_that_came_without_an_event_is_found_by_its_bytes() {
    let world = start(97, Duration::from_millis(200)).await;
    let gauges = world.collection("gauges.metering.weir.test");
    let all = Choice::all(&gauges);
    let list = world.client.get(&all.path("resourceVersion=0")).await.mirrored();
    let (_, items) = gauges.items(&list);
    let key = &items[0].key;
    let key = weir_sim::StoreKey::new(Some(key.namespace()), key.name());
    let patch = Node::parse(br#"{"metadata":{"labels":{"newest":"of-all"}}}"#).unwrap();
    world.sim.apply(Op::Patch { resource: gauges.id, key, patch }).unwrap();
    let watched = world.client.watch(&all.path("watch=1&resourceVersion=0")).await.mirrored();
    // A feed that has come to upstream's newest revision goes on from there, and is told nothing of the default.
    world.settled(&gauges).await;
    let mark = world.mark();
    world.sim.add_default(gauges.id, &["spec", "colour"], Node::from("green"));
    world.until("the default is found", || failures(&world, "gauges.metering.weir.test") == 1).await;
    assert_eq!(world.feed_lists(&gauges, mark), [], "no 410 has told of it");
    let list = repaired(&world, &gauges, watched).await;
    assert!(list.text().matches(r#""colour":"green""#).count() >= items.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mirrors_that_are_right_pass_their_checks_whatever_goes_on() {
    let world = start(98, Duration::from_millis(50)).await;
    let churning = world.churning(Duration::from_millis(2));
    let kinds = ["pods", "configmaps", "gauges.metering.weir.test"];
    for instance in [0, 1] {
        world.sim.instance(instance).restart();
        world.sim.instance(instance).delay(5);
        let before = kinds.map(|kind| count(&world, "self_checks", kind));
        let are_checked = || {
            let checks = kinds.map(|kind| count(&world, "self_checks", kind));
            checks.iter().zip(before).all(|(checks, before)| *checks >= before + 5)
        };
        world.until("checks", are_checked).await;
    }
    churning.stop(&world).await;
    assert_eq!(kinds.map(|kind| failures(&world, kind)), [0; 3]);
}
