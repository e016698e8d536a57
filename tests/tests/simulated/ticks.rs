//! Ticks: a large collection in which nothing happens is proved fresh by a write of its tick object, few writes serve many, and
//! without the object or the right to write it everything is as without ticks. The collection is too large to be compared, and
//! upstream's bookmarks come too late for a catch-up, so no other proof of it comes in time.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use weir_core::ResourceVersion;
use weir_sim::{Fits, Node, Op, RequestLine, Sim};
use weir_tests::checker::Listing;

use crate::client::{LIMIT, Whole};
use crate::stream::Event;
use crate::truth::{Choice, Collection};
use crate::world::{Settings, World};

const TICK: &str = "mirror; tick";
/// Ticks of one feed are so far apart.
const APART: Duration = Duration::from_millis(200);

/// More config maps than are compared, and ticks of them.
fn large(settings: &mut Settings) {
    settings.shape.config_maps = 1_100;
    settings.ticks_in = Some("team-0");
    settings.before = create_tick;
}

fn create_tick(sim: &Sim) {
    let resource = sim.resource("configmaps").unwrap();
    let body = Node::parse(br#"{"metadata":{"name":"weir-tick"}}"#).unwrap();
    sim.apply(Op::Create { resource, namespace: Some("team-0".to_owned()), body }).unwrap();
}

/// A catch-up gets its bookmark in time.
fn catching_up(settings: &mut Settings) {
    settings.sim.timing.last_bookmark = Duration::from_millis(2_900);
    settings.sim.timing.bookmark_period = Duration::from_millis(100);
}

/// The ticks behind a mark.
fn ticks(world: &World, mark: usize) -> Vec<RequestLine> {
    world.since(mark).into_iter().filter(|line| line.verb == "patch").collect()
}

/// A list that has to be fresh, of a page that is cheap to send.
async fn page(world: &World, maps: &Collection) -> Whole {
    world.client.get(&Choice::all(maps).path("limit=3")).await.fresh()
}

/// Waits until ticks prove something: a proxy hears with other answers of its feed that it can tick.
async fn ticking(world: &World, maps: &Collection) {
    let deadline = Instant::now() + LIMIT;
    loop {
        world.touch_node();
        if page(world, maps).await.answered_by() == TICK {
            return;
        }
        assert!(Instant::now() < deadline, "no tick in time");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs03_a_large_quiet_collection_is_proved_fresh_by_ticks() {
    let world = World::with(91, large).await;
    let maps = world.collection("configmaps");
    let named = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=tier%3Dnone";
    ticking(&world, &maps).await;
    let mark = world.mark();
    let mut by_tick = [0; 3];
    for _ in 0..5 {
        let head = world.touch_node();
        let list = page(&world, &maps).await;
        assert!(maps.items(&list).0.at() >= head);
        by_tick[0] += usize::from(list.answered_by() == TICK);

        let head = world.touch_node();
        let mut stream = world.client.watch(&Choice::all(&maps).path(named)).await;
        let end = stream.initial_lines().await.pop().unwrap();
        assert!(matches!(Event::parse(&end), Event::Bookmark { at, .. } if at >= head));
        by_tick[1] += usize::from(stream.answered_by() == TICK);

        let head = world.touch_node();
        let newer = format!("limit=3&resourceVersion={head}&resourceVersionMatch=NotOlderThan");
        let list = world.client.get(&Choice::all(&maps).path(&newer)).await.mirrored();
        assert!(maps.items(&list).0.at() >= head);
        by_tick[2] += usize::from(list.answered_by() == TICK);
    }
    // A machine without time for it may leave some to upstream.
    println!("by ticks: {by_tick:?}");
    assert!(by_tick.iter().all(|count| *count > 1), "{by_tick:?}");
    let ticks = ticks(&world, mark);
    assert!(!ticks.is_empty() && ticks.len() <= 30, "{ticks:#?}");
    let is_own = |line: &RequestLine| line.user_agent.contains("(feed)") && line.code == 200;
    assert!(ticks.iter().all(is_own), "{ticks:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_that_wait_at_once_cause_few_ticks() {
    let world = World::with(92, large).await;
    let maps = world.collection("configmaps");
    ticking(&world, &maps).await;
    let (mark, began) = (world.mark(), Instant::now());
    let head = world.touch_node();
    let lists = join_all((0..200).map(|_| page(&world, &maps))).await;
    let by_tick = lists.iter().filter(|list| list.answered_by() == TICK).count();
    assert!(lists.iter().all(|list| maps.items(list).0.at() >= head));
    let (ticks, most) = (ticks(&world, mark).len(), began.elapsed().div_duration_f64(APART) + 2.0);
    println!("{ticks} ticks, {by_tick} of 200 proved by them, at most {most} ticks");
    assert!(ticks > 0 && (ticks as f64) < most, "{ticks} ticks, {most}");
    assert!(by_tick > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs01_what_was_acknowledged_is_in_a_list_that_a_tick_proved() {
    let world = World::with(93, large).await;
    let maps = world.collection("configmaps");
    ticking(&world, &maps).await;
    let feed = world.feed_instance(&maps).await;
    // The event of a tick is held back as the others are.
    world.sim.instance(feed).delay(2);
    let churning = world.churning(Duration::from_millis(20));
    let choice = Choice::all(&maps).in_namespace("team-0");
    let mut lists = Vec::new();
    for round in 0..30 {
        let acknowledged = world.create("team-0", &format!("fresh-{round}"));
        let list = world.client.get(&choice.path("")).await.fresh();
        let by_tick = list.answered_by() == TICK;
        let (meta, items) = maps.items(&list);
        let listing = Listing { at: meta.at(), items, not_older_than: acknowledged, ..Listing::default() };
        lists.push((listing, by_tick));
    }
    churning.stop(&world).await;
    let truth = maps.truth(&world.sim);
    for (listing, _) in &lists {
        truth.check_list(&choice, listing);
    }
    println!("{} of 30 by ticks", lists.iter().filter(|(_, by_tick)| *by_tick).count());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_tick_object_a_catch_up_proves_it() {
    let world = World::with(94, |settings| {
        large(settings);
        catching_up(settings);
        settings.before = |_| {};
    })
    .await;
    falls_back(&world, 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_tick_a_catch_up_proves_it() {
    let world = World::with(95, |settings| {
        large(settings);
        catching_up(settings);
    })
    .await;
    for instance in 0..2 {
        let maps = world.sim.resource("configmaps").unwrap();
        world.sim.instance(instance).refuse(Fits::both("patch", maps), u32::MAX, 403);
    }
    falls_back(&world, 403).await;
}

/// Lists are proved by a catch-up, and one tick was tried, with this answer.
async fn falls_back(world: &World, code: u16) {
    let maps = world.collection("configmaps");
    let mut caught_up = 0;
    for _ in 0..8 {
        let head = world.touch_node();
        let list = page(world, &maps).await;
        assert!(maps.items(&list).0.at() >= head);
        assert_ne!(list.answered_by(), TICK);
        caught_up += usize::from(list.answered_by() == "mirror; catch-up");
    }
    assert!(caught_up > 0, "no list was proved fresh");
    let codes: Vec<_> = ticks(world, 0).iter().map(|line| line.code).collect();
    assert_eq!(codes, [code], "it is not tried again within a minute");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_unless_ticks_are_asked_for() {
    let world = World::with(96, |settings| {
        large(settings);
        catching_up(settings);
        settings.ticks_in = None;
    })
    .await;
    let maps = world.collection("configmaps");
    for _ in 0..5 {
        let head: ResourceVersion = world.touch_node();
        assert!(maps.items(&page(&world, &maps).await).0.at() >= head);
    }
    assert!(ticks(&world, 0).is_empty());
}
