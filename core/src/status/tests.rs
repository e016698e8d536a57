//! Error bodies in every encoding against upstream's bytes.

use serde_json::Value;

use super::*;
use crate::query::Query;
use crate::request_info::RequestInfo;
use crate::resource::GroupResource;
use crate::resource_version::ResourceVersion;

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

fn text(value: &Value) -> Cow<'static, str> {
    value.as_str().unwrap_or_default().to_owned().into()
}

/// A status from its JSON.
fn parse(json: &str) -> Status {
    let value: Value = serde_json::from_str(json).unwrap();
    let cause = |value: &Value| Cause {
        reason: text(&value["reason"]),
        message: text(&value["message"]),
        field: text(&value["field"]),
    };
    let details = value.get("details").map(|details| Details {
        name: text(&details["name"]),
        group: text(&details["group"]),
        kind: text(&details["kind"]),
        uid: text(&details["uid"]),
        causes: details["causes"].as_array().into_iter().flatten().map(cause).collect(),
        retry_after_seconds: details["retryAfterSeconds"].as_u64().unwrap_or(0) as u32,
    });
    Status {
        code: value["code"].as_u64().unwrap() as u16,
        reason: text(&value["reason"]),
        message: text(&value["message"]),
        details,
        continue_token: value["metadata"]["continue"].as_str().map(str::to_owned),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Recorded from kube-apiserver's own serializers: one status a line, in all encodings.
#[test]
fn encodes_as_upstream_does() {
    let mut count = 0;
    for line in include_str!("../../tests/data/statuses.jsonl").lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let input = recorded["in"].as_str().unwrap();
        let status = parse(input);
        assert_eq!(status.to_json(), recorded["json"].as_str().unwrap());
        assert_eq!(status.to_pretty_json(), recorded["pretty"].as_str().unwrap());
        assert_eq!(hex(&status.to_protobuf()), recorded["pb"].as_str().unwrap(), "{input}");
        // Upstream has no YAML for control characters.
        if let Some(yaml) = recorded["yaml"].as_str() {
            assert_eq!(status.to_yaml(), yaml, "{input}");
        }
        count += 1;
    }
    assert!(count > 150, "only {count} recorded statuses");
}

#[test]
fn bodies_are_upstreams() {
    let pods = GroupResource::parse("pods");
    let gauges = GroupResource::parse("gauges.metering.weir.test");
    let expired = "\"reason\":\"Expired\",\"code\":410}\n";
    for (status, body) in [
        (Status::unauthorized(), r#""message":"Unauthorized","reason":"Unauthorized","code":401}"#.to_owned() + "\n"),
        (
            Status::not_found(&pods, "x"),
            r#""message":"pods \"x\" not found","reason":"NotFound","details":{"name":"x","kind":"pods"},"code":404}"#.to_owned() + "\n",
        ),
        (
            Status::not_found(&gauges, "x"),
            r#""message":"gauges.metering.weir.test \"x\" not found","reason":"NotFound","details":{"name":"x","group":"metering.weir.test","kind":"gauges"},"code":404}"#.to_owned() + "\n",
        ),
        (
            Status::unknown_resource(),
            r#""message":"the server could not find the requested resource","reason":"NotFound","details":{},"code":404}"#.to_owned() + "\n",
        ),
        (
            Status::method_not_allowed(),
            r#""message":"the server does not allow this method on the requested resource","reason":"MethodNotAllowed","details":{},"code":405}"#.to_owned() + "\n",
        ),
        (
            Status::too_large_resource_version(rv(99), rv(42)),
            r#""message":"Timeout: Too large resource version: 99, current: 42","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#.to_owned() + "\n",
        ),
        (
            Status::beyond_resource_version(rv(99), rv(42)),
            r#""message":"Timeout: Too large resource version: 99, current: 42","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}]},"code":504}"#.to_owned() + "\n",
        ),
        (
            Status::not_ready(1),
            r#""message":"storage is (re)initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#.to_owned() + "\n",
        ),
        (
            Status::list_too_old(),
            format!("\"message\":\"The resourceVersion for the provided list is too old.\",{expired}"),
        ),
        (Status::watch_too_old(rv(5), rv(99)), format!("\"message\":\"too old resource version: 5 (99)\",{expired}")),
        (Status::unclassified("invalid shard selector: x"), "\"message\":\"invalid shard selector: x\",\"code\":500}\n".to_owned()),
    ] {
        let head = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","#;
        assert_eq!(status.to_json(), format!("{head}{body}"));
    }
}

#[test]
fn an_expired_page_carries_a_token() {
    let status = Status::expired_token("default/nginx-0\0");
    let token = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZGVmYXVsdC9uZ2lueC0wXHUwMDAwIn0";
    let json = status.to_json();
    let head = format!(
        "{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{\"continue\":\"{token}\"}},\"status\":\"Failure\",\
         \"message\":\"The provided continue parameter is too old to display a consistent list result. You can start"
    );
    assert!(json.starts_with(&head), "{json}");
    assert!(
        json.ends_with("now may show up in the list.\",\"reason\":\"Expired\",\"code\":410}\n"),
        "{json}"
    );
    assert!(!json.contains("  "));
}

#[test]
fn refusals_name_what_was_asked() {
    let forbidden = |target: &str| {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let info = RequestInfo::parse("GET", path, &Query::parse(query)).unwrap();
        Status::forbidden(&info, "bob")
    };
    for (target, message) in [
        (
            "/api/v1/namespaces/harbor/pods",
            r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "harbor""#,
        ),
        (
            "/apis/metering.weir.test/v1/gauges?watch=1",
            r#"gauges.metering.weir.test is forbidden: User "bob" cannot watch resource "gauges" in API group "metering.weir.test" at the cluster scope"#,
        ),
        (
            "/api/v1/namespaces/harbor/pods/crane-0/log",
            r#"pods "crane-0" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "harbor""#,
        ),
        (
            "/api/v1/namespaces/x",
            r#"namespaces "x" is forbidden: User "bob" cannot get resource "namespaces" in API group "" in the namespace "x""#,
        ),
        ("/nope", r#"forbidden: User "bob" cannot get path "/nope""#),
    ] {
        assert_eq!(forbidden(target).message, message);
    }
    assert_eq!(forbidden("/nope").details, Some(Details::default()));
    let details = forbidden("/api/v1/namespaces/harbor/pods/crane-0").details.unwrap();
    assert_eq!((details.name.as_ref(), details.kind.as_ref()), ("crane-0", "pods"));
}

#[test]
fn watches_end_with_an_error() {
    let status = Status::watch_too_old(rv(5), rv(99));
    assert_eq!(
        status.to_watch_line(),
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
         \"message\":\"too old resource version: 5 (99)\",\"reason\":\"Expired\",\"code\":410}}\n"
    );
    let frame = status.to_watch_frame();
    let object = status.to_protobuf();
    assert_eq!(frame[..4], (frame.len() as u32 - 4).to_be_bytes());
    assert_eq!(&frame[4..11], b"\n\x05ERROR");
    assert_eq!(frame[11], 0x12);
    assert!(frame.ends_with(&object) && object.len() < 128);
    assert_eq!(frame[13..15], [0x0a, object.len() as u8]);
}

#[test]
fn retry_after_is_sent_when_it_is_above_zero() {
    assert_eq!(Status::not_ready(7).retry_after_seconds(), Some(7));
    assert_eq!(Status::service_unavailable("x", 0).retry_after_seconds(), None);
    assert_eq!(Status::bad_request("x").retry_after_seconds(), None);
}
