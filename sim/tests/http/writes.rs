//! Writes.

use crate::fixture::Fixture;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn an_object_lives() {
    let fixture = Fixture::start().await;
    let client = fixture.client(0);
    let created = client.send("POST", CONFIG_MAPS, r#"{"metadata":{"name":"web"},"data":{"k":"1"}}"#).await;
    assert_eq!(created.code, 201);
    let object: serde_json::Value = serde_json::from_str(&created.body().await.0).unwrap();
    let path = format!("{CONFIG_MAPS}/web");
    let patched = client.send("PATCH", &path, r#"{"data":{"k":"2","l":"3"}}"#).await;
    assert_eq!(patched.code, 200);
    let (_, text) = client.text(&path).await;
    assert!(text.contains(r#""data":{"k":"2","l":"3"}"#), "{text}");
    let stale = client.send("PUT", &path, &object.to_string()).await;
    assert_eq!(stale.code, 409);
    let conflict = stale.body().await.0;
    assert!(
        conflict.contains("Operation cannot be fulfilled on configmaps \\\"web\\\": the object has been"),
        "{conflict}"
    );
    let updated = client.send("PUT", &path, r#"{"metadata":{"name":"web"},"data":{"k":"4"}}"#).await;
    assert_eq!(updated.code, 200);
    let gone = client.send("DELETE", &path, "").await;
    assert_eq!(gone.code, 200);
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let expected = format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\"Success\",\"details\":\
         {{\"name\":\"web\",\"kind\":\"configmaps\",\"uid\":\"{uid}\"}}}}\n"
    );
    assert_eq!(gone.body().await.0, expected);
    assert_eq!(client.text(&path).await.0, 404);
}

#[tokio::test]
async fn a_status_is_written_apart() {
    let fixture = Fixture::start().await;
    fixture.create("gauges.metering.weir.test", "g");
    let path = "/apis/metering.weir.test/v1/namespaces/default/gauges/g/status";
    let patch = r#"{"spec":{"unit":"ms"},"status":{"value":3}}"#;
    let text = fixture.client(0).send("PATCH", path, patch).await.body().await.0;
    assert!(text.contains(r#""status":{"value":3}"#) && !text.contains("unit"), "{text}");
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let fixture = Fixture::start().await;
    let client = fixture.client(0);
    for (name, app) in [("a", "web"), ("b", "db"), ("c", "web")] {
        let body = format!(r#"{{"metadata":{{"name":"{name}","labels":{{"app":"{app}"}}}}}}"#);
        assert_eq!(client.send("POST", CONFIG_MAPS, &body).await.code, 201);
    }
    let answer = client.send("DELETE", &format!("{CONFIG_MAPS}?labelSelector=app%3Dweb"), "").await;
    assert_eq!(answer.code, 200);
    let (_, left) = client.text(CONFIG_MAPS).await;
    assert!(left.contains("\"name\":\"b\"") && !left.contains("\"name\":\"a\""), "{left}");
}

#[tokio::test]
async fn bodies_that_are_not_understood_are_refused() {
    let fixture = Fixture::start().await;
    let client = fixture.client(0);
    let yaml = ("Content-Type: application/yaml\r\n", "a: b");
    assert_eq!(client.send_with("POST", CONFIG_MAPS, yaml).await.code, 415);
    assert_eq!(client.send("POST", CONFIG_MAPS, "{").await.code, 400);
    assert_eq!(client.send("POST", CONFIG_MAPS, "{}").await.code, 422);
    assert_eq!(client.send("POST", CONFIG_MAPS, r#"{"kind":"Pod"}"#).await.code, 400);
    assert_eq!(client.send("PATCH", CONFIG_MAPS, "{}").await.code, 405);
}
