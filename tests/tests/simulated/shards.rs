//! Shard selectors: parts that join to the whole and do not overlap, on every form that weir serves; a refusal on the others,
//! because upstream might answer with everything.

use std::collections::BTreeSet;

use weir_tests::checker::Listing;

use crate::client::header;
use crate::stream::Event;
use crate::truth::{Choice, Sixteenths};
use crate::world::World;

const HALF: &str =
    "shardSelector=shardRange(object.metadata.uid,%270x0000000000000000%27,%270x8000000000000000%27)";

/// So many parts of the whole.
fn parts(count: u8) -> Vec<Sixteenths> {
    let bound = |part: u8| u8::try_from(u16::from(part) * 16 / u16::from(count)).unwrap();
    (0..count).map(|part| Sixteenths { from: bound(part), to: bound(part + 1) }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sh01_parts_join_to_the_whole_in_lists_pages_and_watch_lists() {
    let world = World::start(71).await;
    world.churn(100);
    for name in ["pods", "nodes", "gauges.metering.weir.test"] {
        let collection = world.collection(name);
        world.settled(&collection).await;
        let truth = collection.truth(&world.sim);
        let whole = truth.now().snapshot(truth.now().last()).len();
        let mark = world.mark();
        for count in [1, 2, 3, 4, 7, 16] {
            let (mut listed, mut streamed) = (Vec::new(), Vec::new());
            for range in parts(count) {
                let choice = Choice::all(&collection).uids(range);
                let list = world.client.get(&choice.path("resourceVersion=0")).await.mirrored();
                let (meta, items) = collection.items(&list);
                let selector = list.json()["metadata"]["shardInfo"]["selector"].as_str().unwrap().to_owned();
                assert_eq!(selector, header(&list.headers, "weir-shard-selector"));
                assert!(selector.contains(&format!("'0x{:016x}'", u128::from(range.to) << 60)), "{selector}");
                let listing = Listing { at: meta.at(), items, ..Listing::default() };
                truth.check_list(&choice, &listing);
                listed.extend(listing.items.iter().map(|item| item.uid.clone()));
                let path = choice.path(
                    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0\
                     &allowWatchBookmarks=true",
                );
                let mut stream = world.client.watch(&path).await.mirrored();
                assert_eq!(header(&stream.headers, "weir-shard-selector"), selector);
                for line in stream.initial_lines().await {
                    if let Event::Change(seen) = Event::parse(&line) {
                        streamed.push(seen.version.uid);
                    }
                }
            }
            assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), listed.len(), "no overlap");
            assert_eq!(listed.len(), whole, "no hole");
            assert_eq!(listed, streamed);
        }
        world.answered_by_weir(mark);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sh07_objects_without_a_namespace_lie_in_the_part_of_the_empty_text() {
    let world = World::start(72).await;
    let nodes = world.collection("nodes");
    let mut counts = Vec::new();
    for range in parts(16) {
        let choice = Choice::all(&nodes).namespaces(range);
        let list = world.client.get(&choice.path("resourceVersion=0")).await.mirrored();
        counts.push(nodes.items(&list).1.len());
    }
    let mut expected = vec![0; 16];
    // FNV-1a of no bytes begins with 0xc.
    expected[0xc] = 5;
    assert_eq!(counts, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sh03_broken_selectors_are_400_before_any_stream() {
    let world = World::start(73).await;
    let range = |field: &str, from: &str, to: &str| format!("shardRange({field},{from},{to})");
    let (uid, low, high) = ("object.metadata.uid", "'0x0000000000000000'", "'0x8000000000000000'");
    let broken = [
        range(uid, high, low),
        range(uid, low, low),
        range(uid, low, "'0xABCDEF0000000000'"),
        range(uid, low, "'0x20000000000000000'"),
        range(uid, low, "'8000000000000000'"),
        range(uid, low, "0x8000000000000000"),
        range("object.metadata.name", low, high),
        format!("shardRange({uid},{low})"),
        format!("!{}", range(uid, low, high)),
        format!("{}%26%26{}", range(uid, low, high), range(uid, low, high)),
        format!("{}||{}", range(uid, low, high), range("object.metadata.namespace", low, high)),
        "other(object.metadata.uid)".to_owned(),
        "true".to_owned(),
        "%2Fzz".to_owned(),
    ];
    for selector in broken {
        let selector = selector.replace('\'', "%27").replace('|', "%7C");
        for query in ["resourceVersion=0", "watch=1&resourceVersion=0", "limit=2", ""] {
            let answer = world.client.get(&format!("/api/v1/pods?{query}&shardSelector={selector}")).await;
            answer.refused(400, "BadRequest");
            assert!(answer.is_mirrored(), "{selector}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sh10_a_selector_in_a_pair_that_cannot_be_decoded_is_400() {
    let world = World::start(74).await;
    for pair in ["shardSelector=%zz", "shardSelector=a%", "shardSelector=a;b", "shardSelector%zz=a"] {
        for query in ["resourceVersion=0", "watch=1&resourceVersion=0"] {
            let answer = world.client.get(&format!("/api/v1/pods?{query}&{pair}")).await;
            assert_eq!(answer.code, 400, "{pair}: {} {}", answer.answered_by(), answer.text().len());
        }
    }
    let spelled = "%73hard%53elector=shardRange(object.metadata.uid%2C'0x0'%2C'0x8')";
    world.client.get(&format!("/api/v1/pods?resourceVersion=0&{spelled}")).await.mirrored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sh02_forms_that_weir_cannot_serve_are_406_with_a_selector() {
    let world = World::start(75).await;
    let mark = world.mark();
    for accept in [
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/cbor",
    ] {
        let client = world.client.with_header("accept", accept);
        for path in
            ["/api/v1/pods?resourceVersion=0", "/api/v1/pods?watch=1&resourceVersion=0", "/api/v1/pods?"]
        {
            let answer = client.get(&format!("{path}&{HALF}")).await;
            assert_eq!(answer.code, 406, "{accept}: {}", answer.answered_by());
        }
    }
    for path in
        ["/api/v1/services?", "/api/v1/secrets?", "/api/v1/events?watch=1", "/apis/apps/v1/deployments?"]
    {
        let answer = world.client.get(&format!("{path}&{HALF}")).await;
        answer.refused(406, "NotAcceptable");
    }
    world.answered_by_weir(mark);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sh09_a_deletion_of_a_part_deletes_nothing() {
    let world = World::start(76).await;
    let maps = world.collection("configmaps");
    let before = world.head();
    for (path, selector) in [
        ("/api/v1/namespaces/team-0/configmaps", HALF),
        ("/api/v1/namespaces/team-0/configmaps", "shardSelector="),
        ("/api/v1/namespaces/team-0/configmaps", "shardSelector=%zz"),
        ("/api/v1/namespaces/team-0/services", HALF),
    ] {
        let answer = world.client.send("DELETE", &format!("{path}?{selector}"), bytes::Bytes::new()).await;
        let answer = answer.whole().await;
        assert_eq!(answer.code, 400, "{path}?{selector}: {}", answer.text());
    }
    assert_eq!(world.head(), before, "nothing was written");
    assert_eq!(maps.truth(&world.sim).count(&Choice::all(&maps)), 12);
    let saw = world.requests();
    assert!(!saw.iter().any(|line| line.uri.contains("shardSelector")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sh05_events_reach_their_part_and_no_other() {
    let world = World::start(77).await;
    let pods = world.collection("pods");
    let after = world.head();
    let mut streams = Vec::new();
    for range in parts(3) {
        let choice = Choice::all(&pods).uids(range).tier("front");
        let path = choice.path(&format!("watch=1&resourceVersion={after}"));
        streams.push((choice, world.client.watch(&path).await.mirrored()));
    }
    world.churn(150);
    let truth = pods.truth(&world.sim);
    let mut sum = 0;
    for (choice, mut stream) in streams {
        let expected = truth.events(&choice, after);
        sum += expected.len();
        for event in expected {
            assert_eq!(stream.change().await, event);
        }
    }
    assert_eq!(sum, truth.events(&Choice::all(&pods).tier("front"), after).len());
}
