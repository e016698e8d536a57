//! Forms of answers: what weir cannot write it passes through; and the order of keys, which is not that of names.

use futures_util::future::join_all;
use weir_sim::{Node, Op};

use crate::client::Whole;
use crate::stream::Event;
use crate::truth::Choice;
use crate::world::World;

/// Both answers to a request in a form.
async fn both(world: &World, accept: &str, path: &str) -> (Whole, Whole) {
    let (ours, theirs) = (world.client.with_header("accept", accept), world.upstream(0));
    let theirs = theirs.with_header("accept", accept);
    tokio::join!(ours.get(path), theirs.get(path))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ng01_other_forms_are_upstreams_own() {
    let world = World::start(121).await;
    world.create("team-0", "last");
    let maps = world.collection("configmaps");
    world.settled(&maps).await;
    let head = world.head();
    let paths = [
        format!("/api/v1/configmaps?resourceVersion={head}&resourceVersionMatch=Exact"),
        format!("/api/v1/configmaps?resourceVersion={head}&resourceVersionMatch=Exact&limit=2"),
        "/api/v1/namespaces/team-0/configmaps/last?resourceVersion=0".to_owned(),
        "/api/v1/configmaps?labelSelector=!".to_owned(),
        "/api/v1/configmaps?watch=1&resourceVersion=1".to_owned(),
        format!("/api/v1/configmaps?watch=1&resourceVersion={head}&timeoutSeconds=1"),
        format!("/apis/metering.weir.test/v1/gauges?resourceVersion={head}&resourceVersionMatch=Exact"),
        "/apis/metering.weir.test/v1/gauges?watch=1&resourceVersion=1".to_owned(),
    ];
    for accept in [
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf,application/json",
        "application/yaml",
        "application/cbor",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/json;stream=watch",
        "application/*",
        "*/*",
        "text/html",
        "application/json;q=0.1,application/yaml",
    ] {
        let answers = join_all(paths.iter().map(|path| both(&world, accept, path))).await;
        for (path, (ours, theirs)) in paths.iter().zip(answers) {
            assert_eq!((ours.code, &ours.body), (theirs.code, &theirs.body), "{accept} {path}");
            assert_eq!(
                ours.headers.get("content-type"),
                theirs.headers.get("content-type"),
                "{accept} {path}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg09_keys_are_ordered_as_upstream_orders_them() {
    let world = World::start(122).await;
    let namespaces = world.sim.resource("namespaces").unwrap();
    for namespace in ["ns", "ns-1", "ns.1", "ns1", "ns11"] {
        let body = Node::parse(format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#).as_bytes()).unwrap();
        world.sim.apply(Op::Create { resource: namespaces, namespace: None, body }).unwrap();
        for name in ["aa", "a.b", "a-b", "a"] {
            world.create(namespace, name);
        }
    }
    let maps = world.collection("configmaps");
    world.settled(&maps).await;
    let head = world.head();
    let exact = format!("resourceVersion={head}&resourceVersionMatch=Exact");
    for namespace in [None, Some("ns"), Some("ns1"), Some("ns.1")] {
        let path = format!("{}?{exact}", maps.path(namespace));
        let ours = world.client.get(&path).await.mirrored();
        assert_eq!(ours.text(), world.upstream(0).get(&path).await.text());
        let mut path = format!("{path}&limit=1");
        let mut paged = Vec::new();
        loop {
            let (ours, theirs) =
                (world.client.get(&path).await.mirrored(), world.upstream(0).get(&path).await);
            assert_eq!(ours.text(), theirs.text(), "{path}");
            let (meta, items) = maps.items(&ours);
            paged.extend(items);
            if meta.token.is_empty() {
                break;
            }
            path = format!("{}?limit=1&continue={}", maps.path(namespace), meta.token);
        }
        assert_eq!(paged, maps.items(&ours).1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se05_a_namespace_is_not_a_prefix() {
    let world = World::start(123).await;
    let namespaces = world.sim.resource("namespaces").unwrap();
    for namespace in ["ns1", "ns11", "ns1-x"] {
        let body = Node::parse(format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#).as_bytes()).unwrap();
        world.sim.apply(Op::Create { resource: namespaces, namespace: None, body }).unwrap();
    }
    let maps = world.collection("configmaps");
    let choice = Choice::all(&maps).in_namespace("ns1");
    let path = choice.path(&format!("watch=1&resourceVersion={}", world.head()));
    let mut stream = world.client.watch(&path).await.mirrored();
    let named = Choice::all(&maps).named("a");
    let mut by_name = world
        .client
        .watch(&named.path(&format!("watch=1&resourceVersion={}", world.head())))
        .await
        .mirrored();
    let mut last = None;
    for name in ["a", "aa", "b"] {
        for namespace in ["ns11", "ns1-x", "ns1"] {
            let written = world.create(namespace, name);
            if namespace == "ns1" {
                last = Some(written);
                let Event::Change(seen) = stream.next().await else { panic!("an event") };
                assert_eq!(seen.version.rv, written);
            }
            if name == "a" {
                assert_eq!(by_name.change().await.version.rv, written);
            }
        }
    }
    world.settled(&maps).await;
    for query in ["resourceVersion=0", "limit=2", &format!("resourceVersion={}", last.unwrap())] {
        let list = world.client.get(&choice.path(query)).await;
        assert!(maps.items(&list).1.iter().all(|item| item.key.namespace() == "ns1"), "{query}");
    }
}
