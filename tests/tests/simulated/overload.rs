//! More than a few clients need: bursts of writes, many large states at once, and clients that ask without end. Whoever keeps
//! to the rules notices nothing of it, and upstream little.
//!
//! What the machine has time for is not judged. Counts are: of streams that lived on, of requests that reached upstream.

use futures_util::future::join_all;
use tokio::time::timeout;
use weir_core::message::EventKind;
use weir_proxy::http::clients::Allowance;
use weir_sim::{Right, User};
use weir_tests::checker::{Listing, Watch};

use crate::client::{Client, LIMIT, Whole, header};
use crate::stream::{Event, Watching};
use crate::truth::{Choice, Collection};
use crate::watcher::{Resumes, Start, Watcher};
use crate::world::{Settings, World};

const WATCH_LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0\
                          &allowWatchBookmarks=true";

/// Changes so many config maps, one after the other, as fast as upstream takes it, and goes round when there are no more.
async fn burst(world: &World, settings: (usize, usize), updates: std::ops::Range<usize>) {
    let (namespaces, maps) = settings;
    for update in updates {
        let (namespace, name) =
            (format!("team-{}", update % maps % namespaces), format!("settings-{}", update % maps));
        world.patch(&namespace, &name, &format!(r#"{{"data":{{"update":"{update}"}}}}"#));
        if update % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov02_a_burst_of_updates_ends_no_watch_and_makes_nobody_list() {
    let (namespaces, objects) = (48, 8_000);
    let world = World::with(151, |settings| {
        (settings.shape.namespaces, settings.shape.config_maps) = (namespaces, objects);
        // The simulation is not what is tested: it keeps the whole burst.
        settings.sim.cluster.watch_history = 20_000;
    })
    .await;
    let maps = world.collection("configmaps");
    let mut watchers = Vec::new();
    for number in 0..60 {
        let choice = match number {
            0..3 => Choice::all(&maps),
            number => Choice::all(&maps).in_namespace(&format!("team-{}", number % namespaces)),
        };
        let start = if number % 2 == 0 { Start::List } else { Start::Stream };
        watchers.push(Watcher::start(&world, choice, (start, Resumes::WhenEnded), number as u64).await);
    }
    let mark = world.mark();
    burst(&world, (namespaces, objects), 0..10_000).await;
    let head = world.head();
    world
        .until("everything arrives", || watchers[..3].iter().all(|watcher| watcher.position() >= head))
        .await;
    let cut = watchers.iter().filter(|watcher| watcher.saw().resumes > 0).count();
    assert_eq!(cut, 0, "streams were cut");
    // Now all of them are, in the middle of another one.
    let half = 10_500;
    burst(&world, (namespaces, objects), 10_000..half).await;
    world.client.vanish();
    burst(&world, (namespaces, objects), half..11_000).await;
    let truth = maps.truth(&world.sim);
    for watcher in watchers {
        let saw = watcher.finish(&world, &truth).await;
        assert_eq!(saw.rounds.len(), 1, "who was cut goes on where it was");
    }
    assert_eq!(world.feed_lists(&maps, mark), [], "a feed listed again");
    world.answered_by_weir(mark);
}

/// Reads the initial state of a WatchList.
async fn state(stream: &mut Watching) -> Listing {
    let mut listing = Listing::default();
    loop {
        match stream.next().await {
            Event::Change(seen) => {
                assert_eq!(seen.kind, EventKind::Added, "an initial event");
                listing.items.push(seen.version);
            }
            Event::Bookmark { at, marks_end: true } => {
                listing.at = at;
                return listing;
            }
            other => panic!("{other:?} among the initial events"),
        }
    }
}

/// Writes, waits for the mirror and asks for what was written, so many times; how often the mirror gave the answer.
async fn write_and_list(world: &World, maps: &Collection, rounds: std::ops::Range<usize>) -> usize {
    let choice = Choice::all(maps).in_namespace("team-0");
    let (mirror, mut mirrored) = (world.mirror(maps), 0);
    for round in rounds {
        burst(world, (30, 3_000), 25 * round..25 * (round + 1)).await;
        let written = world.patch("team-0", "settings-0", &format!(r#"{{"data":{{"round":"{round}"}}}}"#));
        timeout(LIMIT / 2, mirror.reached(written)).await.expect("the mirror keeps up");
        let list = world.client.get(&choice.path("")).await.fresh();
        assert!(maps.items(&list).0.at() >= written);
        mirrored += usize::from(list.is_mirrored());
    }
    mirrored
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov12_many_states_of_a_large_collection_hold_up_neither_writes_nor_fresh_lists() {
    let world = World::with(152, |settings| {
        (settings.shape.namespaces, settings.shape.config_maps) = (30, 3_000);
    })
    .await;
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps);
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(world.client.narrow().watch(&choice.path(WATCH_LIST)).await.mirrored());
    }
    let mark = world.mark();
    // None of them is read: each has its state half sent.
    let rounds = 20;
    let mirrored = write_and_list(&world, &maps, 0..rounds).await;
    println!("{mirrored} of {rounds} fresh lists from the mirror");
    assert!(mirrored >= rounds - 2, "the others fell through to upstream");
    // All are, at once.
    let (states, _) = tokio::join!(
        join_all(streams.iter_mut().map(state)),
        write_and_list(&world, &maps, rounds..rounds + 10)
    );
    let truth = maps.truth(&world.sim);
    let goal = truth.now().last();
    for (listing, mut stream) in states.into_iter().zip(streams) {
        truth.check_list(&choice, &listing);
        let mut watch = Watch { complete_to: goal, ..Watch::starting_at(listing.at) };
        while watch.position() < goal {
            let event = stream.next().await;
            watch.items.push(event.item().unwrap_or_else(|| panic!("{event:?}")));
        }
        truth.check_watch(&choice, &watch);
    }
    assert_eq!(world.feed_lists(&maps, mark), [], "a feed listed again");
}

/// Somebody of this name, who may read config maps.
fn reader(settings: &mut Settings, name: &str) {
    let right = Right::new(&["get", "list", "watch"], "", &["configmaps"]);
    settings.sim.users.push((format!("{name}-token"), User::named(name).may(right)));
}

/// Its client, which says what it is.
fn client_of(world: &World, name: &str) -> Client {
    let agent = format!("{name}-controller/v1.2 (linux/amd64)");
    world.client.alone().with_token(&format!("{name}-token")).with_header("user-agent", &agent)
}

/// Whether this was a refusal for what the client had cost before.
fn is_limited(answer: &Whole) -> bool {
    if answer.code != 429 {
        return false;
    }
    answer.refused(429, "TooManyRequests");
    assert!(answer.text().contains("this client has"), "{}", answer.text());
    assert!(header(&answer.headers, "retry-after").parse::<u32>().unwrap() >= 1);
    true
}

/// Asks so often, without a pause; how often it was refused for what it had cost. Nothing of such a request reaches upstream.
async fn insist(world: &World, (name, path): (&str, &str), times: usize) -> usize {
    let client = client_of(world, name);
    let mut limited = 0;
    for _ in 0..times {
        let mark = world.mark();
        let answer = client.get(path).await;
        if is_limited(&answer) {
            limited += 1;
            let asked = world.since(mark).into_iter().filter(|line| line.user == name);
            assert_eq!(asked.collect::<Vec<_>>(), [], "upstream was asked for a request that is refused");
        }
    }
    limited
}

/// How often operators see a client refused.
fn counted(world: &World, name: &str, limit: &str) -> usize {
    let mut registry = prometheus_client::registry::Registry::default();
    world.clients.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let series = format!(r#"client_limited_total{{client="{name}-controller/v1.2",limit="{limit}"}} "#);
    let line = text.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("{series} in {text}")).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov09_a_client_that_watches_an_expired_revision_in_a_loop_is_refused_before_upstream_is_asked() {
    let world = World::with(153, |settings| {
        settings.keep_little();
        settings.sim.cluster.watch_history = 5;
        settings.limits.refusals = Allowance { a_second: 1, at_once: 40 };
        reader(settings, "broken");
        reader(settings, "other");
    })
    .await;
    let maps = world.collection("configmaps");
    let expired = world.create("team-0", "first");
    world.churn(200);
    world.settled(&maps).await;
    let healthy = Watcher::start(&world, Choice::all(&maps), (Start::Stream, Resumes::WhenEnded), 1).await;
    let path = Choice::all(&maps).path(&format!("watch=1&resourceVersion={expired}"));
    let told = client_of(&world, "other").get(&path).await;
    assert!(told.text().contains(r#""reason":"Expired""#), "{}", told.text());
    let limited = insist(&world, ("broken", &path), 120).await;
    println!("{limited} of 120 refused at once");
    assert!((1..=80).contains(&limited), "forty are told what is wrong");
    assert_eq!(counted(&world, "broken", "refusals"), limited);
    // It is let in again by and by, and what it may have costs it nothing.
    let (broken, list) = (client_of(&world, "broken"), Choice::all(&maps).path("resourceVersion=0"));
    let let_in = async { while is_limited(&broken.get(&list).await) {} };
    timeout(LIMIT, let_in).await.expect("a place within a second or so");
    for _ in 0..10 {
        broken.get(&list).await.mirrored();
    }
    client_of(&world, "other").get(&list).await.mirrored();
    world.create("team-0", "last");
    let saw = healthy.finish(&world, &maps.truth(&world.sim)).await;
    assert_eq!((saw.rounds.len(), saw.breaks, saw.refusals), (1, 0, 0), "nobody else notices");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov09_a_client_that_lists_everything_in_a_loop_is_refused_before_upstream_is_asked() {
    let world = World::with(154, |settings| {
        settings.shape.config_maps = 500;
        settings.limits.list_bytes = Allowance { a_second: 1, at_once: 2 << 20 };
        settings.limits.large = 64 << 10;
        reader(settings, "greedy");
        reader(settings, "other");
    })
    .await;
    let maps = world.collection("configmaps");
    let path = Choice::all(&maps).path("resourceVersion=0");
    let size = client_of(&world, "other").get(&path).await.mirrored().body.len();
    assert!(size > 64 << 10);
    // One may be billed a moment after its client has read it.
    let borne = (2 << 20) / size + 1;
    let limited = insist(&world, ("greedy", &path), borne + 30).await;
    assert!((29..=30).contains(&limited), "{limited} refused of {borne} + 30");
    assert_eq!(counted(&world, "greedy", "lists"), limited);
    let greedy = client_of(&world, "greedy");
    let page = greedy.get(&Choice::all(&maps).path("limit=5")).await;
    assert_eq!(page.code, 200, "pages are free: {}", page.text());
    let named = Choice::all(&maps).named("settings-0");
    greedy.watch(&named.path("watch=1&resourceVersion=0")).await.mirrored();
    client_of(&world, "other").get(&path).await.mirrored();
}
