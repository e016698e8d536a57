//! Negotiation against what kube-apiserver answered to the same headers; the answers are files in core/tests/data.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn asked<'a>(accept: &'a str, raw_query: &'a str, query: &'a Query) -> Asked<'a> {
    Asked { accept: Some(accept), user_agent: None, raw_query, query }
}

fn negotiated(accept: &str, want: Want, family: Family) -> Result<Negotiated, Status> {
    negotiate(&asked(accept, "", &Query::default()), want, family)
}

fn error_form(accept: &str) -> Encoding {
    negotiate_error(&asked(accept, "", &Query::default()))
}

/// As the recording writes it: media type, transform, pretty.
fn shown(found: Option<Negotiated>) -> String {
    let Some(Negotiated { encoding, transform }) = found else { return "none".to_owned() };
    let version = |version: MetaVersion| version.api_version().trim_start_matches("meta.k8s.io/");
    let transform = match transform {
        Transform::None => String::new(),
        Transform::PartialObjectMetadata(meta) => format!("PartialObjectMetadata.{}", version(meta)),
        Transform::PartialObjectMetadataList(meta) => format!("PartialObjectMetadataList.{}", version(meta)),
        Transform::Table(meta) => format!("Table.{}", version(meta)),
    };
    let pretty = if encoding == Encoding::PrettyJson { "pretty" } else { "" };
    format!("{} {transform} {pretty}", encoding.content_type())
}

/// Only JSON has a pretty form.
fn without_idle_pretty(recorded: &str) -> String {
    if recorded.starts_with("application/json ") {
        recorded.to_owned()
    } else {
        recorded.replace("pretty", "")
    }
}

/// Recorded from kube-apiserver's own negotiation of its handlers: one header a line.
#[test]
fn negotiates_as_upstream_does() {
    let mut count = 0;
    for line in include_str!("../../tests/data/accepts.jsonl").lines() {
        let recorded: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| without_idle_pretty(recorded[key].as_str().unwrap());
        let accept = recorded["in"].as_str().unwrap();
        assert_eq!(shown(negotiated(accept, Want::List, Family::Custom).ok()), text("custom"), "{accept}");
        let expected = if is_routed(accept) { text("builtin") } else { "none".to_owned() };
        assert_eq!(shown(negotiated(accept, Want::List, Family::BuiltIn).ok()), expected, "{accept}");
        let error = error_form(accept);
        match text("error").as_str() {
            "none" => assert_eq!(error, Encoding::PrettyJson, "{accept}"),
            expected => {
                assert_eq!(
                    shown(Some(Negotiated { encoding: error, transform: Transform::None })),
                    expected,
                    "{accept}"
                );
            }
        }
        count += 1;
    }
    assert!(count > 200, "only {count} recorded headers");
}

#[test]
fn the_router_refuses_first() {
    let refusal = |accept, want| negotiated(accept, want, Family::BuiltIn).unwrap_err();
    let status = refusal("application/*", Want::List);
    assert_eq!(
        status.message,
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf, application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch"
    );
    assert_eq!((status.code, status.details.is_some()), (406, true));
    assert!(refusal("APPLICATION/JSON", Want::Get).message.ends_with("application/vnd.kubernetes.protobuf"));
    let status = refusal("application/json;as=Foo;g=meta.k8s.io;v=v1", Want::List);
    assert_eq!(
        status.message,
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf"
    );
    assert_eq!(status.details, None);
    assert!(negotiated("application/*", Want::List, Family::Custom).is_ok());
}

#[test]
fn watches_have_no_yaml_and_are_never_pretty() {
    let yaml = negotiated("application/yaml,application/json", Want::Watch, Family::BuiltIn).unwrap();
    let status = yaml.for_watch().unwrap_err();
    assert_eq!(
        status.message,
        "only the following media types are accepted: application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch"
    );
    let pretty = negotiated("application/json;pretty=1", Want::Watch, Family::BuiltIn).unwrap();
    assert_eq!(pretty.encoding, Encoding::PrettyJson);
    assert_eq!(pretty.for_watch().unwrap().encoding, Encoding::Json);
    assert_eq!(Encoding::Json.watch_content_type(), "application/json");
    assert_eq!(Encoding::Protobuf.watch_content_type(), "application/vnd.kubernetes.protobuf;stream=watch");
}

#[test]
fn errors_go_their_own_way() {
    for (accept, encoding) in [
        ("application/vnd.kubernetes.protobuf,application/json", Encoding::Protobuf),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", Encoding::PrettyJson),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json", Encoding::Json),
        ("text/html", Encoding::PrettyJson),
        ("application/*", Encoding::Json),
        ("application/yaml", Encoding::Yaml),
        ("application/yaml;stream=watch", Encoding::PrettyJson),
        ("", Encoding::Json),
    ] {
        assert_eq!(error_form(accept), encoding, "{accept}");
    }
}

#[test]
fn pretty_is_asked_for_in_three_ways() {
    let encoding = |raw: &str, user_agent: &str| {
        let query = Query::parse(raw);
        let asked = Asked { accept: None, user_agent: Some(user_agent), raw_query: raw, query: &query };
        let found = negotiate(&asked, Want::List, Family::BuiltIn).unwrap().encoding;
        assert_eq!(negotiate_error(&asked), found);
        found == Encoding::PrettyJson
    };
    for (raw, user_agent, is_pretty) in [
        ("", "k", false),
        ("", "curl/8", true),
        ("", "Wget/1", true),
        ("", "Mozilla/5.0 x", true),
        ("", "Mozilla/4.0", false),
        ("pretty=0", "curl/8", false),
        ("pretty=yes", "curl/8", false),
        ("pretty", "curl/8", true),
        ("pretty=", "k", false),
        ("pretty=1", "k", true),
        ("pretty=True", "k", true),
        ("pretty=tRUE", "k", false),
        ("pretty=true&pretty=0", "k", true),
        ("xpretty=1", "k", false),
        ("%70retty=1", "k", false),
        ("%70retty=1&x=pretty", "k", true),
    ] {
        assert_eq!(encoding(raw, user_agent), is_pretty, "{raw} {user_agent}");
    }
}

#[test]
fn gzip_is_an_exact_word() {
    for (header, takes) in [
        (None, false),
        (Some("gzip"), true),
        (Some("br, gzip ,deflate"), true),
        (Some("gzip;q=1.0"), false),
        (Some("GZIP"), false),
        (Some("*"), false),
        (Some(""), false),
    ] {
        assert_eq!(takes_gzip(header), takes, "{header:?}");
    }
}

proptest! {
    #[test]
    fn never_panics(accept in "[a-z*/;=,. 0-9]{0,60}") {
        let _ = negotiated(&accept, Want::List, Family::Custom);
        let _ = error_form(&accept);
    }
}
