//! Clients that show a certificate: weir verifies them, asks upstream for their rights in its own name, and passes them on under
//! theirs.

use bytes::Bytes;
use serde_json::json;

use crate::client::{Client, LIMIT};
use crate::truth::Choice;
use crate::world::{ADMIN, BOB, World};

const OWN: &str = "/api/v1/namespaces/team-0/configmaps?resourceVersion=0";
const FOREIGN: &str = "/api/v1/pods?resourceVersion=0";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn world(seed: u64) -> World {
    World::with(seed, |settings| settings.has_certificates = true).await
}

/// Whom upstream takes the client for.
async fn who(client: &Client) -> serde_json::Value {
    let answer = client.send("POST", WHO, Bytes::from_static(b"{}")).await.whole().await;
    assert_eq!(answer.code, 201, "{}", answer.text());
    answer.json()["status"]["userInfo"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au13_a_client_with_a_certificate_is_the_user_that_it_names_in_mirrors_and_at_upstream() {
    let world = world(191).await;
    let bob = world.client.anonymous().showing(world.pki().client("bob", &["devs", "ops"]));
    bob.get(OWN).await.mirrored();
    let there = world.upstream(0).with_token(BOB);
    for path in [FOREIGN, "/api/v1/namespaces/team-1/configmaps?watch=1&resourceVersion=0", "/api/v1/nodes/x"]
    {
        let (ours, theirs) = (bob.get(path).await, there.get(path).await);
        assert_eq!((ours.code, ours.text()), (403, theirs.text()), "{path}");
    }
    let user = who(&bob).await;
    assert_eq!(user["username"], "bob");
    assert_eq!(user["uid"], "7-7");
    assert_eq!(user["groups"], json!(["devs", "ops", "system:authenticated"]));
    let credential = &user["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(credential.as_str().is_some_and(|id| id.starts_with("X509SHA256=") && id.len() == 75), "{user}");
    bob.send("POST", "/api/v1/namespaces/team-0/configmaps", Bytes::from_static(b"{}")).await.whole().await;
    let writes =
        world.requests().into_iter().filter(|line| line.verb == "create" && line.uri.ends_with("configmaps"));
    assert_eq!(writes.map(|line| (line.user, line.code)).collect::<Vec<_>>(), [("bob".to_owned(), 403)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au13_a_watch_with_a_certificate_is_answered_by_the_mirror_and_goes_on() {
    let world = world(192).await;
    let maps = world.collection("configmaps");
    let bob = world.client.anonymous().showing(world.pki().client("bob", &[]));
    let path =
        Choice::all(&maps).in_namespace("team-0").path(&format!("watch=1&resourceVersion={}", world.head()));
    let mut stream = bob.watch(&path).await.mirrored();
    let written = world.create("team-0", "seen");
    assert_eq!(stream.change().await.version.rv, written);
    // One review for the watch, and one for all the lists of a few seconds; all of them are weir's own.
    for _ in 0..10 {
        bob.get(OWN).await.mirrored();
    }
    let reviews = world.requests().into_iter().filter(|line| line.uri.contains("accessreviews"));
    let reviews: Vec<_> = reviews.map(|line| (line.uri, line.user)).collect();
    assert!((2..10).contains(&reviews.len()), "{reviews:?}");
    for (uri, user) in reviews {
        assert_eq!((uri.rsplit('/').next(), user.as_str()), (Some("subjectaccessreviews"), ADMIN));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au13_a_certificate_wins_over_a_token_and_one_that_is_not_trusted_counts_for_nothing() {
    let world = world(193).await;
    let (pki, admin) = (world.pki(), &world.client);
    let both = admin.showing(pki.client("bob", &[]));
    assert_eq!(both.get(FOREIGN).await.code, 403, "the token is not looked at");
    assert_eq!(who(&both).await["username"], "bob");
    let theirs = world.upstream(0).with_token("of-nobody").get(FOREIGN).await;
    for shown in [pki.stranger("admin"), pki.expired("admin")] {
        let alone = admin.anonymous().showing(shown.clone());
        for path in [FOREIGN, "/api/v1/services", "/healthz"] {
            let refused = alone.get(path).await;
            assert_eq!((refused.code, refused.text()), (401, theirs.text()), "{path}");
            assert_eq!(refused.headers["content-type"], theirs.headers["content-type"]);
        }
        let with_token = admin.with_token(BOB).showing(shown);
        with_token.get(OWN).await.mirrored();
        assert_eq!(who(&with_token).await["username"], "bob");
    }
    assert_eq!(admin.anonymous().get(FOREIGN).await.code, 403, "who shows nothing is anonymous");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au02_a_client_with_a_certificate_cannot_say_more_of_itself_than_that_says() {
    let world = world(194).await;
    let bob = world.client.anonymous().showing(world.pki().client("bob", &["devs"]));
    let honest = who(&bob).await;
    for (name, value) in [
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x_remote_group", "system:masters"),
        ("x-remote.group", "system:masters"),
        ("x-remote-uid", "0"),
        ("x-remote-extra-authentication.kubernetes.io%2fcredential-id", "X509SHA256=00"),
        ("x-remote-extra-scopes", "all"),
    ] {
        let claiming = bob.with_header(name, value);
        assert_eq!(who(&claiming).await, honest, "{name}");
        assert_eq!(claiming.get(FOREIGN).await.code, 403, "{name}");
    }
    let one_hop = bob.speaking(crate::client::Protocol::Http1);
    let one_hop = one_hop.with_header("connection", "x-remote-user, x-remote-group, close");
    assert_eq!(who(&one_hop).await, honest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn au13_an_upstream_that_does_not_believe_weir_is_told_nothing_of_users() {
    let world = world(195).await;
    world.sim.with_users(weir_sim::Users::distrust_front_proxies);
    let admin = world.client.anonymous().showing(world.pki().client("admin", &["system:masters"]));
    let refused = admin.get("/api/v1/services").await;
    assert_eq!(
        (refused.code, refused.headers.contains_key("retry-after")),
        (503, true),
        "{}",
        refused.text()
    );
    assert!(world.requests().iter().all(|line| !line.uri.ends_with("services")), "it never went out");
    // Others are not touched, and what is decided by weir's own question is not either.
    assert_eq!(world.client.get("/api/v1/services").await.code, 200);
    admin.get(FOREIGN).await.mirrored();
    world.sim.with_users(|users| users.trust_front_proxy(&world.pki().front));
    let back =
        tokio::time::timeout(LIMIT, async { while admin.get("/api/v1/services").await.code != 200 {} });
    back.await.expect("it is believed again");
}
