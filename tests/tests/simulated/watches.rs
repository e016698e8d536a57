//! Watches: many at once with different selectors, that resume wherever they like; where they begin; how they end.

use std::time::Duration;

use futures_util::future::join_all;
use weir_core::ResourceVersion;
use weir_core::message::EventKind;
use weir_sim::Seed;
use weir_tests::checker::{Item, Watch};

use crate::client::Protocol;
use crate::stream::Event;
use crate::truth::{Choice, Sixteenths};
use crate::watcher::{Resumes, Start, Watcher};
use crate::world::World;

/// Twenty different choices over three collections.
fn choices(world: &World) -> Vec<Choice> {
    let (pods, maps) = (world.collection("pods"), world.collection("configmaps"));
    let gauges = world.collection("gauges.metering.weir.test");
    let all = Choice::all;
    let range = |from, to| Sixteenths { from, to };
    vec![
        all(&pods),
        all(&pods).in_namespace("team-0"),
        all(&pods).in_namespace("team-1").tier("front"),
        all(&pods).tier("front"),
        all(&pods).tier("middle"),
        all(&pods).not_tier("back"),
        all(&pods).on_node("node-1"),
        all(&pods).on_node("node-2").tier("back"),
        all(&pods).uids(range(0, 4)),
        all(&pods).uids(range(4, 16)),
        all(&pods).namespaces(range(0, 8)).tier("front"),
        all(&pods).in_namespace("nowhere"),
        all(&maps),
        all(&maps).in_namespace("team-0").named("settings-0"),
        all(&maps).named("settings-1"),
        all(&maps).uids(range(3, 11)).tier("back"),
        all(&gauges),
        all(&gauges).with_unit("ms"),
        all(&gauges).uids(range(0, 8)),
        all(&gauges).namespaces(range(2, 14)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wr04_watches_that_resume_anywhere_see_every_event_once() {
    let world = World::start(21).await;
    let churning = world.churning(Duration::from_millis(1));
    let mark = world.mark();
    let mut watchers = Vec::new();
    for (index, choice) in choices(&world).into_iter().enumerate() {
        let start = if index % 2 == 0 { Start::List } else { Start::Stream };
        let resumes = if index % 3 == 0 { Resumes::WhenEnded } else { Resumes::Often };
        watchers.push(Watcher::start(&world, choice, (start, resumes), index as u64).await);
    }
    let after = world.head().get() + 500;
    world.until("500 changes", || world.head().get() >= after).await;
    churning.stop(&world).await;
    let truths: Vec<_> = ["pods", "configmaps", "gauges.metering.weir.test"]
        .map(|name| world.collection(name).truth(&world.sim))
        .into();
    let (mut events, mut resumes) = (0, 0);
    for (index, watcher) in watchers.into_iter().enumerate() {
        let truth = &truths[match index {
            0..12 => 0,
            12..16 => 1,
            _ => 2,
        }];
        let saw = watcher.finish(&world, truth).await;
        assert_eq!((saw.rounds.len(), saw.breaks), (1, 0), "nobody had to list again");
        (events, resumes) = (events + saw.events(), resumes + saw.resumes);
    }
    println!("{events} events, {resumes} resumes");
    assert!(events > 500 && resumes > 60, "the test tests too little");
    world.answered_by_weir(mark);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wr02_watches_from_anywhere_in_the_window_see_all_that_follows() {
    let world = World::start(20).await;
    let (pods, begun) = (world.collection("pods"), world.head().get());
    world.churn(200);
    world.settled(&pods).await;
    let churning = world.churning(Duration::from_millis(2));
    let mut seed = Seed::new(20);
    let choices =
        [Choice::all(&pods), Choice::all(&pods).tier("back"), Choice::all(&pods).in_namespace("team-2")];
    let mut streams = Vec::new();
    for _ in 0..60 {
        let choice = seed.pick(&choices).unwrap().clone();
        let reached = world.mirror(&pods).window().unwrap().frontier.get();
        let after = begun + seed.below((reached - begun + 1) as usize) as u64;
        let path = choice.path(&format!("watch=1&resourceVersion={after}"));
        let stream = world.client.watch(&path).await.mirrored();
        streams.push((choice, Watch::starting_at(ResourceVersion::new(after)), stream));
        // Some are gone before they were read.
        if seed.percent(30) {
            streams.swap_remove(seed.below(streams.len()));
        }
    }
    churning.stop(&world).await;
    let truth = pods.truth(&world.sim);
    // All at once: what one stream's client does not read takes room of their common connection.
    let read = streams.into_iter().map(async |(choice, mut watch, mut stream)| {
        watch.complete_to = truth.last_event(&choice, watch.after).unwrap_or_default();
        while watch.position() < watch.complete_to {
            watch.items.push(Item::Event(stream.change().await));
        }
        truth.check_watch(&choice, &watch);
    });
    join_all(read).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bw08_bookmarks_promise_what_was_sent_and_come_to_those_who_want_them() {
    let world = World::start(28).await;
    let pods = world.collection("pods");
    let churning = world.churning(Duration::from_millis(5));
    let mut streams = Vec::new();
    for choice in [
        Choice::all(&pods),
        Choice::all(&pods).tier("front"),
        Choice::all(&pods).in_namespace("nowhere"),
        Choice::all(&pods).uids(Sixteenths { from: 15, to: 16 }).named("absent"),
    ] {
        for wish in ["", "&allowWatchBookmarks=true"] {
            let after = world.mirror(&pods).window().unwrap().frontier;
            let path = choice.path(&format!("watch=1&resourceVersion={after}&timeoutSeconds=4{wish}"));
            let stream = world.client.watch(&path).await.mirrored();
            streams.push((choice.clone(), wish, after, stream));
        }
    }
    let read = streams
        .into_iter()
        .map(async |(choice, wish, after, stream)| (choice, wish, after, stream.rest().await));
    let read = join_all(read).await;
    churning.stop(&world).await;
    let truth = pods.truth(&world.sim);
    for (choice, wish, after, events) in read {
        assert_eq!(events.last(), Some(&Event::End));
        let is_plain = |event: &&Event| matches!(event, Event::Bookmark { marks_end: false, .. });
        let bookmarks = events.iter().filter(is_plain).count();
        // One that comes early, as they may, comes once more when it is due.
        let expected = if wish.is_empty() { 0..=0 } else { 1..=2 };
        assert!(expected.contains(&bookmarks), "{bookmarks} of {choice:?}{wish}");
        let items = events.iter().filter_map(Event::item).collect();
        truth.check_watch(&choice, &Watch { after, items, complete_to: after });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bw01_a_watch_list_is_upstreams_own_bytes() {
    let world = World::start(22).await;
    world.churn(100);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
                 &resourceVersion=";
    for name in ["pods", "gauges.metering.weir.test"] {
        let collection = world.collection(name);
        world.settled(&collection).await;
        for choice in [
            Choice::all(&collection),
            Choice::all(&collection).in_namespace("team-1").tier("front"),
            Choice::all(&collection).in_namespace("nowhere"),
        ] {
            let path = choice.path(&format!("{query}0"));
            let ours = world.client.watch(&path).await.mirrored().initial_lines().await;
            let end = Event::parse(ours.last().unwrap());
            let Event::Bookmark { at, .. } = end else { panic!("{end:?}") };
            let path = choice.path(&format!("{query}{at}"));
            let theirs = world.upstream(1).watch(&path).await.initial_lines().await;
            assert_eq!(ours, theirs, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se02_objects_enter_and_leave_a_selection_with_upstreams_bytes() {
    let world = World::start(23).await;
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps).in_namespace("team-0").tier("front").named("a");
    let before = world.head();
    world.create("team-0", "a");
    for patch in [
        r#"{"data":{"n":"1"}}"#,
        r#"{"metadata":{"labels":{"tier":"back"}}}"#,
        r#"{"data":{"n":"2"}}"#,
        r#"{"metadata":{"labels":{"tier":"front"}}}"#,
    ] {
        world.patch("team-0", "a", patch);
    }
    world.delete("team-0", "a");
    world.create("team-0", "a");
    let path = choice.path(&format!("watch=1&resourceVersion={before}"));
    let mut ours = world.client.watch(&path).await.mirrored();
    let mut theirs = world.upstream(0).watch(&path).await;
    let mut kinds = Vec::new();
    for _ in 0..6 {
        let line = ours.line().await.unwrap();
        assert_eq!(line, theirs.line().await.unwrap());
        let Event::Change(seen) = Event::parse(&line) else { panic!("{line:?}") };
        kinds.push(seen.kind);
    }
    let (added, modified, deleted) = (EventKind::Added, EventKind::Modified, EventKind::Deleted);
    assert_eq!(kinds, [added, modified, deleted, added, deleted, added]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wr13_a_name_that_comes_back_is_another_object_each_time() {
    let world = World::start(24).await;
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps).named("a");
    let before = world.head();
    let mut stream =
        world.client.watch(&choice.path(&format!("watch=1&resourceVersion={before}"))).await.mirrored();
    let mut watch = Watch::starting_at(before);
    for _ in 0..100 {
        world.create("team-0", "a");
        watch.complete_to = world.delete("team-0", "a");
        watch.items.extend(stream.next().await.item());
    }
    for _ in 0..100 {
        watch.items.extend(stream.next().await.item());
    }
    maps.truth(&world.sim).check_watch(&choice, &watch);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs07_a_watch_ahead_of_its_mirror_stays_open_and_gets_what_follows() {
    let world = World::start(25).await;
    let maps = world.collection("configmaps");
    // Other collections go on, so upstream's revision lies beyond what the mirror of config maps knows.
    world.churn(50);
    let at = world.touch_node();
    assert!(world.mirror(&maps).window().unwrap().frontier < at);
    let choice = Choice::all(&maps);
    let mut stream =
        world.client.watch(&choice.path(&format!("watch=1&resourceVersion={at}"))).await.mirrored();
    let written = world.create("team-0", "late");
    assert_eq!(stream.change().await.version.rv, written);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs05_a_watch_beyond_upstream_ends_with_410() {
    let world = World::start(26).await;
    let pods = world.collection("pods");
    let beyond = ResourceVersion::new(world.head().get() + 1_000);
    let stream =
        world.client.watch(&Choice::all(&pods).path(&format!("watch=1&resourceVersion={beyond}"))).await;
    let rest = stream.mirrored().rest().await;
    assert_eq!(rest, [Event::Error { code: 410, reason: "Expired".to_owned() }, Event::End]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_watches_cleanly_and_leaves_no_task() {
    let mut world = World::start(29).await;
    let pods = world.collection("pods");
    let mut streams = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let path = Choice::all(&pods).path(&format!("watch=1&resourceVersion={}", world.head()));
        streams.push(world.client.speaking(protocol).watch(&path).await.mirrored());
    }
    let left = world.stop().await;
    assert_eq!(left, Vec::<String>::new());
    for stream in streams {
        assert_eq!(stream.rest().await, [Event::End]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_protocols_carry_the_same_watch() {
    let world = World::start(27).await;
    let choice = Choice::all(&world.collection("configmaps"));
    let path = choice.path(&format!("watch=1&resourceVersion={}&timeoutSeconds=5", world.head()));
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = world.client.speaking(protocol);
        let mut stream = client.watch(&path).await.mirrored();
        let name = format!("{protocol:?}").to_lowercase();
        let written = world.create("team-0", &name);
        loop {
            if stream.change().await.version.rv == written {
                break;
            }
        }
    }
}
