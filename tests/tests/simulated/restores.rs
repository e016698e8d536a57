//! A backup that was restored: revisions go back, and numbers of two histories look alike. Everyone is told so, and nothing
//! of the history that no longer is was shown to anyone who was told.

use futures_util::future::join_all;
use weir_core::ResourceVersion;
use weir_sim::{Fault, Seed};
use weir_tests::checker::{History, Listing};

use crate::plans::seeds;
use crate::stream::Event;
use crate::truth::{Choice, Collection, Truth};
use crate::world::World;

/// A list of whatever the mirror has, judged by the history that upstream has now.
async fn check_list(world: &World, collection: &Collection, choice: &Choice) -> ResourceVersion {
    let list = world.client.get(&choice.path("resourceVersion=0")).await;
    assert_eq!(list.code, 200, "{}", list.text());
    let (meta, items) = collection.items(&list);
    let listing = Listing { at: meta.at(), items, ..Listing::default() };
    collection.truth(&world.sim).check_list(choice, &listing);
    meta.at()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs05_after_a_restore_all_watches_end_and_the_old_history_is_gone() {
    let world = World::start(41).await;
    let pods = world.collection("pods");
    world.churn(20);
    world.sim.back_up();
    let fork = world.head();
    world.churn(60);
    world.settled(&pods).await;
    let old = pods.truth(&world.sim).now().last();
    let all = Choice::all(&pods);
    let choices = [all.clone(), all.clone().tier("front"), all.clone().in_namespace("nowhere")];
    let mut streams = Vec::new();
    for choice in &choices {
        for after in [fork, old] {
            let path = choice.path(&format!("watch=1&allowWatchBookmarks=true&resourceVersion={after}"));
            streams.push(world.client.watch(&path).await.mirrored());
        }
    }
    world.sim.restore();
    for stream in streams {
        let rest = stream.rest().await;
        assert!(rest[rest.len() - 2].is_expired(), "{rest:?}");
    }
    // The streams of one mirror end one after the other; from here on all of them have.
    let at = check_list(&world, &pods, &all).await;
    assert!(at < old, "{at} is of the new history, {old} of the old one");
    for after in [old.get(), old.get() - 1, fork.get() + 1] {
        let stream = world.client.watch(&all.path(&format!("watch=1&resourceVersion={after}"))).await;
        assert!(stream.rest().await[0].is_expired(), "{after} may be of the old history");
    }
    world.churn(30);
    world.settled(&pods).await;
    for choice in &choices {
        check_list(&world, &pods, choice).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs05_a_new_history_that_has_overtaken_the_old_one_is_noticed() {
    let world = World::start(42).await;
    let pods = world.collection("pods");
    world.churn(20);
    world.sim.back_up();
    world.churn(10);
    world.settled(&pods).await;
    let old = pods.truth(&world.sim).now().last();
    let all = Choice::all(&pods);
    let path = all.path(&format!("watch=1&resourceVersion={old}"));
    let stream = world.client.watch(&path).await.mirrored();
    // Numbers alone show nothing: when weir connects again, upstream is beyond where it was.
    world.first_then_churn(|cluster| cluster.inject(Fault::Restore), 60);
    let rest = stream.rest().await;
    let is_new = |event: &Event| matches!(event, Event::Change(seen) if seen.version.rv > old);
    assert!(rest[rest.len() - 2].is_expired() && !rest.iter().any(is_new), "{rest:?}");
    world.settled(&pods).await;
    check_list(&world, &pods, &all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs05_a_watch_list_after_a_restore_goes_on_in_the_new_history() {
    let world = World::start(43).await;
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps).in_namespace("team-0");
    world.create("team-0", "kept");
    world.sim.back_up();
    world.create("team-0", "lost");
    world.settled(&maps).await;
    let path = choice.path(&format!("watch=1&resourceVersion={}", world.head()));
    let stream = world.client.watch(&path).await.mirrored();
    world.sim.restore();
    assert!(stream.rest().await[0].is_expired());
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0\
                 &allowWatchBookmarks=true";
    let mut stream = world.client.watch(&choice.path(query)).await;
    let lines = stream.initial_lines().await;
    let text = String::from_utf8(lines.concat()).unwrap();
    assert!(text.contains(r#""name":"kept""#) && !text.contains(r#""name":"lost""#), "{text}");
    let written = world.create("team-0", "new");
    loop {
        match stream.next().await {
            Event::Bookmark { .. } => {}
            Event::Change(seen) => {
                assert_eq!(seen.version.rv, written);
                break;
            }
            event => panic!("{event:?}"),
        }
    }
}

/// Whether both histories wrote the same object at that revision, which weir would have to read more to tell apart.
fn looks_alike(truth: &Truth, at: ResourceVersion) -> bool {
    let written = |history: &History| {
        let before = ResourceVersion::new(at.get() - 1);
        history.between(before, at).first().map(|change| (change.version.uid.clone(), change.kind))
    };
    let [.., old, new] = &truth.lives[..] else { return false };
    written(old) == written(new)
}

async fn restore_again_and_again(number: u64) {
    let world = World::start(number).await;
    let pods = world.collection("pods");
    let all = Choice::all(&pods);
    let mut seed = Seed::new(number);
    for _ in 0..4 {
        world.sim.back_up();
        let fork = world.head();
        while pods.truth(&world.sim).now().last() <= fork {
            world.churn(1 + seed.below(20));
        }
        world.settled(&pods).await;
        let stream = world.client.watch(&all.path("watch=1&resourceVersion=0")).await.mirrored();
        let old = pods.truth(&world.sim).now().last();
        // The new history is behind the old one at first, or beyond it before anyone looks.
        world.first_then_churn(|cluster| cluster.inject(Fault::Restore), seed.below(40));
        if looks_alike(&pods.truth(&world.sim), old) {
            return;
        }
        let rest = stream.rest().await;
        assert!(rest[rest.len() - 2].is_expired(), "fork {fork}, old {old}: {rest:?}");
        world.churn(5);
        world.settled(&pods).await;
        check_list(&world, &pods, &all).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs05_one_restore_after_the_other_each_ends_what_was_open() {
    for seed in 0..seeds() {
        restore_again_and_again(seed).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf01_while_the_new_history_is_listed_few_requests_reach_upstream() {
    let world = World::start(45).await;
    let pods = world.collection("pods");
    let all = Choice::all(&pods);
    world.sim.back_up();
    world.churn(20);
    world.settled(&pods).await;
    let stream = world.client.watch(&all.path("watch=1&resourceVersion=0")).await.mirrored();
    // The list takes some seconds, and as long as it takes all who were told to begin again come at once.
    for instance in [0, 1] {
        world.sim.instance(instance).throttle(Some(60_000));
    }
    world.sim.restore();
    stream.rest().await;
    let path = all.path("resourceVersion=0");
    let answers = join_all((0..20).map(|_| world.client.open(&path))).await;
    let codes = |code| answers.iter().filter(|answer| answer.code == code).count();
    assert_eq!((codes(200), codes(429)), (8, 12));
    for instance in [0, 1] {
        world.sim.instance(instance).throttle(None);
    }
    drop(answers);
    // A watch is not refused, and does not burden upstream: it waits for the list.
    let mark = world.mark();
    let mut stream = world.client.watch(&all.path("watch=1&resourceVersion=0")).await.mirrored();
    assert!(matches!(stream.next().await, Event::Change(_)));
    world.client.get(&path).await.mirrored();
    world.answered_by_weir(mark);
}
