//! Connections on which nothing is said for long, and those whose other end has gone without a word. Where time has to pass it is
//! the test's: it goes on at once when nobody has anything to do.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, Protocol};
use crate::relay::Relays;
use crate::stream::{Event, Watching};
use crate::truth::Choice;
use crate::world::World;

/// A kind that has no mirror here.
const PASSED: &str = "/api/v1/services";
/// Within this a peer is found that has vanished.
const FOUND: Duration = Duration::from_secs(45);

/// Watches of this kind over both protocols.
async fn both(world: &World, path: &str) -> Vec<Watching> {
    let mut streams = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        streams.push(world.client.speaking(protocol).watch(path).await);
    }
    streams
}

/// Makes an object of the kind that has no mirror.
async fn create_passed(world: &World, name: &str) {
    let body = format!(r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{name}"}}}}"#);
    let path = "/api/v1/namespaces/team-0/services";
    assert_eq!(world.client.alone().send("POST", path, Bytes::from(body)).await.code, 201);
}

/// The next event, which may take long in the test's time.
async fn in_time(stream: &mut Watching, limit: Duration) -> Event {
    timeout(limit, stream.next_at_last()).await.expect("an event or the end")
}

#[tokio::test(start_paused = true)]
async fn cl06_quiet_watches_live_on_and_are_not_opened_again() {
    let world = World::start(401).await;
    let maps = world.collection("configmaps");
    let query = format!("watch=1&resourceVersion={}&timeoutSeconds=3000", world.head());
    let mut mirrored = both(&world, &Choice::all(&maps).path(&query)).await;
    let mut passed = both(&world, &format!("{PASSED}?{query}")).await;
    assert!(mirrored.iter().all(Watching::is_mirrored) && !passed.iter().any(Watching::is_mirrored));
    let mark = world.mark();
    sleep(Duration::from_secs(1_200)).await;
    world.create("team-0", "after-all");
    create_passed(&world, "after-all").await;
    for stream in mirrored.iter_mut().chain(&mut passed) {
        let event = in_time(stream, FOUND).await;
        assert!(matches!(event, Event::Change(_)), "{event:?}");
    }
    let watches: Vec<_> = world.since(mark).into_iter().filter(|line| line.verb == "watch").collect();
    let of_clients = watches.iter().filter(|line| line.user_agent == "weir-tests").count();
    assert_eq!(of_clients, 0, "a watch was opened again");
    // Four mirrors, each of whose watches upstream ends after five minutes at the earliest.
    let of_feeds = watches.iter().filter(|line| !line.uri.ends_with("timeoutSeconds=3")).count();
    assert!(of_feeds <= 4 * 4, "{of_feeds} watches of feeds in 20 minutes: {watches:#?}");
}

#[tokio::test(start_paused = true)]
async fn cl07_a_connection_is_kept_for_longer_than_clients_keep_theirs() {
    let world = World::start(402).await;
    let maps = world.collection("configmaps");
    let list = Choice::all(&maps).path("resourceVersion=0");
    let (mut kept, shared) = (world.client.kept().await, world.client.alone());
    // Go's clients let go of a connection after 90 s.
    for _ in 0..3 {
        kept.get(&list).await.expect("a connection that is still there").mirrored();
        shared.get(&list).await.mirrored();
        sleep(Duration::from_secs(95)).await;
    }
    assert_eq!(shared.connections(), 1);
    sleep(Duration::from_secs(300)).await;
    assert!(kept.get(&list).await.is_none(), "but not for ever");
    shared.get(&list).await.mirrored();
    assert_eq!(shared.connections(), 2, "it was told so, and has made another");
}

#[tokio::test(start_paused = true)]
async fn cl01_a_feed_whose_instance_vanished_goes_on_at_another() {
    let world = World::with(403, |settings| settings.has_wires = true).await;
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps);
    let path = choice.path(&format!("watch=1&resourceVersion={}&timeoutSeconds=3000", world.head()));
    let mut stream = world.client.watch(&path).await.mirrored();
    world.cut(world.feed_instance(&maps).await);
    let written = world.create("team-0", "unheard");
    let began = Instant::now();
    let Event::Change(seen) = in_time(&mut stream, 2 * FOUND).await else { panic!("no event") };
    assert!(began.elapsed() <= FOUND, "found after {:?}", began.elapsed());
    assert_eq!(seen.version.rv, written);
    let list = timeout(FOUND, world.client.get(&choice.path(""))).await.expect("an answer");
    assert!(list.code == 200 && maps.items(&list).0.at() >= written, "{}", list.text());
}

