//! Options against the answers of a real apiserver, kept in `data/list_options.jsonl`. A line holds what the server says
//! to a query with its gate WatchList on or off; the body around the message has one shape for each code.

use serde_json::{Value, json};
use weir_core::Status;
use weir_core::options::{ListOptions, WatchListGate};
use weir_core::query::Query;

const VECTORS: &str = include_str!("data/list_options.jsonl");

fn answer(query: &str, gate: WatchListGate) -> Result<ListOptions, Status> {
    let mut options = ListOptions::decode(&Query::parse(query))?;
    options.validate(gate)?;
    Ok(options)
}

fn gate_of(vector: &Value) -> WatchListGate {
    match vector["gate"].as_str() {
        Some("on") => WatchListGate::On,
        Some("off") => WatchListGate::Off,
        other => panic!("unknown gate {other:?}"),
    }
}

#[test]
fn every_refusal_has_upstreams_words() {
    let vectors: Vec<Value> = VECTORS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |gate: &str| vectors.iter().filter(|vector| vector["gate"] == gate).count();
    assert_eq!((count("on"), count("off")), (68, 7));
    for vector in &vectors {
        let status =
            answer(vector["query"].as_str().unwrap(), gate_of(vector)).expect_err(&vector.to_string());
        let reason = if status.code == 400 { "BadRequest" } else { "Invalid" };
        assert_eq!(json!(status.code), vector["code"], "{vector}");
        assert_eq!(json!(status.message), vector["message"], "{vector}");
        assert_eq!(status.reason, reason, "{vector}");
        assert_eq!(status.details.is_some(), status.code == 422, "{vector}");
    }
}

#[test]
fn causes_repeat_the_message_field_by_field() {
    let status = answer("resourceVersionMatch=Foo&sendInitialEvents=1", WatchListGate::On).unwrap_err();
    let details = status.details.unwrap();
    assert_eq!((details.kind.as_ref(), details.group.as_ref()), ("ListOptions", "meta.k8s.io"));
    let causes: Vec<_> =
        details.causes.iter().map(|cause| (cause.field.as_ref(), cause.reason.as_ref())).collect();
    assert_eq!(
        causes,
        [
            ("resourceVersionMatch", "FieldValueForbidden"),
            ("resourceVersionMatch", "FieldValueNotSupported"),
            ("sendInitialEvents", "FieldValueForbidden"),
        ]
    );
    assert_eq!(details.causes[2].message, "Forbidden: sendInitialEvents is forbidden for list");
}

#[test]
fn what_upstream_accepts_is_accepted() {
    for query in [
        "",
        "watch",
        "limit=-1",
        "limit=%2B5",
        "timeoutSeconds=-9223372036854775808",
        "watch=1&continue=x&resourceVersion=5",
        "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=5",
        "resourceVersion=abc",
        "resourceVersionMatch=Exact&resourceVersion=00",
        "labelSelector=%zz&limit=1;limit=2",
        "labelSelector=in+in+(in,,)&fieldSelector=,,a%3Db,&nonsense=1",
    ] {
        answer(query, WatchListGate::On).unwrap_or_else(|status| panic!("{query}: {}", status.message));
    }
}

#[test]
fn truth_is_all_but_zero_and_false() {
    for (query, is_watch) in [
        ("watch", true),
        ("watch=", true),
        ("watch=no", true),
        ("watch=00", true),
        ("watch=%20false", true),
        ("watch=0", false),
        ("watch=False", false),
        ("watch=FALSE", false),
        ("WATCH=1", false),
        ("watch=true&watch=false", true),
    ] {
        assert_eq!(answer(query, WatchListGate::On).unwrap().watch, is_watch, "{query}");
    }
}
