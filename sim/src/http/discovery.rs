//! Discovery: which groups, versions and resources there are. Only the older, one-document-per-group form, which every
//! client falls back to.

use std::collections::BTreeMap;

use super::exchange::Exchange;
use super::form::Form;
use super::respond::Answer;
use crate::catalog::{Catalog, ResourceInfo};
use crate::json::{Node, object};

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Groups that have reviews but no resources of the catalog.
const REVIEW_GROUPS: [(&str, &str, &str); 2] = [
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
];

/// `/version`, indented whoever asks.
pub(super) fn version() -> Answer {
    let tree = object([
        ("major", Node::from("1")),
        ("minor", Node::from("37")),
        ("gitVersion", Node::from("v1.37.2+weir-sim")),
        ("gitCommit", Node::from("")),
        ("gitTreeState", Node::from("clean")),
        ("buildDate", Node::from("2026-01-01T00:00:00Z")),
        ("goVersion", Node::from("none")),
        ("compiler", Node::from("rustc")),
        ("platform", Node::from("linux/amd64")),
    ]);
    Answer::json(200, tree.to_pretty())
}

/// `/api`.
pub(super) fn core_versions(exchange: &Exchange) -> Answer {
    let tree = object([
        ("kind", Node::from("APIVersions")),
        ("versions", Node::Array(vec![Node::from("v1")])),
        ("serverAddressByClientCIDRs", Node::Array(Vec::new())),
    ]);
    shown(exchange, &tree)
}

/// `/apis`.
pub(super) fn groups(exchange: &Exchange) -> Answer {
    let groups = exchange.sim.ask(|cluster| group_versions(cluster.catalog()));
    let groups = groups.iter().map(|(name, version)| group_tree(name, version)).collect();
    let tree = object([
        ("kind", Node::from("APIGroupList")),
        ("apiVersion", Node::from("v1")),
        ("groups", Node::Array(groups)),
    ]);
    shown(exchange, &tree)
}

/// `/apis/GROUP`.
pub(super) fn group(exchange: &Exchange, name: &str) -> Answer {
    let groups = exchange.sim.ask(|cluster| group_versions(cluster.catalog()));
    let Some(version) = groups.get(name) else { return Answer::not_found() };
    let mut tree = object([("kind", Node::from("APIGroup")), ("apiVersion", Node::from("v1"))]);
    for (key, value) in group_tree(name, version).pairs() {
        tree.set(key, value.clone());
    }
    shown(exchange, &tree)
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(super) fn resources(exchange: &Exchange, group: &str, version: &str) -> Answer {
    let mut resources: Vec<Node> = exchange.sim.ask(|cluster| {
        let all = cluster.catalog().all().map(|(_, info)| info);
        let own = all.filter(|info| &*info.gvr.group == group && &*info.gvr.version == version);
        own.flat_map(resource_trees).collect()
    });
    let reviews = REVIEW_GROUPS.iter().filter(|(own, ..)| *own == group && version == "v1");
    resources.extend(reviews.map(|(_, plural, kind)| review_tree(plural, kind)));
    if resources.is_empty() {
        return Answer::not_found();
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut tree = object([("kind", Node::from("APIResourceList"))]);
    if !group.is_empty() {
        tree.set("apiVersion", Node::from("v1"));
    }
    tree.set("groupVersion", Node::from(group_version));
    tree.set("resources", Node::Array(resources));
    shown(exchange, &tree)
}

fn shown(exchange: &Exchange, tree: &Node) -> Answer {
    let form = Form::plain(&exchange.parts.headers, &exchange.query);
    Answer::json(200, form.text(tree))
}

/// The named groups with their version.
fn group_versions(catalog: &Catalog) -> BTreeMap<String, String> {
    let named = catalog.all().map(|(_, info)| &info.gvr).filter(|gvr| !gvr.group.is_empty());
    let mut groups: BTreeMap<_, _> =
        named.map(|gvr| (gvr.group.to_string(), gvr.version.to_string())).collect();
    groups.extend(REVIEW_GROUPS.iter().map(|(group, ..)| ((*group).to_owned(), "v1".to_owned())));
    groups
}

fn group_tree(name: &str, version: &str) -> Node {
    let version =
        object([("groupVersion", Node::from(format!("{name}/{version}"))), ("version", Node::from(version))]);
    object([
        ("name", Node::from(name)),
        ("versions", Node::Array(vec![version.clone()])),
        ("preferredVersion", version),
    ])
}

/// A resource, and its status where it has one.
fn resource_trees(info: &ResourceInfo) -> Vec<Node> {
    let texts = |texts: &[&str]| Node::Array(texts.iter().map(|text| Node::from(*text)).collect());
    let plural = info.gvr.resource.to_string();
    let mut main = object([
        ("name", Node::from(plural.as_str())),
        ("singularName", Node::from(info.kind.to_lowercase())),
        ("namespaced", Node::from(info.is_namespaced())),
        ("kind", Node::from(info.kind.as_str())),
        ("verbs", texts(&VERBS)),
    ]);
    if !info.short.is_empty() {
        main.set(
            "shortNames",
            Node::Array(info.short.iter().map(|name| Node::from(name.as_str())).collect()),
        );
    }
    let has_status = info.is_custom() || info.bookmark_tail.contains("\"status\"");
    let status = has_status.then(|| {
        object([
            ("name", Node::from(format!("{plural}/status"))),
            ("singularName", Node::from("")),
            ("namespaced", Node::from(info.is_namespaced())),
            ("kind", Node::from(info.kind.as_str())),
            ("verbs", texts(&["get", "patch", "update"])),
        ])
    });
    std::iter::once(main).chain(status).collect()
}

fn review_tree(plural: &str, kind: &str) -> Node {
    object([
        ("name", Node::from(plural)),
        ("singularName", Node::from(kind.to_lowercase())),
        ("namespaced", Node::from(false)),
        ("kind", Node::from(kind)),
        ("verbs", Node::Array(vec![Node::from("create")])),
    ])
}
