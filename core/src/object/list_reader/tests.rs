//! A list gives the same items and envelope however its body is cut.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(chunks: &[&[u8]]) -> Result<(Vec<String>, ListEnvelope), ListError> {
    let mut reader = ListReader::default();
    let mut items = Vec::new();
    for chunk in chunks {
        reader.push(chunk);
        while let Some(item) = reader.next_item()? {
            items.push(String::from_utf8(item.to_vec()).unwrap());
        }
    }
    Ok((items, reader.finish()?))
}

const BUILT_IN: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10","continue":"abc","remainingItemCount":7,"shardInfo":{"selector":"s"}},"items":[{"metadata":{"name":"a]}\"","k":[{}]}},{}]}
"#;
const CUSTOM: &str = r#"{"apiVersion":"e.com/v1","items":[{"apiVersion":"e.com/v1","kind":"Foo"}],"kind":"FooList","metadata":{"continue":"","resourceVersion":"10"}}
"#;

#[test]
fn reads_both_orders() {
    let (items, envelope) = read(&[BUILT_IN.as_bytes()]).unwrap();
    assert_eq!(items, [r#"{"metadata":{"name":"a]}\"","k":[{}]}}"#, "{}"]);
    assert_eq!(
        envelope,
        ListEnvelope {
            kind: "PodList".into(),
            api_version: "v1".into(),
            resource_version: ResourceVersion::new(10),
            continue_token: Some("abc".into()),
            remaining_item_count: Some(7),
            shard_selector: Some("s".into()),
        }
    );
    let (items, envelope) = read(&[CUSTOM.as_bytes()]).unwrap();
    assert_eq!(items, [r#"{"apiVersion":"e.com/v1","kind":"Foo"}"#]);
    assert_eq!((envelope.kind.as_str(), envelope.continue_token), ("FooList", None));
}

#[test]
fn the_head_is_known_before_the_items() {
    let mut reader = ListReader::default();
    reader.push(&BUILT_IN.as_bytes()[..140]);
    assert!(reader.next_item().unwrap().is_none());
    assert_eq!(reader.envelope().resource_version, ResourceVersion::new(10));
}

#[test]
fn null_items_are_none() {
    let (items, _) = read(&[br#" { "items" : null , "metadata" : { "resourceVersion" : "1" } } "#]).unwrap();
    assert!(items.is_empty());
}

#[test]
fn every_cut_is_noticed() {
    for body in [BUILT_IN, CUSTOM] {
        for end in 0..body.len() - 1 {
            let error = read(&[&body.as_bytes()[..end]]).unwrap_err();
            assert!(matches!(error, ListError::Cut { at } if at == end as u64), "{end}: {error}");
        }
    }
}

#[test]
fn refuses_what_is_no_list() {
    let unexpected = |body: &str| match read(&[body.as_bytes()]) {
        Err(ListError::Unexpected { at }) => Some(at),
        _ => None,
    };
    for (body, at) in [
        ("[]", 0),
        ("{\"items\":[1]}", 10),
        ("{\"items\":[{},]}", 13),
        ("{\"items\":[{}}", 12),
        ("{\"items\":[{}],}", 14),
        ("{items:1}", 1),
        ("{\"a\" 1}", 5),
        ("{\"items\":[],\"metadata\":{\"resourceVersion\":\"1\"}} x", 48),
        ("{\"items\":[{\"a\":\"\u{1}\"}]}", 16),
    ] {
        assert_eq!(unexpected(body), Some(at), "{body}");
    }
    let refuses = |body: &str| read(&[body.as_bytes()]).unwrap_err();
    assert!(matches!(refuses(r#"{"items":{}}"#), ListError::Envelope { field: "items", .. }));
    assert!(matches!(refuses(r#"{"items":[],"items":[]}"#), ListError::Items));
    assert!(matches!(refuses(r#"{"kind":"Status","metadata":{"resourceVersion":"1"}}"#), ListError::Items));
    assert!(matches!(refuses(r#"{"items":[],"metadata":{}}"#), ListError::NoResourceVersion));
    assert!(matches!(refuses(r#"{"items":[]}"#), ListError::NoResourceVersion));
    assert!(matches!(refuses(r#"{"kind":5,"items":[]}"#), ListError::Envelope { field: "kind", .. }));
    assert!(matches!(refuses(r#"{"x":{]},"items":[]}"#), ListError::Envelope { .. }));
}

#[test]
fn a_value_has_a_bound() {
    let mut reader = ListReader::default();
    reader.push(br#"{"items":[{"a":""#);
    let chunk = vec![b'x'; 8 << 20];
    let result = (0..5).try_for_each(|_| {
        reader.push(&chunk);
        reader.next_item().map(|item| assert!(item.is_none()))
    });
    assert!(matches!(result, Err(ListError::TooLong { at: 10 })));
}

fn body(is_custom: bool, items: &[Value]) -> String {
    let version = json!({ "resourceVersion": "5" });
    let items = Value::from(items);
    if is_custom {
        format!("{{\"apiVersion\":\"g/v1\",\"items\":{items},\"kind\":\"L\",\"metadata\":{version}}}\n")
    } else {
        format!("{{\"kind\":\"L\",\"apiVersion\":\"v1\",\"metadata\":{version},\"items\":{items}}}\n")
    }
}

proptest! {
    #[test]
    fn chunks_do_not_matter(
        is_custom in any::<bool>(),
        texts in proptest::collection::vec("[a-z{}\\[\\]\\\\\",:é]{0,20}", 0..6),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let items: Vec<_> = texts.iter().map(|text| json!({ text: [text, { "x": text }], "n": -1.5e3 })).collect();
        let body = body(is_custom, &items);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(body.len())).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let chunks: Vec<_> = cuts.windows(2).map(|pair| &body.as_bytes()[pair[0]..pair[1]]).collect();
        let (read_items, envelope) = read(&chunks).unwrap();
        prop_assert_eq!(read_items, items.iter().map(Value::to_string).collect::<Vec<_>>());
        prop_assert_eq!(envelope, read(&[body.as_bytes()]).unwrap().1);
    }

    #[test]
    fn never_panics(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..6)) {
        let chunks: Vec<_> = chunks.iter().map(Vec::as_slice).collect();
        let _ = read(&chunks);
    }

    /// Pieces of grammar in any order reach further than bytes in any order.
    #[test]
    fn never_panics_on_pieces(pieces in proptest::collection::vec(proptest::sample::select(&[
        "{", "}", "[", "]", ",", ":", "\"items\":[", "\"a\":", "\"\\", "\"", "null", "1.5", " ",
        "\"metadata\":{\"resourceVersion\":\"1\"}",
    ][..]), 0..20)) {
        let chunks: Vec<_> = pieces.iter().map(|piece| piece.as_bytes()).collect();
        let whole = pieces.concat();
        prop_assert_eq!(read(&chunks).ok(), read(&[whole.as_bytes()]).ok());
    }
}
