//! Mirrors that start when they are asked for: upstream answers until they can, a few requests at once, and reads its
//! collection once for everyone.

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::client::{LIMIT, header};
use crate::stream::Event;
use crate::truth::{Choice, Collection};
use crate::world::{BOB, World};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf02_a_kind_that_nobody_asked_for_yet_answers_at_once() {
    let world = World::with(111, |settings| settings.mirrors = Vec::new()).await;
    for name in ["pods", "gauges.metering.weir.test", "deployments.apps"] {
        let collection = world.collection(name);
        let choice = Choice::all(&collection);
        let list = world.client.get(&choice.path("resourceVersion=0")).await;
        assert_eq!(list.code, 200, "{}", list.text());
        world.client.watch(&choice.path("watch=1&resourceVersion=0")).await.mirrored();
        world.client.get(&choice.path("resourceVersion=0")).await.mirrored();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ov05_many_first_watches_are_one_list_at_upstream() {
    let world = World::with(112, |settings| settings.mirrors = Vec::new()).await;
    let pods = world.collection("pods");
    let path = Choice::all(&pods).path("watch=1&resourceVersion=0");
    let clients = (0..30).map(|_| world.client.alone());
    let streams = join_all(clients.map(async |client| client.watch(&path).await.mirrored())).await;
    for mut stream in streams {
        assert!(matches!(stream.next().await, Event::Change(_)));
    }
    assert_eq!(world.feed_lists(&pods, 0).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf01_while_a_mirror_loads_few_requests_reach_upstream() {
    let world = World::with(113, |settings| {
        settings.mirrors = Vec::new();
        settings.before = |sim| {
            for instance in [0, 1] {
                sim.instance(instance).throttle(Some(4_000));
            }
        };
    })
    .await;
    let path = Choice::all(&world.collection("pods")).path("resourceVersion=0");
    let lone = world.client.open(&path).await;
    assert_eq!(header(&lone.headers, "weir-answered-by"), "passed; lone request");
    let mut held = Vec::new();
    for _ in 0..8 {
        let answer = world.client.open(&path).await;
        assert_eq!(
            (answer.code, header(&answer.headers, "weir-answered-by")),
            (200, "passed; mirror is loading")
        );
        held.push(answer);
    }
    let refused = world.client.get(&path).await;
    refused.refused(429, "TooManyRequests");
    assert_eq!(refused.headers["retry-after"], "1");
    // A place that is given back is there for others, as soon as weir hears of it.
    held.pop();
    let deadline = Instant::now() + LIMIT;
    while world.client.open(&path).await.code != 200 {
        assert!(Instant::now() < deadline, "no place");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_for_once_is_upstreams_and_what_is_asked_for_again_is_mirrored() {
    let world = World::with(115, |settings| settings.mirrors = Vec::new()).await;
    let (pods, maps) = (world.collection("pods"), world.collection("configmaps"));
    let is_begun = |collection: &Collection| world.mirrors.is_begun(collection.gvr());
    for path in ["/api/v1/namespaces/team-0/configmaps/settings-0?resourceVersion=0"; 3] {
        assert_eq!(world.client.get(path).await.answered_by(), "passed; lone request");
    }
    let list = Choice::all(&maps).path("");
    assert_eq!(world.client.get(&list).await.answered_by(), "passed; lone request");
    world.client.with_token(BOB).get(&list).await.refused(403, "Forbidden");
    assert!(!is_begun(&maps), "who may not read begins nothing");
    let page = world.client.get(&Choice::all(&pods).path("limit=2")).await;
    assert_eq!(page.answered_by(), "passed; lone request");
    let token = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert!(!is_begun(&pods));
    world.client.get(&Choice::all(&pods).path(&format!("limit=2&continue={token}"))).await;
    assert!(is_begun(&pods), "a page behind the first one");
    world.client.get(&list).await;
    assert!(is_begun(&maps), "the second list");
    world.mirrored(&list).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_are_never_mirrored_unasked_are_upstreams() {
    let world = World::with(114, |settings| settings.mirrors = Vec::new()).await;
    for path in [
        "/api/v1/secrets?resourceVersion=0",
        "/api/v1/events?resourceVersion=0",
        "/apis/coordination.k8s.io/v1/leases?resourceVersion=0",
        "/api/v1/nonsense?resourceVersion=0",
        "/apis/nonsense.weir.test/v1/things?resourceVersion=0",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?resourceVersion=0",
    ] {
        let (ours, theirs) = (world.client.get(path).await, world.upstream(0).get(path).await);
        assert!(ours.answered_by().starts_with("passed; "), "{path}: {}", ours.answered_by());
        assert_eq!((ours.code, ours.text()), (theirs.code, theirs.text()), "{path}");
    }
    let is_list = |line: &&weir_sim::RequestLine| line.user_agent.contains("(feed)") && line.verb == "list";
    assert_eq!(world.requests().iter().find(is_list), None);
}
