//! Lists, gets, discovery and refusals.

use crate::client::End;
use crate::fixture::Fixture;

#[tokio::test]
async fn a_list_has_upstreams_bytes() {
    let fixture = Fixture::start().await;
    let rv = fixture.create("configmaps", "web");
    let (code, text) =
        fixture.client(0).text("/api/v1/namespaces/default/configmaps?resourceVersion=0").await;
    let start = format!(
        "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{rv}\"}},\
         \"items\":[{{\"metadata\":{{\"name\":\"web\",\"namespace\":\"default\",\"uid\":\""
    );
    assert_eq!(code, 200);
    assert!(text.starts_with(&start), "{text}");
    assert!(text.ends_with("}}]}\n"), "{text}");
    let (_, text) = fixture.client(0).text("/apis/metering.weir.test/v1/gauges").await;
    let empty = format!(
        "{{\"apiVersion\":\"metering.weir.test/v1\",\"items\":[],\"kind\":\"GaugeList\",\
         \"metadata\":{{\"continue\":\"\",\"resourceVersion\":\"{rv}\"}}}}\n"
    );
    assert_eq!(text, empty);
}

#[tokio::test]
async fn pages_follow_their_tokens() {
    let fixture = Fixture::start().await;
    for name in ["a", "b", "c"] {
        fixture.create("configmaps", name);
    }
    let (_, first) = fixture.client(0).text("/api/v1/configmaps?limit=2").await;
    let page: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(page["metadata"]["remainingItemCount"], 1);
    let token = page["metadata"]["continue"].as_str().unwrap();
    fixture.create("configmaps", "d");
    let (_, rest) = fixture.client(1).text(&format!("/api/v1/configmaps?limit=2&continue={token}")).await;
    let rest: serde_json::Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
    assert_eq!(rest["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);
}

#[tokio::test]
async fn faults_in_options_are_upstreams() {
    let fixture = Fixture::start().await;
    for (path, code, message) in [
        ("/api/v1/pods?limit=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax"),
        ("/api/v1/pods?fieldSelector=spec.foo%3Dx", 400, "field label not supported: spec.foo"),
        (
            "/api/v1/pods?resourceVersion=abc",
            400,
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            "/api/v1/pods?watch=1&resourceVersion=abc",
            500,
            "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
        ),
        (
            "/api/v1/pods?sendInitialEvents=1",
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
        ("/api/v1/namespaces/default/pods/nope", 404, "pods \"nope\" not found"),
        ("/api/v1/nope", 404, "the server could not find the requested resource"),
    ] {
        let (got, text) = fixture.client(0).text(path).await;
        let status: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {text}"));
        assert_eq!((got, status["message"].as_str().unwrap()), (code, message), "{path}");
    }
    assert_eq!(fixture.client(0).text("/nope").await, (404, "404 page not found\n".to_owned()));
}

#[tokio::test]
async fn who_may_not_is_told_so_before_anything_else() {
    let fixture = Fixture::start().await;
    let bob = fixture.client(0).with_token("bob-token");
    assert_eq!(bob.text("/api/v1/namespaces/default/configmaps").await.0, 200);
    let (code, text) = bob.text("/api/v1/pods?limit=abc").await;
    let expected = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
        \"message\":\"pods is forbidden: User \\\"bob\\\" cannot list resource \\\"pods\\\" in API group \\\"\\\" \
        at the cluster scope\",\"reason\":\"Forbidden\",\"details\":{\"kind\":\"pods\"},\"code\":403}\n";
    assert_eq!((code, text.as_str()), (403, expected));
    let (code, text) = fixture.client(0).with_token("wrong").text("/healthz").await;
    let expected = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
        \"message\":\"Unauthorized\",\"reason\":\"Unauthorized\",\"code\":401}\n";
    assert_eq!((code, text.as_str()), (401, expected));
    let nobody = fixture.client(0).with_token("");
    assert_eq!(nobody.text("/readyz").await, (200, "ok".to_owned()));
    assert_eq!(nobody.text("/apis").await.0, 403);
}

#[tokio::test]
async fn reviews_tell_who_and_what() {
    let fixture = Fixture::start().await;
    let bob = fixture.client(0).with_token("bob-token");
    let answer = bob.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}").await;
    let (code, text) = (answer.code, answer.body().await.0);
    assert_eq!(code, 201);
    assert!(
        text.contains(r#""userInfo":{"username":"bob","uid":"uid-bob","groups":["system:authenticated"]}"#),
        "{text}"
    );
    for (namespace, allowed) in [("default", true), ("kube-system", false)] {
        let body = format!(
            r#"{{"spec":{{"resourceAttributes":{{"verb":"list","resource":"configmaps","namespace":"{namespace}"}}}}}}"#
        );
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let text = bob.send("POST", path, &body).await.body().await.0;
        assert!(text.ends_with(&format!("\"status\":{{\"allowed\":{allowed}}}}}\n")), "{text}");
    }
}

#[tokio::test]
async fn discovery_names_what_is_served() {
    let fixture = Fixture::start().await;
    let client = fixture.client(0);
    let (_, groups) = client.text("/apis").await;
    assert!(groups.contains("\"groupVersion\":\"metering.weir.test/v1\""), "{groups}");
    let (_, core) = client.text("/api/v1").await;
    assert!(
        core.contains("\"name\":\"pods\",\"singularName\":\"pod\",\"namespaced\":true,\"kind\":\"Pod\""),
        "{core}"
    );
    let (code, own) = client.text("/apis/metering.weir.test/v1").await;
    assert_eq!(code, 200);
    assert!(own.contains("\"kind\":\"Gauge\""), "{own}");
    assert_eq!(client.text("/apis/nope/v1").await.0, 404);
}

#[tokio::test]
async fn the_form_follows_the_client() {
    let fixture = Fixture::start().await;
    fixture.create("configmaps", "web");
    let client = fixture.client(0);
    let (_, pretty) = client.text("/api/v1/configmaps?pretty=true").await;
    assert!(
        pretty.starts_with("{\n  \"kind\": \"ConfigMapList\",\n") && pretty.ends_with("]\n}"),
        "{pretty}"
    );
    let accept = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1\r\n";
    let text = client.send_with("GET", "/api/v1/configmaps", (accept, "")).await.body().await.0;
    assert!(
        text.starts_with("{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\""),
        "{text}"
    );
    let answer = client.send_with("GET", "/api/v1/configmaps", ("Accept: text/html\r\n", "")).await;
    assert_eq!(answer.code, 406);
    assert!(answer.body().await.0.starts_with("{\n"));
}

#[tokio::test]
async fn refusals_are_counted_down() {
    let fixture = Fixture::start().await;
    let pods = fixture.sim.resource("pods").unwrap();
    fixture.sim.instance(0).refuse(weir_sim::Fits::both("list", pods), 2, 429);
    let client = fixture.client(0);
    assert_eq!(client.text("/api/v1/configmaps").await.0, 200);
    for _ in 0..2 {
        let answer = client.get("/api/v1/pods").await;
        assert_eq!((answer.code, answer.headers["retry-after"].as_str()), (429, "1"));
    }
    assert_eq!(client.text("/api/v1/pods").await.0, 200);
    assert_eq!(fixture.client(1).text("/api/v1/pods").await.0, 200);
    let codes: Vec<_> = fixture.sim.take_requests().into_iter().map(|line| line.code).collect();
    assert_eq!(codes, [200, 429, 429, 200, 200]);
}

#[tokio::test]
async fn a_truncated_body_is_visibly_broken() {
    let fixture = Fixture::start().await;
    let config_maps = fixture.sim.resource("configmaps").unwrap();
    fixture.create("configmaps", "web");
    fixture.sim.instance(0).truncate_at(config_maps, 50);
    let (text, end) = fixture.client(0).get("/api/v1/configmaps").await.body().await;
    assert_eq!((text.len(), end), (50, End::Broken));
    assert_eq!(fixture.client(0).get("/api/v1/configmaps").await.body().await.1, End::Whole);
}

#[tokio::test]
async fn a_consistent_read_waits_for_the_instance() {
    let fixture = Fixture::start().await;
    fixture.sim.instance(1).hold();
    fixture.create("configmaps", "web");
    let (_, past) = fixture.client(1).text("/api/v1/configmaps?resourceVersion=0").await;
    assert!(past.ends_with("\"items\":[]}\n"), "{past}");
    let client = fixture.client(1);
    let mut late = tokio::task::JoinSet::new();
    late.spawn(async move { client.text("/api/v1/configmaps").await });
    fixture.sim.instance(1).catch_up();
    assert!(late.join_next().await.unwrap().unwrap().1.contains("\"name\":\"web\""));
}

#[tokio::test]
async fn a_revision_that_does_not_come_is_504() {
    let fixture = Fixture::with(|config| config.timing.patience = std::time::Duration::ZERO).await;
    let head = fixture.head();
    let answer = fixture.client(0).get("/api/v1/pods?resourceVersion=99999").await;
    assert_eq!((answer.code, answer.headers["retry-after"].as_str()), (504, "1"));
    let text = answer.body().await.0;
    assert!(text.contains(&format!("Too large resource version: 99999, current: {head}")), "{text}");
}

#[tokio::test]
async fn a_request_keeps_to_its_own_time() {
    let fixture = Fixture::with(|config| config.timing.patience = std::time::Duration::from_secs(60)).await;
    let (code, text) = fixture.client(0).text("/api/v1/pods?resourceVersion=99999&timeout=10ms").await;
    assert_eq!((code, text.as_str()), (504, weir_core::status::DEADLINE_BODY));
    let (code, text) = fixture.client(0).text("/api/v1/pods?timeout=5").await;
    assert!(code == 400 && text.contains("missing unit in duration"), "{text}");
}

#[tokio::test]
async fn a_cache_in_the_making_is_429_in_json() {
    let fixture = Fixture::start().await;
    fixture.sim.instance(0).not_ready(weir_sim::Fits::verb("watch"), 1);
    let (code, text) = fixture.client(0).text("/api/v1/pods?watch=1&timeoutSeconds=1").await;
    let expected = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
        \"message\":\"storage is (re)initializing\",\"reason\":\"TooManyRequests\",\
        \"details\":{\"retryAfterSeconds\":1},\"code\":429}\n";
    assert_eq!((code, text.as_str()), (429, expected));
}

#[tokio::test]
async fn a_deprecated_resource_comes_with_a_warning() {
    let fixture = Fixture::start().await;
    let answer = fixture.client(0).get("/api/v1/endpoints").await;
    let text = "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\"";
    assert_eq!(answer.headers["warning"], text);
    assert!(!fixture.client(0).get("/api/v1/pods").await.headers.contains_key("warning"));
}

#[tokio::test]
async fn a_throttled_body_arrives_whole() {
    let fixture = Fixture::start().await;
    fixture.create("configmaps", "web");
    fixture.sim.instance(0).throttle(Some(20_000));
    let (text, end) = fixture.client(0).get("/api/v1/configmaps").await.body().await;
    assert_eq!(end, End::Whole);
    assert!(text.ends_with("]}\n"), "{text}");
}

#[tokio::test]
async fn events_have_no_cache() {
    let fixture = Fixture::start().await;
    fixture.create("events", "a");
    fixture.create("events", "b");
    let (_, text) = fixture.client(0).text("/api/v1/events?resourceVersion=0&limit=1").await;
    let page: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert!(page["metadata"]["continue"].is_string(), "{text}");
}

#[tokio::test]
async fn impersonation_is_for_masters() {
    let fixture = Fixture::start().await;
    let as_bob = ("Impersonate-User: bob\r\n", "");
    let allowed = "/api/v1/namespaces/default/configmaps";
    assert_eq!(fixture.client(0).send_with("GET", allowed, as_bob).await.code, 200);
    assert_eq!(fixture.client(0).send_with("GET", "/api/v1/nodes", as_bob).await.code, 403);
    let bob = fixture.client(0).with_token("bob-token");
    let text = bob.send_with("GET", allowed, as_bob).await.body().await.0;
    assert!(text.contains("cannot impersonate-on:user-info:list resource \\\"configmaps\\\""), "{text}");
    let group_only = ("Impersonate-Group: devs\r\n", "");
    assert_eq!(fixture.client(0).send_with("GET", allowed, group_only).await.code, 400);
}

#[tokio::test]
async fn a_restored_backup_shows_lower_revisions() {
    let fixture = Fixture::start().await;
    let kept = fixture.create("configmaps", "a");
    fixture.sim.back_up();
    fixture.create("configmaps", "b");
    fixture.sim.restore();
    let (_, text) = fixture.client(0).text("/api/v1/configmaps").await;
    assert!(text.contains(&format!("\"metadata\":{{\"resourceVersion\":\"{kept}\"}}")), "{text}");
    assert!(!text.contains("\"name\":\"b\""), "{text}");
}

#[tokio::test]
async fn clients_learn_that_the_server_judges_fields() {
    let fixture = Fixture::start().await;
    let client = fixture.client(0);
    let (_, index) = client.text("/openapi/v3").await;
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let url = index["paths"]["apis/metering.weir.test/v1"]["serverRelativeURL"].as_str().unwrap();
    let (code, document) = client.text(url).await;
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let patch =
        &document["paths"]["/apis/metering.weir.test/v1/namespaces/{namespace}/gauges/{name}"]["patch"];
    assert_eq!((code, patch["parameters"][0]["name"].as_str()), (200, Some("fieldValidation")));
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Gauge");
    assert_eq!(client.text("/openapi/v3/apis/nope/v1").await.0, 404);
}
