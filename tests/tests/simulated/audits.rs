//! Answers of a mirror that upstream's audit log does not have are in weir's; what cannot be in it is upstream's to answer.

use serde_json::{Value, json};

use crate::stream::Event;
use crate::world::{BOB, World};

const OWN: &str = "/api/v1/namespaces/team-0/configmaps?resourceVersion=0";

async fn world(seed: u64) -> World {
    World::with(seed, |settings| settings.audited = Some("configmaps")).await
}

/// The events of the log.
fn events(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.audit_log()).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// So many events, once they are there.
async fn at_last(world: &World, count: usize) -> Vec<Value> {
    world.until("all events are written", || events(world).len() >= count).await;
    let events = events(world);
    assert_eq!(events.len(), count, "{events:#?}");
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_mirror_answers_is_audited_and_what_upstream_answers_is_not() {
    let world = world(81).await;
    let bob = world.client.with_token(BOB).with_header("audit-id", "by-the-client");
    let list = bob.get(OWN).await.mirrored();
    assert_eq!(list.headers["audit-id"], "by-the-client");
    let [event] = &at_last(&world, 1).await[..] else { unreachable!("one was counted") };
    let (received, reached) = (&event["requestReceivedTimestamp"], &event["stageTimestamp"]);
    assert!(received.as_str() <= reached.as_str() && received.as_str().unwrap().ends_with('Z'), "{event}");
    let expected = json!({
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "by-the-client",
        "stage": "ResponseComplete", "requestURI": OWN, "verb": "list",
        "user": {"username": "bob", "uid": "uid-bob", "groups": ["system:authenticated"]},
        "sourceIPs": ["127.0.0.1"], "userAgent": "weir-tests",
        "objectRef": {"resource": "configmaps", "namespace": "team-0", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": received, "stageTimestamp": reached,
        "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""},
    });
    assert_eq!(*event, expected);
    // Another kind, another's words, and a refusal.
    world.client.get("/api/v1/pods?resourceVersion=0").await.mirrored();
    assert_eq!(bob.get("/api/v1/namespaces/team-1/configmaps?resourceVersion=0").await.code, 403);
    let mut watch = bob.watch(&format!("{OWN}&watch=1&timeoutSeconds=1")).await.mirrored();
    while watch.next().await != Event::End {}
    world.client.get(&format!("{OWN}&fieldSelector=nonsense%3D1")).await.refused(400, "BadRequest");
    let events = at_last(&world, 4).await;
    let said = |event: &Value| {
        let of = |path: &str| event.pointer(path).unwrap().to_string();
        format!("{} {} {}", of("/stage"), of("/verb"), of("/responseStatus/code"))
    };
    let said: Vec<_> = events.iter().skip(1).map(said).collect();
    let watch = [r#""ResponseStarted" "watch" 200"#, r#""ResponseComplete" "watch" 200"#];
    assert_eq!(said, [watch[0], watch[1], r#""ResponseComplete" "list" 400"#]);
    assert_eq!(events[3]["responseStatus"]["reason"], "BadRequest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_events_cannot_be_written_upstream_answers() {
    let world = world(82).await;
    let up = || world.metric(r#"weir_audit_up{sink="file"}"#);
    assert_eq!(up(), 1.0);
    let directory = world.audit_log().parent().unwrap().to_owned();
    std::fs::remove_dir_all(&directory).unwrap();
    world.client.get(OWN).await.mirrored();
    world.until("the sink is down", || up() == 0.0).await;
    let passed = world.client.get(OWN).await;
    assert_eq!((passed.code, passed.answered_by()), (200, "passed; audit"));
    world.client.get("/api/v1/pods?resourceVersion=0").await.mirrored();
    std::fs::create_dir(&directory).unwrap();
    world.until("the sink is up", || up() == 1.0).await;
    world.client.get(OWN).await.mirrored();
    at_last(&world, 2).await;
}
