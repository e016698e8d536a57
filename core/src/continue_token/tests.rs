//! Tokens against upstream's own: bytes, lenient decoding, and the text of every refusal.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

/// Recorded from kube-apiserver's own decoder: one token a line, with its key and version or its error.
#[test]
fn decodes_as_upstream_does() {
    let lines = include_str!("../../tests/data/continue_tokens.jsonl").lines();
    let mut count = 0;
    for line in lines {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let token = recorded["in"].as_str().unwrap();
        let found = ContinueToken::read(token);
        if let Some(error) = recorded["error"].as_str() {
            let found = found.map_err(|error| format!("continue key is not valid: {error}"));
            assert_eq!(found, Err(error.to_owned()), "{token}");
        } else {
            let rv = match recorded["rv"].as_i64().unwrap() {
                number @ 1.. => TokenVersion::At(rv(number.unsigned_abs())),
                _ => TokenVersion::Latest,
            };
            let start = recorded["key"].as_str().unwrap().to_owned();
            assert_eq!(found, Ok(ContinueToken { rv, start }), "{token}");
        }
        count += 1;
    }
    assert!(count > 150, "only {count} recorded tokens");
}

#[test]
fn writes_both_spellings() {
    let token = ContinueToken::after("default/nginx-0", rv(1234));
    assert_eq!(
        token.encode(KeySpelling::Bare),
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIzNCwic3RhcnQiOiJkZWZhdWx0L25naW54LTBcdTAwMDAifQ"
    );
    assert_eq!(
        token.encode(KeySpelling::Slash),
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIzNCwic3RhcnQiOiIvZGVmYXVsdC9uZ2lueC0wXHUwMDAwIn0"
    );
    assert_eq!(
        token.at_latest().encode(KeySpelling::Bare),
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiZGVmYXVsdC9uZ2lueC0wXHUwMDAwIn0"
    );
}

#[test]
fn refusals_are_bad_requests() {
    let status = ContinueToken::decode("bad").unwrap_err();
    assert_eq!(
        (status.code, status.message.as_ref()),
        (
            400,
            "invalid continue token: continue key is not valid: invalid character 'm' looking for beginning of value"
        )
    );
    assert_eq!(status.details, None);
}

#[test]
fn nesting_costs_no_stack() {
    let deep = base64_url::encode("[".repeat(100_000).as_bytes());
    let error = ContinueToken::read(&deep).unwrap_err();
    assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
}

proptest! {
    #[test]
    fn never_panics(token in "\\PC{0,60}") {
        let _ = ContinueToken::decode(&token);
    }

    #[test]
    fn never_panics_on_json(json in "[\\[\\]{}\",:\\\\a-z0-9 .eu-]{0,30}") {
        let _ = ContinueToken::decode(&base64_url::encode(json.as_bytes()));
    }

    #[test]
    fn round_trips(key in "[a-z0-9.]{1,8}x(/[a-z0-9<&\"é-]{1,8})?", number in 1..=i64::MAX as u64, is_bare in any::<bool>()) {
        let token = ContinueToken::after(&key, rv(number));
        let spelling = if is_bare { KeySpelling::Bare } else { KeySpelling::Slash };
        prop_assert_eq!(ContinueToken::read(&token.encode(spelling)), Ok(token.clone()));
        prop_assert_eq!(ContinueToken::read(&token.at_latest().encode(spelling)), Ok(token.at_latest()));
    }
}
