//! Clients that do not read, and clients that are gone: neither costs anyone else anything, and what they held is given back.

use bytes::Bytes;
use weir_tests::checker::{Listing, Watch};

use crate::stream::{Event, Watching};
use crate::truth::{Choice, Collection};
use crate::watcher::{Resumes, Start, Watcher};
use crate::world::{Settings, World};

/// Enough that no buffer on the way holds a few of them.
const LARGE: usize = 256 << 10;

/// Writes a config map that is large so many times.
fn write_large(world: &World, name: &str, times: usize) {
    for time in 0..times {
        let patch = format!(r#"{{"data":{{"n":"{time}","large":"{}"}}}}"#, "x".repeat(LARGE));
        world.patch("team-0", name, &patch);
    }
}

/// Reads on until the last event of the choice or a reset, and judges what came; whether it was a reset.
async fn read_on(world: &World, (mut stream, mut watch): (Watching, Watch), choice: &Choice) -> bool {
    let truth = choice.collection.truth(&world.sim);
    let goal = truth.last_event(choice, watch.after).expect("something was written");
    while watch.position() < goal {
        match stream.next().await {
            event @ (Event::Change(_) | Event::Bookmark { .. }) => watch.items.extend(event.item()),
            Event::Error { code: 410, .. } => {
                truth.check_watch(choice, &watch);
                return true;
            }
            event => panic!("{event:?}"),
        }
    }
    watch.complete_to = goal;
    truth.check_watch(choice, &watch);
    false
}

/// A watch that is open and not read, and one like it that is.
async fn stuck(world: &World, maps: &Collection) -> (Watching, Watch, Watcher, Choice) {
    world.create("team-0", "large");
    world.settled(maps).await;
    let after = world.head();
    let choice = Choice::all(maps).in_namespace("team-0");
    let path = choice.path(&format!("watch=1&resourceVersion={after}"));
    let stream = world.client.narrow().watch(&path).await.mirrored();
    let healthy = Watcher::start(world, choice.clone(), (Start::List, Resumes::WhenEnded), 1).await;
    (stream, Watch::starting_at(after), healthy, choice)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov01_a_watch_that_is_not_read_for_long_gets_every_event_later() {
    let world = World::start(51).await;
    let maps = world.collection("configmaps");
    let (stream, watch, healthy, choice) = stuck(&world, &maps).await;
    write_large(&world, "large", 12);
    let saw = healthy.finish(&world, &maps.truth(&world.sim)).await;
    assert_eq!((saw.rounds.len(), saw.breaks), (1, 0), "the other one is no slower");
    assert!(!read_on(&world, (stream, watch), &choice).await, "the window has it all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov01_a_watch_that_is_not_read_for_too_long_is_told_so() {
    let world = World::with(52, Settings::keep_little).await;
    let maps = world.collection("configmaps");
    let (stream, watch, healthy, choice) = stuck(&world, &maps).await;
    // More than the hub holds, which is 8 MiB.
    for _ in 0..8 {
        write_large(&world, "large", 6);
        world.settled(&maps).await;
        let position = world.head();
        world.until("the other one reads on", || healthy.position() >= position).await;
    }
    let saw = healthy.finish(&world, &maps.truth(&world.sim)).await;
    assert_eq!((saw.rounds.len(), saw.breaks), (1, 0), "the other one is no slower");
    assert!(read_on(&world, (stream, watch), &choice).await, "neither hub nor window has it all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov06_a_list_that_is_not_read_holds_up_nobody_and_stays_exact() {
    let world = World::start(53).await;
    let maps = world.collection("configmaps");
    for number in 0..8 {
        let name = format!("large-{number}");
        world.create("team-0", &name);
        write_large(&world, &name, 1);
    }
    world.settled(&maps).await;
    let choice = Choice::all(&maps).in_namespace("team-0");
    let path = choice.path("resourceVersion=0");
    let mut stuck = Vec::new();
    for _ in 0..3 {
        stuck.push(world.client.narrow().open(&path).await);
    }
    let watcher = Watcher::start(&world, Choice::all(&maps), (Start::Stream, Resumes::WhenEnded), 1).await;
    for number in 0..8 {
        world.delete("team-0", &format!("large-{number}"));
    }
    world.churn(100);
    let truth = maps.truth(&world.sim);
    watcher.finish(&world, &truth).await;
    world.client.get(&path).await.mirrored();
    for answer in stuck {
        let list = answer.whole().await.mirrored();
        assert!(list.body.len() > 8 * LARGE);
        let (meta, items) = maps.items(&list);
        truth.check_list(&choice, &Listing { at: meta.at(), items, ..Listing::default() });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_whose_revision_goes_while_it_is_sent_breaks_off() {
    let world = World::with(56, Settings::keep_little).await;
    let maps = world.collection("configmaps");
    // More than one piece of a snapshot, so that the end is read when the revision has gone.
    for number in 0..2_300 {
        world.create("team-0", &format!("small-{number:04}"));
    }
    world.create("team-0", "a");
    write_large(&world, "a", 1);
    world.settled(&maps).await;
    let answer = world.client.narrow().open(&Choice::all(&maps).path("resourceVersion=0")).await;
    for round in 0..20 {
        world.patch("team-1", "settings-1", &format!(r#"{{"data":{{"round":"{round}"}}}}"#));
        world.settled(&maps).await;
    }
    assert!(answer.whole_or_broken().await.is_none(), "the end could not be read");
}

/// Opens requests of many kinds on many connections, and ends them in all the ways that clients end.
async fn come_and_go(world: &World, collections: &[Collection], count: usize) -> usize {
    let client = world.client.alone();
    let mut held = Vec::new();
    for (index, collection) in collections.iter().cycle().take(count).enumerate() {
        let client = if index % 2 == 0 { client.alone() } else { client.clone() };
        let choice = match index % 3 {
            0 => Choice::all(collection),
            1 => Choice::all(collection).tier("front"),
            _ => Choice::all(collection).named(&format!("name-{index}")),
        };
        let query = match index % 4 {
            0 => "watch=1&resourceVersion=0",
            1 => "watch=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            2 => "resourceVersion=0",
            _ => "watch=1",
        };
        let answer = client.open(&choice.path(query)).await;
        held.push((client, answer));
    }
    let passed = client.open("/api/v1/services?watch=1").await;
    let open = collections.iter().map(|collection| world.interests(collection)).sum();
    let mut rest = Vec::new();
    for (index, (client, answer)) in held.into_iter().enumerate() {
        match index % 3 {
            0 => client.vanish(),
            1 => drop(answer),
            _ => rest.push(answer),
        }
    }
    client.vanish();
    drop((rest, passed));
    open
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov08_clients_that_vanish_leave_nothing_behind() {
    let world = World::start(54).await;
    let collections = ["pods", "configmaps", "nodes"].map(|name| world.collection(name));
    let interests = || collections.iter().map(|collection| world.interests(collection)).sum::<usize>();
    // Connections to upstream are kept for the next request of their kind, and those to nodes that bulk goes over, one a node. A task
    // of each fourth client would be more.
    let most = world.lifecycle.len() + 24 + world.fleet.kept_connections();
    for count in [12, 96] {
        assert!(come_and_go(&world, &collections, count).await > 3);
        world.until("no interest is left", || interests() == 0).await;
        world.until("no task is left", || world.lifecycle.len() <= most).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cl08_hundreds_of_watches_on_one_connection_leave_room_for_other_requests() {
    let world = World::start(55).await;
    let maps = world.collection("configmaps");
    let mut streams = Vec::new();
    for number in 0..300 {
        let choice = Choice::all(&maps).named(&format!("settings-{}", number % 12));
        let path = choice.path(&format!("watch=1&resourceVersion={}", world.head()));
        streams.push(world.client.watch(&path).await.mirrored());
    }
    assert_eq!(world.interests(&maps), 12);
    world.client.get(&Choice::all(&maps).path("resourceVersion=0")).await.mirrored();
    let created = world.client.send("POST", "/api/v1/namespaces/team-0/configmaps", BODY).await.whole().await;
    assert_eq!(created.code, 201, "{}", created.text());
    let written = world.patch("team-0", "settings-0", r#"{"data":{"n":"1"}}"#);
    for stream in streams.iter_mut().step_by(12) {
        assert_eq!(stream.change().await.version.rv, written);
    }
}

/// Clients that are careful, as this one is, end a connection on which a hundred frames without data came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cl08_watches_that_come_and_go_leave_their_connection_to_others() {
    let world = World::start(57).await;
    let maps = world.collection("configmaps");
    let client = world.client.alone();
    let resume = Choice::all(&maps).path(&format!("watch=1&resourceVersion={}", world.head()));
    let mut other = client.watch(&resume).await.mirrored();
    let path = Choice::all(&maps).path("watch=1&resourceVersion=0&timeoutSeconds=1");
    let mut brief = Vec::new();
    for _ in 0..150 {
        brief.push(client.watch(&path).await.mirrored());
    }
    for stream in brief {
        let events = stream.rest().await;
        assert_eq!((events.len(), events.last()), (13, Some(&Event::End)));
    }
    let written = world.create("team-0", "later");
    assert_eq!(other.change().await.version.rv, written);
}

const BODY: Bytes =
    Bytes::from_static(br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"made"}}"#);