#[tokio::test(start_paused = true)]
async fn cl01_a_passed_watch_breaks_when_its_instance_vanished() {
    let world = World::with(404, |settings| settings.has_wires = true).await;
    let mut streams = both(&world, &format!("{PASSED}?watch=1&resourceVersion={}", world.head())).await;
    (0..2).for_each(|instance| world.cut(instance));
    let began = Instant::now();
    for stream in &mut streams {
        assert_eq!(in_time(stream, 2 * FOUND).await, Event::Break);
    }
    assert!(began.elapsed() <= FOUND, "found after {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn cl01_what_a_vanished_client_held_is_given_back() {
    let world = World::start(405).await;
    let maps = world.collection("configmaps");
    let wires = Relays::new(world.tasks.clone());
    let client = world.client.by(wires.to(world.client.address()));
    let query = format!("watch=1&resourceVersion={}&timeoutSeconds=3000", world.head());
    let mut streams = [
        client.watch(&Choice::all(&maps).path(&query)).await.mirrored(),
        client.watch(&format!("{PASSED}?{query}")).await,
    ];
    assert_eq!(world.interests(&maps), 1);
    wires.cut();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.interests(&maps), 0, "a minute later");
    wires.heal();
    for stream in &mut streams {
        assert_eq!(in_time(stream, FOUND).await, Event::Break, "a client that comes back is told");
    }
}

/// Somebody whose every request is the last on its connection.
async fn moved(world: &World, client: &Client) {
    let maps = world.collection("configmaps");
    let all = Choice::all(&maps);
    let query = format!("watch=1&resourceVersion={}&timeoutSeconds=300", world.head());
    let mut stream = client.watch(&all.path(&query)).await.mirrored();
    for _ in 0..100 {
        client.get(&all.path("resourceVersion=0")).await.mirrored();
    }
    assert!(client.connections() > 50, "{} connections", client.connections());
    world.create("team-0", "last");
    stream.change().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cl10_a_client_moves_on_by_and_by_and_what_is_open_goes_on() {
    let world = World::with(406, |settings| settings.goaway_chance = 1.0).await;
    moved(&world, &world.client.alone()).await;
    let list = "/api/v1/configmaps?resourceVersion=0";
    let mut kept = world.client.kept().await;
    let answer = kept.get(list).await.unwrap().mirrored();
    assert_eq!(answer.headers["connection"], "close");
    assert!(kept.get(list).await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cl10_a_client_that_is_not_told_to_move_keeps_its_connection() {
    let world = World::start(407).await;
    let (client, list) = (world.client.alone(), "/api/v1/configmaps?resourceVersion=0");
    for _ in 0..300 {
        client.get(list).await.mirrored();
    }
    assert_eq!(client.connections(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ct05_no_watch_of_many_in_a_row_ends_before_its_first_event() {
    let world = World::start(408).await;
    let maps = world.collection("configmaps");
    let query = format!("watch=1&resourceVersion={}&timeoutSeconds=300", world.head());
    let (mirrored, passed) = (Choice::all(&maps).path(&query), format!("{PASSED}?{query}"));
    let mut streams = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = world.client.speaking(protocol);
        for _ in 0..25 {
            streams.push(client.watch(&mirrored).await.mirrored());
            streams.push(client.watch(&passed).await);
        }
    }
    world.create("team-0", "first");
    create_passed(&world, "first").await;
    for stream in &mut streams {
        stream.change().await;
    }
}
