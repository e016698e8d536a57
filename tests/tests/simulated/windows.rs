//! The ends of what weir keeps: behind them upstream answers as long as it can, and then everyone is told to begin again.

use weir_core::ResourceVersion;
use weir_core::continue_token::{ContinueToken, KeySpelling, TokenVersion};
use weir_proxy::link::Link;
use weir_tests::checker::{Listing, Watch};

use crate::stream::Event;
use crate::truth::{Choice, Collection, Sixteenths};
use crate::world::{Settings, World};

/// A world whose mirrors keep five events.
async fn short(seed: u64) -> (World, Collection) {
    let world = World::with(seed, Settings::keep_little).await;
    let pods = world.collection("pods");
    (world, pods)
}

/// So many changes that the window has moved on behind `before`.
async fn move_on(world: &World, pods: &Collection, before: ResourceVersion) {
    world.churn(60);
    world.settled(pods).await;
    let mirror = world.mirror(pods);
    // That of every replica: which one is asked depends on who is furthest then.
    let has_moved = |link: &Link| link.standing().is_some_and(|standing| standing.window.floor > before);
    world.until("the windows move on", || mirror.shards().links().values().all(has_moved)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wr07_a_resume_from_behind_the_window_is_upstreams_as_long_as_it_can() {
    let (world, pods) = short(101).await;
    let before = world.head();
    move_on(&world, &pods, before).await;
    let choice = Choice::all(&pods).tier("front");
    let path = choice.path(&format!("watch=1&resourceVersion={before}"));
    let mut stream = world.client.watch(&path).await;
    assert_eq!(stream.answered_by(), "passed; too old");
    let truth = pods.truth(&world.sim);
    let mut watch = Watch::starting_at(before);
    watch.complete_to = truth.last_event(&choice, before).unwrap();
    while watch.position() < watch.complete_to {
        watch.items.extend(stream.next().await.item());
    }
    truth.check_watch(&choice, &watch);
    // A part of the hash space is nothing for an upstream that might ignore it.
    let part = choice.clone().uids(Sixteenths { from: 0, to: 8 });
    let mark = world.mark();
    let stream =
        world.client.watch(&part.path(&format!("watch=1&resourceVersion={before}"))).await.mirrored();
    assert!(stream.rest().await[0].is_expired());
    world.answered_by_weir(mark);
    for instance in [0, 1] {
        world.sim.instance(instance).forget_history(pods.id);
    }
    let events = world.client.watch(&path).await.rest().await;
    assert!(events[0].is_expired() && events[1] == Event::End, "{events:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg01_pages_from_behind_the_window_are_upstreams_and_then_a_fresh_token() {
    let (world, pods) = short(102).await;
    let choice = Choice::all(&pods);
    let first = world.client.get(&choice.path("limit=9")).await;
    assert_eq!(first.code, 200);
    let (meta, mut items) = pods.items(&first);
    move_on(&world, &pods, meta.at()).await;
    let next = world.client.get(&choice.path(&format!("limit=9&continue={}", meta.token))).await;
    assert_eq!((next.code, next.answered_by()), (200, "passed; too old"), "{}", next.text());
    let (second, more) = pods.items(&next);
    assert_eq!(second.at(), meta.at(), "one snapshot");
    items.extend(more);
    let left = pods.truth(&world.sim).now().snapshot(meta.at()).len() - items.len();
    let listing = Listing { at: meta.at(), items, left, ..Listing::default() };
    pods.truth(&world.sim).check_list(&choice, &listing);
    world.sim.compact();
    let path = choice.path(&format!("limit=9&continue={}", second.token));
    let gone = world.client.get(&path).await;
    assert_eq!(gone.text(), world.upstream(0).get(&path).await.text());
    gone.refused(410, "Expired");
    let fresh = gone.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = world.client.get(&choice.path(&format!("continue={fresh}"))).await;
    assert_eq!(rest.code, 200, "{}", rest.text());
    let (meta, rest) = pods.items(&rest);
    let now = pods.truth(&world.sim).now().snapshot(meta.at());
    let last = &listing.items.last().unwrap().key;
    let behind: Vec<_> = now.into_iter().filter(|version| version.key.as_str() > last.as_str()).collect();
    assert_eq!(rest, behind, "what follows the last page, at a new revision");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg12_tokens_of_other_makers_reach_no_further_than_upstreams() {
    let world = World::start(103).await;
    world.create("team-0", "last");
    let maps = world.collection("configmaps");
    world.settled(&maps).await;
    let head = world.head();
    let token = |rv, start: &str, spelling| ContinueToken { rv, start: start.to_owned() }.encode(spelling);
    let mut tokens = vec!["e30".to_owned(), "eyJ2IjoieCJ9".to_owned(), "%00".to_owned()];
    for start in
        ["", "/", "a", "../team-1/", "team-1/", "settings-3\0", "\u{10ffff}", "./", "settings-0/../x"]
    {
        for rv in [TokenVersion::At(head), TokenVersion::Latest, TokenVersion::At(ResourceVersion::new(1))] {
            tokens.extend([KeySpelling::Slash, KeySpelling::Bare].map(|spelling| token(rv, start, spelling)));
        }
    }
    for namespace in [None, Some("team-0")] {
        for token in &tokens {
            let path = format!("{}?limit=2&continue={token}", maps.path(namespace));
            let (ours, theirs) = (world.client.get(&path).await, world.upstream(0).get(&path).await);
            let code = (ours.code, theirs.code);
            if code == (200, 200) {
                let ((_, ours), (_, theirs)) = (maps.items(&ours), maps.items(&theirs));
                assert_eq!(ours, theirs, "{path}");
            } else {
                assert_eq!((ours.code, ours.text()), (theirs.code, theirs.text()), "{path}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exact_states_from_behind_the_window_are_upstreams() {
    let (world, pods) = short(104).await;
    let before = world.head();
    move_on(&world, &pods, before).await;
    let path = Choice::all(&pods).path(&format!("resourceVersion={before}&resourceVersionMatch=Exact"));
    let list = world.client.get(&path).await;
    assert_eq!((list.code, list.answered_by()), (200, "passed; too old"));
    assert_eq!(list.text(), world.upstream(0).get(&path).await.text());
    world.sim.compact();
    let gone = world.client.get(&path).await;
    gone.refused(410, "Expired");
    // Who has a list that old asks with its parts too.
    let part = Choice::all(&pods).uids(Sixteenths { from: 0, to: 8 });
    let part = part.path(&format!("resourceVersion={before}&resourceVersionMatch=Exact"));
    let mark = world.mark();
    world.client.get(&part).await.refused(410, "Expired");
    world.answered_by_weir(mark);
}
