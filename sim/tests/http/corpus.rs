//! Refusals that a real kube-apiserver was seen to give, asked again here.

use std::time::Duration;

use weir_core::ResourceVersion;
use weir_core::continue_token::{ContinueToken, KeySpelling, TokenVersion};
use weir_sim::{Fault, Node, Op, Right, User};

use crate::fixture::Fixture;

const REFUSALS: &str = include_str!("../data/refusals.tsv");

async fn fixture() -> Fixture {
    let fixture = Fixture::with(|config| {
        config.timing.patience = Duration::ZERO;
        let read = |resources: &[&str]| Right::new(&["get", "list", "watch"], "", resources);
        let bob = User { groups: vec!["devs".to_owned()], ..User::named("bob") }
            .may(read(&["pods", "configmaps"]).in_namespace("orchard"))
            .may(read(&["secrets"]).in_namespace("harbor").named("dock-key"));
        config.users.push(("bob".to_owned(), bob));
    })
    .await;
    for (resource, namespace, name) in [
        ("namespaces", None, "orchard"),
        ("namespaces", None, "harbor"),
        ("pods", Some("orchard"), "web"),
        ("events", Some("orchard"), "web-1.e1"),
        ("gauges.metering.weir.test", Some("orchard"), "barrel-a"),
    ] {
        let resource = fixture.sim.resource(resource).unwrap();
        let body = Node::parse(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).as_bytes()).unwrap();
        fixture.sim.apply(Op::Create { resource, namespace: namespace.map(str::to_owned), body }).unwrap();
    }
    fixture.sim.with(|cluster| cluster.inject(Fault::Compact));
    fixture.sim.instance(0).restart();
    fixture
}

/// Puts revisions and tokens into a path.
fn expand(path: &str, head: u64) -> String {
    let mut text = path.replace("{rv+1000000}", &(head + 1_000_000).to_string()).replace("{expired}", "1001");
    while let Some((before, rest)) = text.split_once("{token:") {
        let (inner, after) = rest.split_once('}').unwrap();
        let (rv, start) = inner.split_once(':').unwrap();
        let rv = TokenVersion::At(ResourceVersion::new(rv.parse().unwrap()));
        let token = ContinueToken { rv, start: format!("{start}\0") }.encode(KeySpelling::Bare);
        text = format!("{before}{token}{after}");
    }
    text
}

#[tokio::test]
async fn refusals_are_those_of_a_real_apiserver() {
    let fixture = fixture().await;
    let head = fixture.head();
    let mut faults = Vec::new();
    let rows = REFUSALS.lines().filter(|line| !line.starts_with('#'));
    for row in rows {
        let [name, path, header, auth, code, reason] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("six columns: {row}")
        };
        let header = if header == "-" { String::new() } else { header.replace(" | ", "\r\n") + "\r\n" };
        let client = fixture.client(0).with_token(if auth == "none" { "" } else { auth });
        let answer = client.send_with("GET", &expand(path, head), (&header, "")).await;
        let got_code = answer.code.to_string();
        let text = answer.body().await.0;
        let status: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let got_reason = status["reason"].as_str().unwrap_or("-");
        if (got_code.as_str(), got_reason) != (code, reason) {
            faults.push(format!("{name} {path}: {got_code} {got_reason} instead of {code} {reason}: {text}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(REFUSALS.lines().count() > 150);
}
