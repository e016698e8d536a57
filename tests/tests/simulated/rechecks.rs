//! Open watches end when their clients may not have more of them, cleanly and at once where upstream says what has changed.

use std::time::{Duration, Instant};

use weir_core::GroupVersionResource;
use weir_proxy::auth::StandingLimits;
use weir_sim::{Node, Op, Preconditions, ResourceInfo, Right, Scope, Sim, StoreKey, User};

use crate::client::Client;
use crate::stream::{Event, Watching};
use crate::world::{ADMIN, BOB, World};

const OWN: &str = "/api/v1/namespaces/team-0/configmaps?watch=1&resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";

/// A world whose questions are asked again after this time.
async fn world(seed: u64, soonest: Duration) -> World {
    World::with(seed, |settings| {
        settings.rechecks = (StandingLimits { soonest, ..StandingLimits::default() }, 20);
        settings.before = with_bindings;
    })
    .await
}

/// Upstream has role bindings, and one of Bob's.
fn with_bindings(sim: &Sim) {
    let bindings = GroupVersionResource::new("rbac.authorization.k8s.io", "v1", "rolebindings");
    let info = ResourceInfo::built_in(bindings, "RoleBinding", Scope::Namespaced);
    let resource = sim.with(|cluster| cluster.register(info));
    let body = r#"{"metadata":{"name":"readers"},"roleRef":{"kind":"ClusterRole","name":"reader"},
        "subjects":[{"kind":"User","name":"bob"}]}"#;
    let body = Node::parse(body.as_bytes()).unwrap();
    sim.apply(Op::Create { resource, namespace: Some("team-0".to_owned()), body }).unwrap();
}

/// Takes somebody's right, as the deletion of the binding does that gave it.
fn unbind(world: &World) {
    world.sim.with_users(|users| users.set(BOB, User::named("bob")));
    let resource = world.sim.resource("rolebindings.rbac.authorization.k8s.io").unwrap();
    let key = StoreKey::new(Some("team-0"), "readers");
    world.sim.apply(Op::Delete { resource, key, only_if: Preconditions::default() }).unwrap();
}

/// The next event is the end, as it should be, however long after the last one.
async fn ends(watch: &mut Watching) {
    assert_eq!(watch.next().await, Event::End);
}

