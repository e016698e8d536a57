//! A mirror whose feed is held up while upstream is well: what needs to be fresh is asked of upstream for few at once, and no
//! watch is left there.

use futures_util::future::join_all;
use weir_core::ResourceVersion;
use weir_sim::RequestLine;
use weir_tests::checker::Version;

use crate::client::{Client, header};
use crate::stream::{Event, Watching};
use crate::truth::{Choice, Collection};
use crate::world::World;

/// As client-go asks for the state before a watch.
const WATCH_LIST: &str =
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// Config maps that are more than one page, and three namespaces of them that are less.
async fn large(seed: u64) -> (World, Collection) {
    let world = World::with(seed, |settings| settings.shape.config_maps = 1_500).await;
    let maps = world.collection("configmaps");
    world.settled(&maps).await;
    (world, maps)
}

/// Lets no watch of the collection say anything at upstream.
fn mute(world: &World, maps: &Collection) {
    let resource = world.sim.resource(&maps.gvr().resource).unwrap();
    for instance in [0, 1] {
        world.sim.instance(instance).mute(resource);
    }
}

fn unmute(world: &World, maps: &Collection) {
    let resource = world.sim.resource(&maps.gvr().resource).unwrap();
    for instance in [0, 1] {
        world.sim.instance(instance).unmute(resource);
    }
}

/// The client, so that its requests can be told from weir's and from those of others.
fn reader(world: &World) -> Client {
    world.client.with_header("user-agent", "reader")
}

/// What upstream was asked in the client's name behind a mark.
fn of_reader(world: &World, mark: usize) -> Vec<RequestLine> {
    world.since(mark).into_iter().filter(|line| line.user_agent == "reader").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov04_lists_that_cannot_be_proved_fresh_reach_upstream_one_large_one_at_a_time() {
    let (world, maps) = large(121).await;
    let (mark, client, path) = (world.mark(), reader(&world), Choice::all(&maps).path(""));
    mute(&world, &maps);
    let written = world.patch("team-0", "settings-0", r#"{"data":{"n":"behind"}}"#);
    // Nobody reads its body, so it goes on.
    let first = client.narrow().open(&path).await;
    assert_eq!((first.code, header(&first.headers, "weir-answered-by")), (200, "passed; freshness"));
    let others = join_all((0..40).map(|_| client.get(&path))).await;
    for other in &others {
        other.refused(429, "TooManyRequests");
        assert!(other.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() >= 1);
    }
    assert_eq!(of_reader(&world, mark).len(), 1, "one for all");
    // What is small has its own places.
    let small = client.get(&Choice::all(&maps).in_namespace("team-0").path("")).await;
    assert_eq!((small.code, small.answered_by()), (200, "passed; freshness"));
    assert!(maps.items(&small).0.at() >= written);
    let page = client.get(&Choice::all(&maps).path("limit=10")).await;
    assert_eq!((page.code, page.answered_by()), (200, "passed; freshness"));
    // What may be old is the mirror's as ever.
    client.get(&Choice::all(&maps).path("resourceVersion=0")).await.mirrored();
    unmute(&world, &maps);
    drop(first);
    world.settled(&maps).await;
    let list = world.mirrored(&path).await;
    assert!(maps.items(&list).0.at() >= written);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov04_lists_without_a_place_get_what_comes_meanwhile() {
    let (world, maps) = large(122).await;
    let path = Choice::all(&maps).path("");
    mute(&world, &maps);
    let written = world.patch("team-0", "settings-0", r#"{"data":{"n":"behind"}}"#);
    let first = world.client.narrow().open(&path).await;
    assert_eq!(header(&first.headers, "weir-answered-by"), "passed; freshness");
    let mark = world.mark();
    let proofs = || world.since(mark).iter().filter(|line| line.uri.contains("fieldSelector")).count();
    let client = reader(&world);
    let come = async {
        // By then the first time is over, and the place was looked for.
        world.until("a second question", || proofs() >= 3).await;
        unmute(&world, &maps);
    };
    let (list, ()) = tokio::join!(client.get(&path), come);
    assert!(maps.items(&list.mirrored()).0.at() >= written);
    assert_eq!(of_reader(&world, mark).len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov04_watch_lists_that_cannot_be_proved_fresh_show_upstreams_state_and_go_on_here() {
    let (world, maps) = large(123).await;
    let (mark, client) = (world.mark(), reader(&world));
    mute(&world, &maps);
    let written = world.patch("team-0", "settings-0", r#"{"data":{"n":"behind"}}"#);
    let gone = world.delete("team-0", "settings-3");
    for choice in [
        Choice::all(&maps),
        Choice::all(&maps).in_namespace("team-0"),
        Choice::all(&maps).in_namespace("team-0").named("settings-0"),
        Choice::all(&maps).tier("front"),
    ] {
        let path = choice.path(WATCH_LIST);
        let mut stream = client.watch(&path).await;
        assert_eq!(stream.answered_by(), "mirror; list", "{path}");
        let at = shows(&world, &choice, &mut stream).await;
        assert!(at >= written && at >= gone);
    }
    let upstream = of_reader(&world, mark);
    assert!(upstream.iter().all(|line| line.verb == "list"), "a watch is at upstream: {upstream:#?}");
    // It goes on behind what it was shown, as soon as the mirror comes there.
    let choice = Choice::all(&maps).in_namespace("team-0");
    let mut stream = client.watch(&choice.path(WATCH_LIST)).await;
    let at = shows(&world, &choice, &mut stream).await;
    let next = world.patch("team-0", "settings-0", r#"{"data":{"n":"next"}}"#);
    assert!(at < next);
    unmute(&world, &maps);
    loop {
        match stream.next().await {
            Event::Change(seen) => {
                assert_eq!(seen.version.rv, next, "neither what was shown nor anything else comes");
                break;
            }
            Event::Bookmark { at: position, .. } => assert!(position >= at && position < next),
            other => panic!("{other:?}"),
        }
    }
}

/// Reads the initial events, which must be what upstream holds; their revision.
async fn shows(world: &World, choice: &Choice, stream: &mut Watching) -> ResourceVersion {
    let lines = stream.initial_lines().await;
    let (last, shown) = lines.split_last().expect("an end mark");
    let Event::Bookmark { at, .. } = Event::parse(last) else { panic!("no end mark") };
    let exact = choice.path(&format!("resourceVersion={at}&resourceVersionMatch=Exact"));
    let (_, held) = choice.collection.items(&world.upstream(0).get(&exact).await);
    // The bytes of an event and of an item of a list differ.
    let names = |version: Version| (version.key, version.uid, version.rv);
    let seen = shown.iter().map(|line| match Event::parse(line) {
        Event::Change(seen) => names(seen.version),
        other => panic!("{other:?}"),
    });
    assert_eq!(seen.collect::<Vec<_>>(), held.into_iter().map(names).collect::<Vec<_>>());
    at
}
