//! Who may read what: nobody receives an object that upstream would not have given them, and a refusal is upstream's own.

use std::time::{Duration, Instant};

use tokio::time::timeout;
use weir_proxy::auth::DecisionLimits;
use weir_sim::{RequestLine, Right, User};

use crate::client::{Client, LIMIT, Whole};
use crate::truth::Choice;
use crate::world::{BOB, World};

const SHARD: &str = "shardSelector=shardRange(object.metadata.uid,%270x0%27,%270x8000000000000000%27)";

/// Weir passes a read through, and the answer is upstream's own.
async fn passes(world: &World, ours: &Client, theirs: &Client, path: &str) -> u16 {
    let (ours, theirs) = (ours.get(path).await, theirs.get(path).await);
    assert!(ours.answered_by().starts_with("passed; "), "{path}: {}", ours.answered_by());
    assert_eq!((ours.code, ours.text()), (theirs.code, theirs.text()), "{path}");
    assert_eq!(ours.headers.get("content-type"), theirs.headers.get("content-type"));
    world.requests();
    ours.code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_without_rights_get_upstreams_own_refusal() {
    let world = World::start(61).await;
    world.churn(50);
    let (bob, there) = (world.client.with_token(BOB), world.upstream(0).with_token(BOB));
    for path in [
        "/api/v1/pods?resourceVersion=0",
        "/api/v1/namespaces/team-0/pods?resourceVersion=0",
        "/api/v1/configmaps?resourceVersion=0",
        "/api/v1/namespaces/team-1/configmaps?resourceVersion=0&limit=2",
        "/api/v1/namespaces/team-1/configmaps?watch=1&resourceVersion=0",
        "/api/v1/namespaces/team-1/configmaps/settings-1?resourceVersion=0",
        "/api/v1/watch/namespaces/team-1/configmaps?resourceVersion=0",
        "/api/v1/nodes?watch=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        "/apis/metering.weir.test/v1/gauges?resourceVersion=0",
    ] {
        assert_eq!(passes(&world, &bob, &there, path).await, 403, "{path}");
    }
    let own = "/api/v1/namespaces/team-0/configmaps?resourceVersion=0";
    bob.get(own).await.mirrored();
    bob.watch(&format!("{own}&watch=1")).await.mirrored();
    bob.get("/api/v1/namespaces/team-0/configmaps/settings-0?resourceVersion=0").await.mirrored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_tokens_and_no_tokens_are_upstreams_matter() {
    let world = World::start(62).await;
    let there = world.upstream(1);
    let path = "/api/v1/pods?resourceVersion=0";
    let unknown = (world.client.with_token("nobody"), there.with_token("nobody"));
    assert_eq!(passes(&world, &unknown.0, &unknown.1, path).await, 401);
    let anonymous = (world.client.anonymous(), there.anonymous());
    assert_eq!(passes(&world, &anonymous.0, &anonymous.1, path).await, 403);
    let basic = (anonymous.0.with_header("authorization", "Basic Ym9iOmJvYg=="), anonymous.1);
    let basic = (basic.0, basic.1.with_header("authorization", "Basic Ym9iOmJvYg=="));
    passes(&world, &basic.0, &basic.1, path).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au01_impersonation_is_passed_on_and_judged_by_upstream() {
    let world = World::start(63).await;
    // Each instance has a newest state of its own.
    let exact = format!("resourceVersion={}&resourceVersionMatch=Exact", world.head());
    let path = &format!("/api/v1/namespaces/team-0/configmaps?{exact}");
    for name in ["impersonate-user", "Impersonate-User", "IMPERSONATE-USER"] {
        let as_bob = (world.client.with_header(name, "bob"), world.upstream(0).with_header(name, "bob"));
        assert_eq!(passes(&world, &as_bob.0, &as_bob.1, path).await, 200, "{name}");
        assert_eq!(
            passes(&world, &as_bob.0, &as_bob.1, "/api/v1/pods?resourceVersion=0").await,
            403,
            "{name}"
        );
    }
    let (bob, there) = (world.client.with_token(BOB), world.upstream(0).with_token(BOB));
    for (name, value) in [
        ("impersonate-user", "admin"),
        ("impersonate-group", "system:masters"),
        ("impersonate-uid", "uid-admin"),
    ] {
        let (ours, theirs) = (bob.with_header(name, value), there.with_header(name, value));
        assert_ne!(passes(&world, &ours, &theirs, path).await, 200, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shard_selectors_of_callers_without_rights_are_refused_and_never_seen_upstream() {
    let world = World::start(64).await;
    let (bob, there) = (world.client.with_token(BOB), world.upstream(0).with_token(BOB));
    let encoded = "%73hardSelector=shardRange(object.metadata.uid,%270x0%27,%270x8%27)";
    for (path, selector) in [
        ("/api/v1/pods?resourceVersion=0", SHARD),
        ("/api/v1/pods?watch=1&resourceVersion=0", SHARD),
        ("/api/v1/pods?limit=3", SHARD),
        ("/api/v1/pods?resourceVersion=0", encoded),
        ("/api/v1/pods?resourceVersion=0", "shardSelector=nonsense"),
    ] {
        let ours = bob.get(&format!("{path}&{selector}")).await;
        let theirs = there.get(path).await;
        assert_eq!((ours.code, ours.text()), (403, theirs.text()), "{path}");
        let anonymous = world.client.anonymous().get(&format!("{path}&{selector}")).await;
        assert_eq!(anonymous.text(), world.upstream(0).anonymous().get(path).await.text());
        let unknown = world.client.with_token("nobody").get(&format!("{path}&{selector}")).await;
        assert_eq!(unknown.code, 401, "{}", unknown.text());
    }
    // Somebody upstream would let, but whom weir cannot have judged.
    let impersonated = world.client.with_header("impersonate-user", "admin");
    let answer = impersonated.get(&format!("/api/v1/pods?resourceVersion=0&{SHARD}")).await;
    answer.refused(429, "TooManyRequests");
    let saw = world.requests();
    let named: Vec<_> = saw.iter().filter(|line| line.uri.to_lowercase().contains("hardselector")).collect();
    assert!(named.is_empty(), "{named:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au07_rights_that_are_given_count_at_once_and_rights_that_are_taken_within_seconds() {
    let world = World::start(65).await;
    let pods = Choice::all(&world.collection("pods")).path("resourceVersion=0");
    let bob = world.client.with_token(BOB);
    let may = || User::named("bob").may(Right::new(&["list", "watch"], "", &["pods"]));
    assert_eq!(bob.get(&pods).await.code, 403);
    world.sim.with_users(|users| users.set(BOB, may()));
    let mark = world.mark();
    // Upstream answers until it is asked again whether the mirror may.
    until(&bob, &pods, |answer| {
        assert_eq!(answer.code, 200);
        answer.is_mirrored()
    })
    .await;
    bob.get(&pods).await.mirrored();
    let is_review = |line: &&RequestLine| line.uri.contains("selfsubjectaccessreviews");
    assert_eq!(world.since(mark).iter().filter(is_review).count(), 1, "a yes counts for the next one too");
    world.sim.with_users(|users| users.set(BOB, User::named("bob")));
    until(&bob, &pods, |answer| answer.code == 403).await;
    world.sim.with_users(|users| users.set(BOB, may()));
    until(&bob, &pods, Whole::is_mirrored).await;
    world.sim.with_users(|users| users.revoke(BOB));
    until(&bob, &pods, |answer| answer.code == 401).await;
}

/// A node as kube-apiserver's authorizer for nodes judges it: its own pods by selector, and nothing else of them.
fn of_node(name: &str) -> User {
    let own = Right::new(&["list", "watch"], "", &["pods"]).selecting(&format!("spec.nodeName={name}"));
    User { groups: vec!["system:nodes".to_owned()], ..User::named(&format!("system:node:{name}")).may(own) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au05_what_a_selector_allows_is_allowed_with_this_selector_only() {
    let world = World::start(68).await;
    for name in ["node-0", "node-1"] {
        world.sim.with_users(|users| users.set(name, of_node(name)));
    }
    let (node, there) = (world.client.with_token("node-0"), world.upstream(0).with_token("node-0"));
    let own = "/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-0";
    assert!(node.get(own).await.mirrored().text().contains(r#""nodeName":"node-0""#));
    node.get("/api/v1/namespaces/team-0/pods?fieldSelector=spec.nodeName=node-0,status.phase=Running&resourceVersion=0")
        .await
        .mirrored();
    node.watch(&format!("{own}&watch=1")).await.mirrored();
    for path in [
        "/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-1",
        "/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-1&watch=1",
        "/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%21%3Dnode-0",
        "/api/v1/pods?resourceVersion=0",
        "/api/v1/pods?resourceVersion=0&watch=1",
        "/api/v1/watch/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-0",
    ] {
        assert_eq!(passes(&world, &node, &there, path).await, 403, "{path}");
    }
    // A yes to one node is none to another, and none to the same for less.
    let other = world.client.with_token("node-1");
    assert_eq!(other.get(own).await.code, 403);
    other.get("/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-1").await.mirrored();
}

/// Asks until the answer is as wanted.
async fn until(client: &Client, path: &str, is_so: impl Fn(&Whole) -> bool) {
    let asked = async {
        let mut tick = tokio::time::interval(Duration::from_millis(20));
        while !is_so(&client.get(path).await) {
            tick.tick().await;
        }
    };
    timeout(LIMIT, asked).await.expect("in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_upstream_is_gone_its_last_word_counts_and_nobody_else_is_let_in() {
    let world = World::start(67).await;
    let own = "/api/v1/namespaces/team-0/configmaps?resourceVersion=0";
    let bob = world.client.with_token(BOB);
    bob.get(own).await.mirrored();
    let decided = Instant::now();
    for instance in [0, 1] {
        world.kill(instance);
    }
    // Past the seconds for which a yes counts by itself.
    until(&bob, own, |answer| {
        assert_eq!(answer.code, 200, "{}", answer.text());
        answer.is_mirrored() && decided.elapsed() > DecisionLimits::default().allowed + Duration::from_secs(1)
    })
    .await;
    for path in [
        "/api/v1/namespaces/team-0/configmaps?resourceVersion=0&watch=1",
        "/api/v1/namespaces/team-1/configmaps?resourceVersion=0",
        "/api/v1/pods?resourceVersion=0",
    ] {
        bob.get(path).await.refused(503, "ServiceUnavailable");
    }
    world.client.with_token("nobody").get(own).await.refused(503, "ServiceUnavailable");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au12_a_path_means_the_same_to_the_check_and_to_upstream() {
    let world = World::start(66).await;
    let (bob, there) = (world.client.with_token(BOB), world.upstream(0).with_token(BOB));
    for path in [
        "/api/v1/namespaces/team-0/%70ods",
        "/api/v1/namespaces//pods",
        "/api/v1/namespaces/team-0/../team-1/configmaps",
        "/api/v1/namespaces/team-0/%2e%2e/pods",
        "/api/v1/namespaces/team-0/configmaps%2f..%2fpods",
        "/api/v1/namespaces/team-0%2fpods",
        "/api/v1/namespaces/team-0/configmaps;x",
        "/api/v1/namespaces/team-0/CONFIGMAPS",
        "/api//v1/pods",
        "/api/v1/pods/",
        "//api/v1/pods",
    ] {
        for query in ["", "?resourceVersion=0", "?watch=1&resourceVersion=0&timeoutSeconds=1"] {
            let path = format!("{path}{query}");
            let (ours, theirs) = (bob.get(&path).await, there.get(&path).await);
            assert!(!ours.is_mirrored(), "{path}");
            assert_eq!((ours.code, ours.text()), (theirs.code, theirs.text()), "{path}");
        }
    }
}
