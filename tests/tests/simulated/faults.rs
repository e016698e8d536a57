//! What goes wrong upstream and costs clients nothing, or a reconnect, or at worst a new list; never a gap, and upstream no
//! storm of lists.

use std::time::Duration;

use weir_sim::{Fault, Fits, InstanceId, Node};
use weir_tests::checker::Listing;

use crate::stream::Event;
use crate::truth::{Choice, Collection};
use crate::watcher::{Resumes, Saw, Start, Watcher};
use crate::world::World;

/// Some watchers of pods.
pub(crate) async fn watchers(world: &World, pods: &Collection) -> Vec<Watcher> {
    let mut watchers = Vec::new();
    let choices = [
        Choice::all(pods),
        Choice::all(pods).tier("front"),
        Choice::all(pods).in_namespace("team-0"),
        Choice::all(pods).on_node("node-3"),
    ];
    for (index, choice) in choices.into_iter().enumerate() {
        let start = if index % 2 == 0 { Start::List } else { Start::Stream };
        let resumes = if index < 2 { Resumes::WhenEnded } else { Resumes::Often };
        watchers.push(Watcher::start(world, choice, (start, resumes), index as u64).await);
    }
    watchers
}

/// What all of them saw, once they have come to the last event.
pub(crate) async fn finish(world: &World, pods: &Collection, watchers: Vec<Watcher>) -> Vec<Saw> {
    let truth = pods.truth(&world.sim);
    let mut saw = Vec::new();
    for watcher in watchers {
        saw.push(watcher.finish(world, &truth).await);
    }
    saw
}

