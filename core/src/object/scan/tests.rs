//! The scan against a parser that builds a tree, on objects in any order of keys and with any escapes.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-0","namespace":"orchard","uid":"6f1c","resourceVersion":"1234","labels":{"app":"web","tier":""},"annotations":{"a":"{\"metadata\":{\"name\":\"no\"}}"}},"spec":{"containers":[{"name":"c","env":[{"value":"}]\\"}]}],"nodeName":"plot-1","hostNetwork":true},"status":{"podIPs":[{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}],"replicas":-3}}"#;

fn paths(paths: &[&[&str]]) -> FieldPaths {
    FieldPaths::new(paths).unwrap()
}

fn scan_bare(json: &str) -> Result<Scanned<'_>, ScanError> {
    scan(json.as_bytes(), &FieldPaths::default())
}

fn at<'a>(json: &'a str, text: &Text<'_>) -> &'a str {
    &json[text.span.range()]
}

#[test]
fn finds_everything_in_a_pod() {
    let fields = paths(&[
        &["spec", "nodeName"],
        &["status", "podIPs", "[0]", "ip"],
        &["spec", "hostNetwork"],
        &["status", "replicas"],
        &["status", "phase"],
        &["spec"],
        &["status", "podIPs", "[1]", "ip"],
        &["spec", "nodeName"],
        &["metadata", "name"],
        &["metadata", "labels", "app"],
    ]);
    let found = scan(POD.as_bytes(), &fields).unwrap();
    assert_eq!((&*found.kind.value, &*found.api_version.value), ("Pod", "v1"));
    assert_eq!(
        (&*found.name.value, &*found.namespace.value, &*found.uid.value),
        ("web-0", "orchard", "6f1c")
    );
    assert_eq!(at(POD, &found.resource_version), "1234");
    assert_eq!(&POD[..found.resource_version.span.start as usize].chars().last().unwrap(), &'"');
    assert_eq!(&POD[found.type_meta.range()], r#""kind":"Pod","apiVersion":"v1","#);
    let metadata = &POD[found.metadata.range()];
    assert!(metadata.starts_with(r#"{"name""#) && metadata.ends_with(r#""no\"}}"}}"#), "{metadata}");
    assert_eq!(found.label("app"), Some("web"));
    assert_eq!(found.label("tier"), Some(""));
    assert_eq!(found.label("none"), None);
    let values: Vec<_> = found.fields.iter().map(|field| field.as_ref().map(|text| &*text.value)).collect();
    let plot = Some("plot-1");
    let expected = [plot, Some("10.0.0.1"), Some("true"), Some("-3"), None, None, Some("10.0.0.2"), plot];
    assert_eq!(values[..8], expected);
    assert_eq!(values[8..], [Some("web-0"), Some("web")]);
    for field in found.fields.iter().flatten() {
        assert_eq!(at(POD, field), field.value);
    }
}

#[test]
fn finds_everything_in_alphabetical_order() {
    let gauge = "{\"apiVersion\":\"m/v1\",\"kind\":\"Gauge\",\"metadata\":{\"labels\":{\"b\":\"2\",\"a\":\"1\"},\"name\":\"g\",\
                 \"resourceVersion\":\"7\",\"uid\":\"u\"},\"spec\":{\"color\":\"red\"}}\n";
    let found = scan(gauge.as_bytes(), &paths(&[&["spec", "color"]])).unwrap();
    assert!(found.type_meta.is_empty() && found.namespace.is_empty());
    assert_eq!((found.label("a"), found.label("b")), (Some("1"), Some("2")));
    assert_eq!(found.fields[0].as_ref().unwrap().value, "red");
}

#[test]
fn reads_escapes_in_keys_and_values() {
    let json = r#"{"met\u0061data":{"n\u0061me":"\u0061\n\"\\\/\ud83d\ude00\ud800x\udc00","labels":{"\u006b":"v"}}}"#;
    let found = scan_bare(json).unwrap();
    assert_eq!(found.name.value, "a\n\"\\/\u{1f600}\u{fffd}x\u{fffd}");
    assert!(!found.name.is_verbatim());
    assert_eq!(at(json, &found.name), r#"\u0061\n\"\\\/\ud83d\ude00\ud800x\udc00"#);
    assert_eq!(found.label("k"), Some("v"));
    assert!(found.labels[0].1.is_verbatim());
}

#[test]
fn lone_surrogates_do_not_swallow_what_follows() {
    let found = scan_bare(r#"{"metadata":{"name":"\ud800\u0041\ud800\ud83d\ude00\ud800"}}"#).unwrap();
    assert_eq!(found.name.value, "\u{fffd}A\u{fffd}\u{1f600}\u{fffd}");
}

#[test]
fn the_last_of_equal_keys_counts_whole() {
    let json = r#"{"kind":"A","metadata":{"name":"a","uid":"u","labels":{"k":"1"}},"spec":{"x":"1"},
        "metadata":{"name":"b","name":"c","labels":{"k":"2","j":"0","k":"3"}},"spec":{"y":"2"},"kind":null}"#;
    let found = scan(json.as_bytes(), &paths(&[&["spec", "x"], &["spec", "y"]])).unwrap();
    assert_eq!((&*found.name.value, &*found.uid.value, &*found.kind.value), ("c", "", ""));
    assert_eq!((found.labels.len(), found.label("k")), (2, Some("3")));
    assert_eq!(found.fields[0], None);
    assert_eq!(found.fields[1].as_ref().unwrap().value, "2");
}

#[test]
fn missing_and_null_are_empty() {
    for json in ["{}", r#"{"metadata":null}"#, r#"{"metadata":{"labels":null,"name":null}}"#] {
        let found = scan_bare(json).unwrap();
        assert!(found.name.is_empty() && found.labels.is_empty() && found.type_meta.is_empty(), "{json}");
    }
    assert!(scan_bare(r#"{"metadata":null}"#).unwrap().metadata.is_empty());
    assert_eq!(scan_bare(r#"{"kind":"A","apiVersion":"v1"}"#).unwrap().type_meta, Span::default());
}

#[test]
fn refuses_values_of_the_wrong_type() {
    for (json, part) in [
        (r#"{"kind":1}"#, Part::Kind),
        (r#"{"metadata":[]}"#, Part::Metadata),
        (r#"{"metadata":{"name":{}}}"#, Part::Name),
        (r#"{"metadata":{"resourceVersion":5}}"#, Part::ResourceVersion),
        (r#"{"metadata":{"labels":"x"}}"#, Part::Labels),
        (r#"{"metadata":{"labels":{"a":1}}}"#, Part::Labels),
    ] {
        assert_eq!(scan_bare(json), Err(ScanError::WrongType(part)), "{json}");
    }
}

#[test]
fn refuses_what_is_not_one_object() {
    for (json, error) in [
        ("", ScanError::UnexpectedEnd),
        ("[]", ScanError::Unexpected { at: 0 }),
        ("{}{}", ScanError::Unexpected { at: 2 }),
        (r#"{"a":"\x"}"#, ScanError::BadEscape { at: 6 }),
        (r#"{"a":"\u00g0"}"#, ScanError::BadEscape { at: 6 }),
        ("{\"a\":\"\n\"}", ScanError::Unexpected { at: 6 }),
        (r#"{"a":[1}"#, ScanError::Unexpected { at: 7 }),
        (r#"{"a":01}"#, ScanError::Unexpected { at: 6 }),
        (r#"{"a":1,}"#, ScanError::Unexpected { at: 7 }),
        (r#"{"a":tru}"#, ScanError::Unexpected { at: 5 }),
        (r#"{"a":tru"#, ScanError::UnexpectedEnd),
    ] {
        assert_eq!(scan_bare(json), Err(error), "{json}");
    }
    assert_eq!(scan(b"{\"a\":\"\xff\"}", &FieldPaths::default()), Err(ScanError::NotUtf8 { at: 6 }));
    for end in 0..POD.len() {
        assert_eq!(scan_bare(&POD[..end]), Err(ScanError::UnexpectedEnd), "cut at {end}");
    }
}

#[test]
fn depth_has_a_limit() {
    let nested = |depth: usize| {
        format!("{{\"a\":{}{}}}", "[{\"b\":".repeat(depth), "1".to_owned() + &"}]".repeat(depth))
    };
    assert!(scan_bare(&nested(100)).is_ok());
    assert!(scan_bare(&nested(5_000)).is_ok());
    assert!(matches!(scan_bare(&nested(5_001)), Err(ScanError::TooDeep { .. })));
}

#[test]
fn paths_have_limits() {
    let many: Vec<[&str; 1]> = vec![["a"]; 33];
    assert_eq!(FieldPaths::new(&many).unwrap_err(), FieldPathError::TooManyPaths);
    assert_eq!(FieldPaths::new(&[vec!["a"; 33]]).unwrap_err(), FieldPathError::TooManySteps);
    assert_eq!(FieldPaths::new(&[Vec::<&str>::new()]).unwrap_err(), FieldPathError::Empty);
    assert_eq!(FieldPaths::new(&[vec!["a".to_owned()]]).unwrap().len(), 1);
}

/// Any JSON value, written with random white space, order, escapes and repeated keys; keys that matter are frequent.
fn json_text(depth: u32) -> BoxedStrategy<String> {
    let space = prop_oneof![6 => Just(""), 1 => Just(" "), 1 => Just("\n\t")];
    let scalar = prop_oneof![
        text(),
        Just("null".to_owned()),
        any::<bool>().prop_map(|value| value.to_string()),
        any::<i64>().prop_map(|value| value.to_string()),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|value| format!("{value:e}")),
    ];
    if depth == 0 {
        return scalar.boxed();
    }
    let key = prop_oneof![
        3 => proptest::sample::select(&["metadata", "name", "uid", "labels", "spec", "x", "namespace"][..])
            .prop_map(|key| Value::from(key).to_string()),
        1 => text(),
    ];
    let pair = (key, space.clone(), json_text(depth - 1))
        .prop_map(|(key, space, value)| format!("{key}{space}:{value}"));
    prop_oneof![
        2 => scalar,
        1 => (proptest::collection::vec(json_text(depth - 1), 0..4), space.clone())
            .prop_map(|(values, space)| format!("[{space}{}{space}]", values.join(","))),
        4 => (proptest::collection::vec(pair, 0..6), space)
            .prop_map(|(pairs, space)| format!("{{{space}{}{space}}}", pairs.join(","))),
    ]
    .boxed()
}

/// A JSON string, some characters of it escaped although they need not be.
fn text() -> BoxedStrategy<String> {
    proptest::collection::vec((any::<char>(), 0..4u8), 0..12)
        .prop_map(|characters| {
            let body: String = characters
                .into_iter()
                .map(|(character, escape)| {
                    if escape == 0 {
                        let mut units = [0; 2];
                        character
                            .encode_utf16(&mut units)
                            .iter()
                            .map(|unit| format!("\\u{unit:04x}"))
                            .collect()
                    } else {
                        let quoted = Value::from(character.to_string()).to_string();
                        quoted[1..quoted.len() - 1].to_owned()
                    }
                })
                .collect();
            format!("\"{body}\"")
        })
        .boxed()
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether the value has only types that an object of the API has there.
fn is_well_typed(value: &Value) -> bool {
    let metadata = &value["metadata"];
    let is_text = |value: &Value| value.is_string() || value.is_null();
    let labels = &metadata["labels"];
    (metadata.is_null() || metadata.is_object())
        && [&value["kind"], &value["apiVersion"]].into_iter().all(is_text)
        && ["name", "namespace", "uid", "resourceVersion"].iter().all(|key| is_text(&metadata[*key]))
        && (labels.is_null() || labels.as_object().is_some_and(|labels| labels.values().all(is_text)))
}

fn agrees(json: &str) -> Result<(), TestCaseError> {
    let fields = paths(&[&["spec", "x"], &["spec"], &["x", "[1]"], &["spec", "x", "[0]", "name"]]);
    let scanned = scan(json.as_bytes(), &fields);
    let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(json) else {
        prop_assert!(scanned.is_err());
        return Ok(());
    };
    let found = match scanned {
        Err(ScanError::WrongType(_)) => return Ok(()),
        Err(error) => return Err(TestCaseError::fail(format!("{error} in {json}"))),
        Ok(found) => found,
    };
    prop_assert!(is_well_typed(&value));
    let metadata = &value["metadata"];
    for (text, value) in [(&found.name, &metadata["name"]), (&found.uid, &metadata["uid"])] {
        prop_assert_eq!(text.value.as_ref(), value.as_str().unwrap_or_default());
    }
    let labels: Vec<_> =
        found.labels.iter().map(|(key, value)| (key.value.as_ref(), value.value.as_ref())).collect();
    let expected: Vec<_> = metadata["labels"].as_object().into_iter().flatten().collect();
    let expected: Vec<_> =
        expected.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())).collect();
    prop_assert_eq!(labels, expected);
    let spec = &value["spec"];
    let selected = [&spec["x"], spec, &value["x"][1], &spec["x"][0]["name"]];
    for (field, value) in found.fields.iter().zip(selected) {
        match (field, value) {
            (Some(text), Value::Number(_)) => {
                let again: Value = serde_json::from_str(&text.value).unwrap();
                prop_assert_eq!(&again, value);
            }
            _ => prop_assert_eq!(field.as_ref().map(|text| text.value.clone().into_owned()), as_text(value)),
        }
    }
    let in_place = found.metadata.of(json.as_bytes());
    if metadata.is_object() {
        prop_assert_eq!(&serde_json::from_slice::<Value>(in_place).unwrap(), metadata);
    } else {
        prop_assert!(in_place.is_empty());
    }
    Ok(())
}

proptest! {
    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = scan(&bytes, &paths(&[&["a"]]));
    }

    #[test]
    fn agrees_with_serde_on_objects(json in json_text(4)) {
        agrees(&json)?;
    }

    /// One byte changed, removed or doubled: mostly broken, and then serde must say so too.
    #[test]
    fn agrees_with_serde_on_broken_objects(
        json in json_text(3),
        place in any::<proptest::sample::Index>(),
        with in proptest::sample::select(&b"{}[]\",:\\ux0 1e.-\n\0tn"[..]),
        change in 0..3,
    ) {
        let mut bytes = json.into_bytes();
        let at = place.index(bytes.len());
        match change {
            0 => bytes[at] = with,
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, with),
        }
        match String::from_utf8(bytes) {
            // serde_json refuses lone surrogates and numbers out of range, which Go and this scan take.
            Ok(json) if serde_json::from_str::<Value>(&json).is_err_and(|error| {
                let text = error.to_string();
                text.contains("surrogate") || text.contains("out of range") || text.contains("hex escape")
            }) => {}
            Ok(json) => agrees(&json)?,
            Err(error) => prop_assert!(scan(error.as_bytes(), &FieldPaths::default()).is_err()),
        }
    }
}
