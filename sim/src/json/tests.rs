//! JSON keeps the order of its keys, is escaped as Go does it, and is patched as the RFC says.

use super::*;

fn node(text: &str) -> Node {
    Node::parse(text.as_bytes()).unwrap()
}

#[test]
fn keeps_the_order_of_keys() {
    let text = r#"{"z":1,"a":{"y":[true,null,-3,1.5],"b":"x"}}"#;
    assert_eq!(node(text).to_text(), text);
}

#[test]
fn escapes_as_go_does() {
    let text = Node::from("a<b>&\"\\\n\u{2028}é\u{1}").to_text();
    assert_eq!(text, "\"a\\u003cb\\u003e\\u0026\\\"\\\\\\n\\u2028é\\u0001\"");
}

#[test]
fn pretty_text_has_two_spaces_and_empty_brackets() {
    let pretty = node(r#"{"a":[],"b":{"c":[1,{}]}}"#).to_pretty();
    assert_eq!(pretty, "{\n  \"a\": [],\n  \"b\": {\n    \"c\": [\n      1,\n      {}\n    ]\n  }\n}");
}

#[test]
fn merge_patch_follows_the_rfc() {
    for (target, patch, result) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ] {
        let mut merged = node(target);
        merged.merge(&node(patch));
        assert_eq!(merged.to_text(), result, "{target} + {patch}");
    }
}
