//! Reads that must be fresh: what upstream acknowledged before the request is in the answer, whoever gives it.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weir_core::ResourceVersion;
use weir_sim::RequestLine;
use weir_tests::checker::Listing;

use crate::stream::Event;
use crate::truth::Choice;
use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs01_what_was_acknowledged_is_in_the_next_list() {
    let world = World::with(81, |settings| settings.shape.pods = 10).await;
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps).in_namespace("team-0");
    let churning = world.churning(Duration::from_millis(2));
    let feed = world.feed_instance(&maps).await;
    world.sim.instance(feed).delay(3);
    // The other instance acknowledges a write before the feed's has it.
    let writer = world.upstream(1 - feed);
    let mut lists = Vec::new();
    let (mut mirrored, rounds) = (0, 200);
    for round in 0..rounds {
        let body = format!(r#"{{"data":{{"round":"{round}"}}}}"#);
        let writer = writer.with_header("content-type", "application/merge-patch+json");
        let path = "/api/v1/namespaces/team-0/configmaps/settings-0";
        let written = writer.send("PATCH", path, Bytes::from(body)).await.whole().await;
        if written.code == 404 {
            // The churn has removed it for a while.
            continue;
        }
        let acknowledged: ResourceVersion =
            written.json()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let list = world.client.get(&choice.path("")).await;
        assert_eq!(list.code, 200, "{}", list.text());
        mirrored += usize::from(list.is_mirrored());
        let (meta, items) = maps.items(&list);
        lists.push(Listing { at: meta.at(), items, not_older_than: acknowledged, ..Listing::default() });
    }
    churning.stop(&world).await;
    let truth = maps.truth(&world.sim);
    for listing in &lists {
        truth.check_list(&choice, listing);
    }
    println!("{mirrored} of {} from the mirror", lists.len());
    assert!(lists.len() > 20 && mirrored > lists.len() / 4, "{mirrored} of {}", lists.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs03_a_quiet_collection_is_proved_fresh_while_others_go_on() {
    let world = World::with(82, |settings| {
        settings.sim.timing.last_bookmark = Duration::from_millis(2_900);
        settings.sim.timing.bookmark_period = Duration::from_millis(100);
    })
    .await;
    let maps = world.collection("configmaps");
    let mut mirrored = 0;
    for _ in 0..5 {
        let head = world.touch_node();
        let list = world.client.get(&Choice::all(&maps).path("")).await.fresh();
        assert!(maps.items(&list).0.at() >= head);
        mirrored += usize::from(list.is_mirrored());
    }
    assert!(mirrored > 0, "no list was proved fresh");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_name_what_proved_them_and_are_counted_by_it() {
    let world = World::start(86).await;
    let maps = world.collection("configmaps");
    let named = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let all = Choice::all(&maps);
    for (query, word) in [("resourceVersion=0", "mirror"), ("watch=1&resourceVersion=0", "mirror")] {
        let stream = world.client.watch(&all.path(query)).await;
        assert_eq!(stream.answered_by(), word, "{query}");
    }
    assert_eq!(proofs(&world), 0, "nothing needed one");
    // A machine without time for it may leave some to upstream.
    for round in 0..10 {
        world.touch_node();
        let list = world.client.get(&all.path("")).await.fresh();
        assert!(is_named(list.answered_by()), "{}", list.answered_by());
        let stream = world.client.watch(&all.path(named)).await;
        assert!(is_named(stream.answered_by()), "{}", stream.answered_by());
        assert_eq!(proofs(&world), 2 * (round + 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_quiet_collection_is_upstreams_or_proved_after_a_second_as_configured() {
    for (seed, objects, limit, by) in [
        (87, 1_001, Duration::from_millis(200), "passed; freshness"),
        (88, 1_001, Duration::from_secs(3), "mirror; catch-up"),
        (91, 1_000, Duration::from_secs(3), "mirror; comparison"),
    ] {
        let world = World::with(seed, |settings| {
            settings.shape.config_maps = objects;
            settings.proof_limit = limit;
        })
        .await;
        let maps = world.collection("configmaps");
        world.settled(&maps).await;
        let head = world.touch_node();
        let list = world.client.get(&Choice::all(&maps).path("")).await;
        assert_eq!((list.code, list.answered_by()), (200, by), "{objects} {limit:?}");
        assert!(maps.items(&list).0.at() >= head);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_one_namespace_who_come_after_each_other_share_what_upstream_is_asked() {
    let world = World::start(89).await;
    let maps = world.collection("configmaps");
    world.settled(&maps).await;
    let named = Choice::all(&maps).in_namespace("team-0").named("settings-0");
    let path = named
        .path("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let (mark, began) = (world.mark(), Instant::now());
    for _ in 0..10 {
        let head = world.touch_node();
        let callers = (0..20).map(|_| world.client.watch(&path));
        for mut stream in futures_util::future::join_all(callers).await {
            let lines = stream.initial_lines().await;
            let Event::Bookmark { at, .. } = Event::parse(lines.last().unwrap()) else { panic!("no end") };
            assert!(stream.is_mirrored() && at >= head);
        }
    }
    let asked = world.since(mark);
    let lists = asked.iter().filter(|line| line.uri.contains("/team-0/") && line.verb == "list").count();
    let most = 11.0 + began.elapsed().as_secs_f64() * 10.0;
    assert!(lists as f64 <= most, "{lists} lists for 200 callers, {most} at most");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_come_while_a_second_watch_is_open_neither_end_it_nor_wait_in_vain() {
    let world = World::with(90, |settings| {
        settings.shape.config_maps = 1_100;
        settings.proof_limit = Duration::from_secs(3);
    })
    .await;
    let maps = world.collection("configmaps");
    world.settled(&maps).await;
    let (mark, path, began) = (world.mark(), Choice::all(&maps).path("limit=1"), Instant::now());
    let callers = (0..50).map(async |number| {
        tokio::time::sleep_until(began + number * Duration::from_millis(50)).await;
        let head = world.touch_node();
        let list = world.client.get(&path).await;
        assert_eq!((list.code, list.is_mirrored()), (200, true), "{number}: {}", list.answered_by());
        assert!(maps.items(&list).0.at() >= head);
    });
    futures_util::future::join_all(callers).await;
    let is_second = |line: &&RequestLine| line.verb == "watch" && line.uri.ends_with("timeoutSeconds=3");
    let watches = world.since(mark).iter().filter(is_second).count();
    assert!((1..=10).contains(&watches), "{watches} second watches for 50 callers in 3 s");
}

/// Whether the header says what proved an answer, or that there was no proof.
fn is_named(answered_by: &str) -> bool {
    ["mirror; revision", "mirror; comparison", "mirror; catch-up", "passed; freshness"].contains(&answered_by)
}

/// How many proofs were wanted of the mirror of config maps, as an operator sees it.
fn proofs(world: &World) -> usize {
    let mut registry = prometheus_client::registry::Registry::default();
    world.mirrors.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let counts = text.lines().filter(|line| line.starts_with(r#"proofs_total{resource="configmaps""#));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bw03_a_watch_list_that_must_be_fresh_shows_what_was_acknowledged() {
    let world = World::start(83).await;
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps).in_namespace("team-1");
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for round in 0..30 {
        let name = format!("fresh-{round}");
        let written = world.create("team-1", &name);
        let mut stream = world.client.watch(&choice.path(query)).await;
        let lines = stream.initial_lines().await;
        let names = |line: &&Bytes| matches!(Event::parse(line), Event::Change(seen) if seen.version.key.name() == name);
        assert_eq!(lines.iter().filter(names).count(), 1, "{name}");
        let Event::Bookmark { at, .. } = Event::parse(lines.last().unwrap()) else { panic!("no end") };
        assert!(at >= written);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs08_gets_are_never_older_than_what_was_acknowledged() {
    let world = World::start(84).await;
    let maps = world.collection("configmaps");
    let path = "/api/v1/namespaces/team-0/configmaps/a";
    let missing = world.client.get(&format!("{path}?resourceVersion=0")).await;
    assert_eq!((missing.code, missing.answered_by()), (404, "passed; not found here"));
    for round in 0..30 {
        let written = if round == 0 {
            world.create("team-0", "a")
        } else {
            world.patch("team-0", "a", &format!(r#"{{"data":{{"n":"{round}"}}}}"#))
        };
        let unset = world.client.get(path).await;
        assert_eq!(unset.answered_by(), "passed; freshness");
        let not_older = world.client.get(&format!("{path}?resourceVersion={written}")).await;
        for get in [&unset, &not_older] {
            assert_eq!(get.code, 200, "{}", get.text());
            assert_eq!(get.json()["metadata"]["resourceVersion"], written.to_string());
        }
        world.settled(&maps).await;
        let any = world.client.get(&format!("{path}?resourceVersion=0")).await.mirrored();
        assert_eq!(any.text(), unset.text());
    }
    world.delete("team-0", "a");
    assert_eq!(world.client.get(path).await.code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf08_a_revision_that_nobody_has_is_waited_for_and_then_too_large() {
    let world = World::start(85).await;
    let maps = world.collection("configmaps");
    let beyond = world.head().get() + 1_000;
    let query = format!("resourceVersion={beyond}&resourceVersionMatch=NotOlderThan");
    let began = Instant::now();
    let path = Choice::all(&maps).path(&query);
    let watch_list =
        Choice::all(&maps).path(&format!("{query}&watch=1&sendInitialEvents=true&allowWatchBookmarks=true"));
    let (list, stream) = tokio::join!(world.client.get(&path), world.client.watch(&watch_list));
    assert!(began.elapsed() >= Duration::from_millis(2_900), "{:?}", began.elapsed());
    list.refused(504, "Timeout");
    let status = list.json();
    assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{status}");
    assert_eq!(list.headers["retry-after"], "1");
    let events = stream.rest().await;
    assert_eq!(events, [Event::Error { code: 504, reason: "Timeout".to_owned() }, Event::End]);
    // A revision that comes within the time is waited for.
    let soon = world.head().get() + 2;
    let path = Choice::all(&maps).path(&format!("resourceVersion={soon}&resourceVersionMatch=NotOlderThan"));
    let write = async {
        world.create("team-0", "one");
        world.create("team-0", "two");
    };
    let (list, ()) = tokio::join!(world.client.get(&path), write);
    assert!(maps.items(&list.mirrored()).0.at().get() >= soon);
}