/// Opens it and lets it show a change.
async fn watch(world: &World, client: &Client) -> Watching {
    let mut watch = client.watch(OWN).await.mirrored();
    let patch = format!(r#"{{"data":{{"n":"{}"}}}}"#, world.head());
    let changed = world.patch("team-0", "settings-0", &patch);
    while watch.change().await.version.rv != changed {}
    watch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au07_a_watch_ends_cleanly_when_its_right_is_taken() {
    let world = world(71, Duration::from_millis(200)).await;
    let bob = world.client.with_token(BOB);
    let (mut kept, mut lost) = (watch(&world, &world.client).await, watch(&world, &bob).await);
    world.sim.with_users(|users| users.set(BOB, User::named("bob")));
    ends(&mut lost).await;
    assert_eq!(bob.get(OWN).await.code, 403, "and its client is told why");
    let last = world.patch("team-0", "settings-0", r#"{"data":{"n":"last"}}"#);
    while kept.change().await.version.rv != last {}
    assert_eq!(world.metric(r#"weir_rights_lost_total{why="denied"}"#), 1.0);
    assert_eq!(world.metric("weir_recheck_period_seconds"), 0.2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au07_a_watch_ends_when_its_certificate_does_though_upstream_still_says_yes() {
    let world = World::with(75, |settings| {
        let soonest = Duration::from_millis(200);
        settings.rechecks = (StandingLimits { soonest, ..StandingLimits::default() }, 20);
        settings.has_certificates = true;
    })
    .await;
    let bob = world.client.anonymous();
    let lasting = bob.showing(world.pki().client("bob", &[]));
    let expiring = bob.showing(world.pki().expiring("bob", Duration::from_secs(4)));
    let (mut kept, mut lost) = (watch(&world, &lasting).await, watch(&world, &expiring).await);
    while lost.next().await != Event::End {}
    assert_eq!(expiring.get(OWN).await.code, 401, "and its client is told why");
    let last = world.patch("team-0", "settings-0", r#"{"data":{"n":"last"}}"#);
    while kept.change().await.version.rv != last {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au08_a_watch_ends_when_its_token_is_taken_back() {
    let world = world(72, Duration::from_millis(200)).await;
    let bob = world.client.with_token(BOB);
    let mut watch = watch(&world, &bob).await;
    world.sim.with_users(|users| users.revoke(BOB));
    ends(&mut watch).await;
    assert_eq!(bob.get(OWN).await.code, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au07_whom_a_deleted_binding_names_is_asked_about_before_a_thousand_others() {
    const OTHERS: usize = 1_000;
    let world = world(73, Duration::from_secs(5)).await;
    world.until("bindings are watched", || world.metric("weir_recheck_kinds_watched") == 3.0).await;
    let mut others = Vec::new();
    for half in 0..2 {
        let client = world.client.with_token(ADMIN).alone();
        for number in 0..OTHERS / 2 {
            let path = format!("{OWN}&labelSelector=number%21%3D{half}-{number}");
            others.push(client.open(&path).await);
        }
    }
    let mut bob = watch(&world, &world.client.with_token(BOB)).await;
    let questions = || world.metric("weir_recheck_questions");
    world.until("all stand", || questions() == (OTHERS + 1) as f64).await;
    assert!(world.metric("weir_recheck_period_seconds") > 50.0, "the round is long");
    let (mark, began) = (world.mark(), Instant::now());
    unbind(&world);
    ends(&mut bob).await;
    let since = world.since(mark);
    let asked = since.iter().filter(|line| line.uri.contains("selfsubjectaccessreviews")).count();
    assert!(began.elapsed() < Duration::from_secs(10) && asked < 200, "{asked} in {:?}", began.elapsed());
    assert_eq!(questions(), OTHERS as f64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au07_without_any_answer_a_watch_ends_after_a_while_and_not_before() {
    let unanswered = Duration::from_secs(3);
    let world = World::with(74, |settings| {
        let limits = StandingLimits { soonest: Duration::from_millis(100), unanswered };
        settings.rechecks = (limits, 20);
    })
    .await;
    let mut watch = watch(&world, &world.client.with_token(BOB)).await;
    let began = Instant::now();
    for instance in [0, 1] {
        world.kill(instance);
    }
    ends(&mut watch).await;
    let lasted = began.elapsed();
    assert!(lasted > unanswered - Duration::from_secs(1), "{lasted:?}");
    assert_eq!(world.metric(r#"weir_rights_lost_total{why="unanswered"}"#), 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au07_the_budget_is_kept_however_many_watches_there_are() {
    let world = World::with(75, |settings| {
        let limits = StandingLimits { soonest: Duration::from_millis(10), ..StandingLimits::default() };
        settings.rechecks = (limits, 5);
    })
    .await;
    let right = Right::new(&["watch"], "", &["configmaps"]);
    world.sim.with_users(|users| users.set("eve", User::named("eve").may(right)));
    let mut watches = Vec::new();
    for number in 0..60 {
        watches
            .push(world.client.with_token("eve").open(&format!("{OWN}&labelSelector=n%21%3D{number}")).await);
    }
    let began = Instant::now();
    let before = world.metric(r#"weir_rechecks_total{answer="allowed"}"#);
    let asked = || world.metric(r#"weir_rechecks_total{answer="allowed"}"#) - before;
    world.until("ten more", || asked() >= 10.0).await;
    let (count, seconds) = (asked(), began.elapsed().as_secs_f64());
    assert!(count <= 5.0 * seconds + 5.0 + 1.0, "{count} in {seconds} s");
}
