//! What clients may have open, and how large a request may be: whoever wants more is refused, and nobody else notices. Counts are
//! judged, of what was let in and of what came to others.

use futures_util::future::join_all;
use weir_proxy::http::clients::{AtOnce, ClientLimits};
use weir_sim::{Right, User};

use crate::client::{Answer, Client, Protocol, header};
use crate::stream::Watching;
use crate::truth::Choice;
use crate::watcher::{Resumes, Start, Watcher};
use crate::world::{Settings, World};

/// What one client may have open here.
const FEW: AtOnce = AtOnce { lists: 6, bytes: 1 << 30, watches: 20, late: 2, interests: 5 };

fn few(settings: &mut Settings) {
    settings.limits = ClientLimits { of_one: FEW, ..ClientLimits::default() };
    let right = Right::new(&["get", "list", "watch"], "", &["configmaps"]);
    settings.sim.users.push(("noisy-token".to_owned(), User::named("noisy").may(right)));
}

fn noisy(world: &World) -> Client {
    let agent = "noisy-controller/v1 (linux/amd64)";
    world.client.alone().with_token("noisy-token").with_header("user-agent", agent)
}

/// Whether it was refused for what its client has open.
async fn is_refused(answer: Answer) -> bool {
    if answer.code != 429 {
        return false;
    }
    assert!(header(&answer.headers, "retry-after").parse::<u32>().unwrap() >= 1);
    let answer = answer.whole().await;
    answer.refused(429, "TooManyRequests");
    assert!(answer.text().contains("has too much open"), "{}", answer.text());
    true
}

/// How often operators see the noisy one refused.
fn counted(world: &World, limit: &str) -> usize {
    let mut registry = prometheus_client::registry::Registry::default();
    world.clients.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let series = format!(r#"client_limited_total{{client="noisy-controller/v1",limit="{limit}"}} "#);
    let line = text.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("{series} in {text}")).parse().unwrap()
}

/// Opens watches without end; those that were let in, and how many were not.
async fn open_watches(client: &Client, path: &str, times: usize) -> (Vec<Watching>, usize) {
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..times {
        let answer = client.open(path).await;
        match answer.code {
            200 => open.push(Watching::new(path, answer)),
            _ => refused += usize::from(is_refused(answer).await),
        }
    }
    (open, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov09_a_noisy_identity_has_its_share_open_and_others_go_on() {
    let world = World::with(421, few).await;
    let maps = world.collection("configmaps");
    let all = Choice::all(&maps);
    let watcher = Watcher::start(&world, all.clone(), (Start::Stream, Resumes::WhenEnded), 1).await;
    let (noisy, mark) = (noisy(&world), world.mark());
    let watch = all.path(&format!("watch=1&resourceVersion={}", world.head()));
    let (held, refused) = open_watches(&noisy, &watch, 100).await;
    assert_eq!((held.len(), refused), (20, 80));
    assert_eq!(counted(&world, "watches"), 80);
    let asked = world.since(mark).into_iter().filter(|line| line.user == "noisy");
    assert!(asked.count() < 20, "its rights were asked for with each refusal");

    // The others have as many of their own, and answers.
    for round in 0..30 {
        world.client.get(&all.path("resourceVersion=0")).await.mirrored();
        world.patch("team-0", "settings-0", &format!(r#"{{"data":{{"round":"{round}"}}}}"#));
    }
    let (others, refused) = open_watches(&world.client, &watch, 15).await;
    assert_eq!((others.len(), refused), (15, 0));
    // What one gives up it may have again.
    drop(held);
    let again = async { while is_refused(noisy.open(&watch).await).await {} };
    tokio::time::timeout(crate::client::LIMIT, again).await.expect("a place that was given back");
    let saw = watcher.finish(&world, &maps.truth(&world.sim)).await;
    assert_eq!((saw.rounds.len(), saw.breaks, saw.refusals), (1, 0, 0), "nobody else notices");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov09_lists_that_are_not_read_are_as_many_as_one_identity_may_have() {
    let world = World::with(422, |settings| {
        few(settings);
        settings.shape.config_maps = 3_000;
    })
    .await;
    let maps = world.collection("configmaps");
    let list = Choice::all(&maps).path("resourceVersion=0");
    let noisy = noisy(&world);
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..30 {
        let answer = noisy.narrow().open(&list).await;
        match answer.code {
            200 => held.push(answer),
            _ => refused += usize::from(is_refused(answer).await),
        }
    }
    assert_eq!((held.len(), refused), (6, 24));
    assert_eq!(counted(&world, "lists at once"), 24);
    for _ in 0..30 {
        world.client.get(&list).await.mirrored();
    }
    let read = join_all(held.into_iter().map(Answer::whole)).await;
    assert!(read.into_iter().all(|list| list.mirrored().body.len() > 100_000), "what was begun comes whole");
    let again = async { while is_refused(noisy.open(&list).await).await {} };
    tokio::time::timeout(crate::client::LIMIT, again).await.expect("a place that was given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov09_one_identity_watches_so_many_different_things_and_any_number_of_objects() {
    let world = World::with(423, few).await;
    let maps = world.collection("configmaps");
    let (noisy, after) = (noisy(&world), world.head());
    let labelled = |value: usize| {
        Choice::all(&maps).path(&format!("watch=1&resourceVersion={after}&labelSelector=team%3Dt{value}"))
    };
    let mut held = Vec::new();
    for value in 0..5 {
        held.push(noisy.watch(&labelled(value)).await.mirrored());
        held.push(noisy.watch(&labelled(value)).await.mirrored());
    }
    for value in 5..10 {
        assert!(is_refused(noisy.open(&labelled(value)).await).await);
    }
    assert_eq!(counted(&world, "interests"), 5);
    for number in 0..8 {
        let one = Choice::all(&maps).in_namespace("team-0").named(&format!("settings-{number}"));
        held.push(noisy.watch(&one.path(&format!("watch=1&resourceVersion={after}"))).await.mirrored());
    }
    world.client.watch(&labelled(9)).await.mirrored();
    drop(held);
    let again = async { while is_refused(noisy.open(&labelled(9)).await).await {} };
    tokio::time::timeout(crate::client::LIMIT, again).await.expect("a place that was given back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_may_be_as_many_and_as_large_as_at_upstream() {
    let world = World::start(424).await;
    let list = "/api/v1/configmaps?resourceVersion=0";
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let client = world.client.speaking(protocol);
        let many = (0..400).map(|number| format!("one-of-many-values-of-this-header-{number}"));
        client.with_headers("x-many", many).get(list).await.mirrored();
        let large = client.with_header("x-large", &"x".repeat(100 << 10));
        assert_eq!(large.get(list).await.code, 200, "{protocol:?}");
        let beyond = client.with_headers("x-large", (0..11).map(|_| "x".repeat(100 << 10)));
        // Over HTTP/1.1 the connection may break before the client has sent all of it.
        let refused = beyond.open_or_broken(list).await.map(|answer| answer.code);
        assert!(refused == Some(431) || refused.is_none() && protocol == Protocol::Http1, "{refused:?}");
        client.get(list).await.mirrored();
    }
}
