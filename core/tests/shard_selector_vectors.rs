//! `shardSelector` against the answers of a real apiserver, kept in `data/shard_selector.jsonl`: a canonical form or a
//! refusal. Two things differ from the server on purpose: bounds of fewer than 16 digits are accepted, and of refusals by
//! CEL's own grammar only the first words are the same.

use serde_json::Value;
use weir_core::Status;
use weir_core::shard_selector::{ShardField, ShardSelector, ShardSelectorError};

const VECTORS: &str = include_str!("data/shard_selector.jsonl");
const CEL: &str = "CEL parse error: ";

fn call(field: &str, start: &str, end: &str) -> String {
    format!("shardRange(object.metadata.{field}, '{start}', '{end}')")
}

fn refusal(text: &str) -> String {
    ShardSelector::parse(text).expect_err(text).to_string()
}

#[test]
fn every_vector_is_accepted_or_refused_alike() {
    let vectors: Vec<Value> = VECTORS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(vectors.len(), 139);
    for vector in &vectors {
        let parsed = ShardSelector::parse(vector["in"].as_str().unwrap());
        match (vector["canonical"].as_str(), vector["error"].as_str()) {
            (Some(canonical), None) => {
                assert_eq!(parsed.expect(canonical).to_string(), canonical, "{vector}");
            }
            (None, Some(CEL)) => assert!(parsed.unwrap_err().to_string().starts_with(CEL), "{vector}"),
            (None, Some(error)) => assert_eq!(parsed.unwrap_err().to_string(), error),
            _ => panic!("neither accepted nor refused: {vector}"),
        }
    }
}

#[test]
fn short_bounds_are_padded_and_stay_numbers() {
    let parsed = ShardSelector::parse(&call("uid", "0x0", "0x00ff")).unwrap();
    assert_eq!(parsed.to_string(), call("uid", "0x0000000000000000", "0x00000000000000ff"));
    assert!(parsed.matches(0xfe) && !parsed.matches(0xff));
    assert_eq!(
        refusal(&call("uid", "0xff", "0x8")),
        "shard range start 0x00000000000000ff must be less than end 0x0000000000000008"
    );
    assert!(refusal(&call("uid", "0x0", "0xFF")).contains("invalid hex character \"F\""));
}

#[test]
fn matches_any_of_its_ranges() {
    let text = [("0x0", "0x10"), ("0x8", "0x20"), ("0xf000000000000000", "0x10000000000000000")]
        .map(|(start, end)| call("namespace", start, end))
        .join("||");
    let parsed = ShardSelector::parse(&text).unwrap();
    assert_eq!((parsed.field(), parsed.ranges().len()), (ShardField::Namespace, 3));
    for (hash, is_wanted) in
        [(0, true), (0x1f, true), (0x20, false), (u64::MAX, true), (0xefff_ffff_ffff_ffff, false)]
    {
        assert_eq!(parsed.matches(hash), is_wanted, "{hash:#x}");
    }
}

#[test]
fn depth_and_length_are_bounded_as_upstream() {
    let good = call("uid", "0x0", "0x1");
    let nested = |depth: usize| format!("{}{good}{}", "(".repeat(depth), ")".repeat(depth));
    assert!(ShardSelector::parse(&nested(248)).is_ok());
    assert!(refusal(&nested(249)).contains("recursion limit"));
    assert!(refusal(&"(".repeat(99_999)).contains("recursion limit"));
    let receiver = |members: usize| format!("x{}.{good}", ".a".repeat(members));
    assert!(ShardSelector::parse(&receiver(249)).is_ok());
    assert!(refusal(&receiver(250)).contains("recursion limit"));
    let added = |times: usize| format!("(a{}).{good}", "+a".repeat(times));
    assert!(ShardSelector::parse(&added(249)).is_ok());
    assert!(refusal(&added(250)).contains("recursion limit"));
    assert!(ShardSelector::parse(&format!("(a{}).{good}", "&&a".repeat(500))).is_ok());
    let full = call("uid", "0x0000000000000000", "0x8000000000000000");
    assert!(ShardSelector::parse(&vec![full.as_str(); 1290].join("||")).is_ok());
    assert!(refusal(&vec![full.as_str(); 1400].join("||")).contains("code point size exceeds limit"));
}

#[test]
fn signs_and_receivers_are_read_and_forgotten() {
    let good = call("uid", "0x0", "0x1");
    for text in [
        format!("!!{good}"),
        format!("--{good}"),
        format!("-1.{good}"),
        format!("[1, 2,].{good}"),
        format!("{{'a': 1}}.{good}"),
        format!("a.B{{c: 1, `d`: 2,}}.{good}"),
        format!("b'\\xff'.{good}"),
    ] {
        assert!(ShardSelector::parse(&text).is_ok(), "{text}");
    }
    for text in [
        format!("!-{good}"),
        format!("1u - {good} 2"),
        format!("[?a].{good}"),
        format!("'\\ud800'.{good}"),
        format!("1e999.{good}"),
        format!("9223372036854775808.{good}"),
        format!("b'\\u0041'.{good}"),
        format!("(a).b{{}}.{good}"),
        format!("[a,,].{good}"),
        format!("f(a,).{good}"),
    ] {
        assert!(refusal(&text).starts_with(CEL), "{text}");
    }
    assert!(ShardSelector::parse(&format!("-9223372036854775808.{good}")).is_ok());
}

/// SH-03: refused with 400 and the fault's name, not with 500.
#[test]
fn a_broken_one_is_the_clients_fault() {
    let status = Status::from(ShardSelectorError::Empty);
    assert_eq!((status.code, status.reason.as_ref()), (400, "BadRequest"));
    assert!(status.message.starts_with("invalid shard selector: empty shard selector"));
}
