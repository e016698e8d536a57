//! What weir passes through, with the rest of weir around it: ends of streams, writes, an instance that says nothing.

use bytes::Bytes;

use crate::stream::Event;
use crate::truth::Choice;
use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cl02_a_passed_watch_ends_as_upstreams_ended() {
    let world = World::start(131).await;
    let path = "/api/v1/services?watch=1&resourceVersion=0";
    for is_clean in [true, false, true] {
        let stream = world.client.watch(path).await;
        assert_eq!(stream.answered_by(), "passed; not mirrored");
        for instance in [0, 1].map(|instance| world.sim.instance(instance)) {
            if is_clean { instance.end_streams() } else { instance.cut_streams() }
        }
        assert_eq!(stream.rest().await, [if is_clean { Event::End } else { Event::Break }]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pf04_writes_reach_upstream_and_come_back_in_watches() {
    let world = World::start(132).await;
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps).named("written");
    let path = choice.path(&format!("watch=1&resourceVersion={}", world.head()));
    let mut stream = world.client.watch(&path).await.mirrored();
    let all = maps.path(Some("team-0"));
    let one = format!("{all}/written");
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"written"},"data":{"a":"1"}}"#;
    let merge = world.client.with_header("content-type", "application/merge-patch+json");
    for (client, method, path, body, code) in [
        (&world.client, "POST", &all, body, 201),
        (&world.client, "POST", &all, body, 409),
        (&merge, "PATCH", &one, r#"{"data":{"a":"2"}}"#, 200),
        (&world.client, "PUT", &one, &body.replace('1', "3").replace("v3", "v1"), 200),
        (&world.client, "DELETE", &one, "", 200),
        (&world.client, "DELETE", &one, "", 404),
    ] {
        let answer = client.send(method, path, Bytes::from(body.to_owned())).await.whole().await;
        assert_eq!(answer.code, code, "{method}: {}", answer.text());
        assert_eq!(answer.answered_by(), "passed; not a read of objects");
        if code < 300 {
            stream.change().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ct04_while_an_instance_says_nothing_the_mirror_answers_and_what_waits_is_right() {
    let world = World::start(133).await;
    let maps = world.collection("configmaps");
    let all = Choice::all(&maps);
    let feed = world.feed_instance(&maps).await;
    world.sim.instance(feed).freeze();
    let written = world.create("team-0", "unheard");
    let thawed = async {
        let (list, watch) =
            (all.path("resourceVersion=0"), all.path("watch=1&resourceVersion=0&timeoutSeconds=1"));
        let (list, watch) = tokio::join!(world.client.get(&list), world.client.watch(&watch));
        assert_eq!(maps.items(&list.mirrored()).1.len(), 12);
        assert!(watch.mirrored().rest().await.len() > 12);
        world.sim.instance(feed).thaw();
    };
    let fresh = all.path("");
    let (list, ()) = tokio::join!(world.client.get(&fresh), thawed);
    assert_eq!(list.code, 200, "{}", list.text());
    assert!(maps.items(&list).0.at() >= written);
    world.settled(&maps).await;
}