/// Nobody noticed a thing, and nothing was listed again.
#[track_caller]
pub(crate) fn unnoticed(world: &World, pods: &Collection, (saw, mark): (&[Saw], usize)) {
    for saw in saw {
        assert_eq!((saw.rounds.len(), saw.breaks, saw.refusals), (1, 0, 0), "a client had to begin again");
    }
    assert_eq!(world.feed_lists(pods, mark), [], "a feed listed again");
    world.answered_by_weir(mark);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cl04_streams_of_the_feed_that_break_or_end_cost_clients_nothing() {
    let world = World::start(31).await;
    let pods = world.collection("pods");
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    for round in 0..8 {
        let instance = world.sim.instance(world.feed_instance(&pods).await);
        match round % 4 {
            0 => instance.cut_streams(),
            1 => instance.end_streams(),
            2 => instance.cut_after(pods.id, 3),
            _ => world.sim.instance(0).cut_streams(),
        }
        world.churn(25);
        world.settled(&pods).await;
    }
    let saw = finish(&world, &pods, watchers).await;
    unnoticed(&world, &pods, (&saw, mark));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf03_an_instance_that_restarts_is_left_for_the_other_and_nothing_is_listed() {
    let world = World::start(32).await;
    let pods = world.collection("pods");
    world.churn(10);
    world.settled(&pods).await;
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    for _ in 0..4 {
        let instance = world.feed_instance(&pods).await;
        world.churn_and(20, |cluster| cluster.inject(Fault::Restart(InstanceId(instance))));
        world.settled(&pods).await;
        assert_ne!(world.feed_instance(&pods).await, instance, "its history begins behind the feed");
        // The restarted one serves as the other one from here on.
        world.churn(10);
        world.settled(&pods).await;
    }
    let saw = finish(&world, &pods, watchers).await;
    unnoticed(&world, &pods, (&saw, mark));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cl05_an_instance_that_dies_is_left_for_the_other() {
    let world = World::start(33).await;
    let pods = world.collection("pods");
    let mark = world.mark();
    let watchers = watchers(&world, &pods).await;
    world.kill(world.feed_instance(&pods).await);
    world.churn(40);
    world.settled(&pods).await;
    for _ in 0..20 {
        let get = world.client.get("/api/v1/nodes/node-0").await;
        assert_eq!(get.code, 200, "{}", get.text());
    }
    let saw = finish(&world, &pods, watchers).await;
    for saw in &saw {
        assert_eq!((saw.rounds.len(), saw.breaks, saw.refusals), (1, 0, 0), "a client had to begin again");
    }
    assert_eq!(world.feed_lists(&pods, mark), [], "a feed listed again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wr10_a_log_that_nobody_has_ends_all_watches_with_410_and_lists_are_right() {
    let world = World::start(34).await;
    let pods = world.collection("pods");
    for _ in 0..3 {
        let mark = world.mark();
        let watchers = watchers(&world, &pods).await;
        world.churn_and(30, |cluster| {
            cluster.inject(Fault::Restart(InstanceId(0)));
            cluster.inject(Fault::Restart(InstanceId(1)));
        });
        world.churn(5);
        world
            .until("all watchers begin again", || watchers.iter().all(|one| one.saw().rounds.len() == 2))
            .await;
        world.churn(20);
        for saw in finish(&world, &pods, watchers).await {
            assert_eq!((saw.rounds.len(), saw.breaks), (2, 0), "one 410, then one list");
        }
        let lists = world.feed_lists(&pods, mark);
        assert_eq!(lists.len(), 1, "one list for everyone: {lists:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wr05_watches_that_open_while_the_mirror_is_listed_again_miss_nothing() {
    let world = World::start(35).await;
    let pods = world.collection("pods");
    let churning = world.churning(Duration::from_millis(2));
    let choice = Choice::all(&pods);
    let mut watches = Vec::new();
    for round in 0..40 {
        if round % 4 == 0 {
            world.churn_and(3, |cluster| {
                cluster.inject(Fault::Restart(InstanceId(0)));
                cluster.inject(Fault::Restart(InstanceId(1)));
            });
        }
        let list = world.client.get(&choice.path("resourceVersion=0")).await;
        let (meta, items) = pods.items(&list);
        let listing = Listing { at: meta.at(), items, ..Listing::default() };
        let path = choice.path(&format!("watch=1&resourceVersion={}", meta.at()));
        watches.push((listing, world.client.watch(&path).await));
    }
    churning.stop(&world).await;
    let truth = pods.truth(&world.sim);
    for (listing, mut stream) in watches {
        truth.check_list(&choice, &listing);
        let goal = truth.last_event(&choice, listing.at).unwrap_or(listing.at);
        let mut watch = weir_tests::checker::Watch::starting_at(listing.at);
        while watch.position() < goal {
            match stream.next().await {
                event @ (Event::Change(_) | Event::Bookmark { .. }) => watch.items.extend(event.item()),
                Event::Error { code: 410, .. } | Event::End => break,
                // One that came below the new floor was passed, and upstream restarted once more.
                Event::Break if !stream.is_mirrored() => break,
                event => panic!("{event:?}"),
            }
        }
        truth.check_watch(&choice, &watch);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf09_refusals_for_a_while_are_few_tries_and_no_list() {
    for code in [429, 500, 401, 503] {
        let world = World::with(u64::from(code), |settings| settings.mirrors = vec!["pods"]).await;
        let pods = world.collection("pods");
        let mark = world.mark();
        let watchers = watchers(&world, &pods).await;
        for instance in [0, 1] {
            world.sim.instance(instance).refuse(Fits::both("watch", pods.id), 2, code);
        }
        world.sim.with(|cluster| {
            cluster.inject(Fault::CutStreams(InstanceId(0)));
            cluster.inject(Fault::CutStreams(InstanceId(1)));
        });
        world.churn(20);
        world.settled(&pods).await;
        let saw = finish(&world, &pods, watchers).await;
        unnoticed(&world, &pods, (&saw, mark));
        let is_feed =
            |line: &&weir_sim::RequestLine| line.user_agent.contains("(feed)") && line.verb == "watch";
        let tries: Vec<_> = world.since(mark).iter().filter(is_feed).map(|line| line.code).collect();
        // With a 401 come new credentials, and one more try at once.
        assert!((4..=6).contains(&tries.len()), "{tries:?}");
        assert!(tries.iter().filter(|one| **one == code).count() >= 3, "{tries:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf09_first_lists_that_break_off_or_are_refused_are_read_again() {
    let world = World::with(36, |settings| {
        settings.mirrors = vec!["pods"];
        settings.before = |sim| {
            let pods = sim.resource("pods").unwrap();
            for instance in [0, 1] {
                sim.instance(instance).truncate_at(pods, 5_000);
                sim.instance(instance).not_ready(Fits::both("list", pods), 1);
            }
        };
    })
    .await;
    let pods = world.collection("pods");
    let lists: Vec<_> = world.feed_lists(&pods, 0).iter().map(|line| line.code).collect();
    assert!(lists.len() <= 6, "{lists:?}");
    let list = world.client.get(&Choice::all(&pods).path("resourceVersion=0")).await.mirrored();
    let (meta, items) = pods.items(&list);
    let listing = Listing { at: meta.at(), items, ..Listing::default() };
    pods.truth(&world.sim).check_list(&Choice::all(&pods), &listing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cs02_a_lagging_instance_delays_its_clients_and_shows_them_nothing_wrong() {
    let world = World::start(37).await;
    let pods = world.collection("pods");
    let watchers = watchers(&world, &pods).await;
    let instance = world.sim.instance(world.feed_instance(&pods).await);
    for behind in [3, 30, 1] {
        instance.delay(behind);
        world.churn(40);
        let list = world.client.get(&Choice::all(&pods).path("resourceVersion=0")).await.mirrored();
        let (meta, items) = pods.items(&list);
        let listing = Listing { at: meta.at(), items, ..Listing::default() };
        pods.truth(&world.sim).check_list(&Choice::all(&pods), &listing);
    }
    instance.catch_up();
    for saw in finish(&world, &pods, watchers).await {
        assert_eq!((saw.rounds.len(), saw.breaks, saw.refusals), (1, 0, 0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl02_a_new_default_of_a_custom_resource_ends_its_watches_and_shows_in_lists() {
    let world = World::start(38).await;
    let gauges = world.collection("gauges.metering.weir.test");
    let all = Choice::all(&gauges);
    let stream = world.client.watch(&all.path("watch=1&resourceVersion=0")).await.mirrored();
    let pods = world.collection("pods");
    let mut untouched = world
        .client
        .watch(&Choice::all(&pods).path(&format!("watch=1&resourceVersion={}", world.head())))
        .await;
    // The change of the definition is a revision too, so no feed is at upstream's newest any more.
    let (path, value) = (vec!["spec".to_owned(), "colour".to_owned()], Node::from("green"));
    world.churn_and(3, |cluster| cluster.inject(Fault::AddDefault { resource: gauges.id, path, value }));
    let events = stream.rest().await;
    assert!(events[events.len() - 2].is_expired(), "{:?}", events.last());
    // The watch has ended with the first shard that heard of it; until all have, upstream answers.
    let list = world.mirrored(&all.path("resourceVersion=0")).await;
    let (meta, items) = gauges.items(&list);
    assert_eq!(items.len(), gauges.truth(&world.sim).count(&all));
    assert!(items.iter().all(|item| item.body.windows(16).any(|text| text == br#""colour":"green""#)));
    let exact = all.path(&format!("resourceVersion={}&resourceVersionMatch=Exact", meta.at()));
    assert_eq!(list.text(), world.upstream(0).get(&exact).await.text());
    world.churn(20);
    assert!(matches!(untouched.next().await, Event::Change(_)), "pods are no gauges");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_end_cleanly_are_gone_on_with() {
    let world = World::start(39).await;
    let maps = world.collection("configmaps");
    let mark = world.mark();
    let choice = Choice::all(&maps).named("a");
    let path = choice.path(&format!("watch=1&resourceVersion={}", world.head()));
    let mut stream = world.client.watch(&path).await.mirrored();
    for _ in 0..10 {
        let created = world.create("team-1", "a");
        assert_eq!(stream.change().await.version.rv, created);
        world.sim.instance(world.feed_instance(&maps).await).end_streams();
        let deleted = world.delete("team-1", "a");
        assert_eq!(stream.change().await.version.rv, deleted);
    }
    assert_eq!(world.feed_lists(&maps, mark), []);
}
