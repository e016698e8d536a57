//! The values of selectable fields, read from an object's tree.
//!
//! Which fields a request may name is core's table; here is only what value an object has. A field that a kind
//! accepts but never sets (`status.podIPs`) has no value here, which selects like the empty string.

use crate::catalog::ResourceInfo;
use crate::json::Node;

/// A field's label and the keys that lead to it.
type Path = (&'static str, &'static [&'static str]);

const EVENTS: &[Path] = &[
    ("involvedObject.kind", &["involvedObject", "kind"]),
    ("involvedObject.namespace", &["involvedObject", "namespace"]),
    ("involvedObject.name", &["involvedObject", "name"]),
    ("involvedObject.uid", &["involvedObject", "uid"]),
    ("involvedObject.apiVersion", &["involvedObject", "apiVersion"]),
    ("involvedObject.resourceVersion", &["involvedObject", "resourceVersion"]),
    ("involvedObject.fieldPath", &["involvedObject", "fieldPath"]),
    ("reason", &["reason"]),
    ("reportingComponent", &["reportingComponent"]),
    ("source", &["source", "component"]),
    ("type", &["type"]),
];

/// Whether events can be selected by a label. Core's table has none of theirs: a mirror never serves them.
pub(crate) fn is_of_events(label: &str) -> bool {
    ["metadata.name", "metadata.namespace"].contains(&label) || EVENTS.iter().any(|(own, _)| *own == label)
}

/// The fields of a built-in kind with their values.
pub(crate) fn values(info: &ResourceInfo, tree: &Node) -> Vec<(&'static str, String)> {
    if info.is_custom() {
        return Vec::new();
    }
    let paths: &[Path] = match (&*info.gvr.group, &*info.gvr.resource) {
        ("", "pods") => &[
            ("spec.nodeName", &["spec", "nodeName"]),
            ("spec.restartPolicy", &["spec", "restartPolicy"]),
            ("spec.schedulerName", &["spec", "schedulerName"]),
            ("spec.serviceAccountName", &["spec", "serviceAccountName"]),
            ("status.phase", &["status", "phase"]),
            ("status.podIP", &["status", "podIP"]),
            ("status.nominatedNodeName", &["status", "nominatedNodeName"]),
        ],
        ("", "namespaces") => &[("status.phase", &["status", "phase"])],
        ("", "secrets") => &[("type", &["type"])],
        ("", "services") => &[("spec.clusterIP", &["spec", "clusterIP"]), ("spec.type", &["spec", "type"])],
        ("", "events") => EVENTS,
        _ => &[],
    };
    let mut values: Vec<_> = paths.iter().map(|(label, path)| (*label, scalar(tree.at(path)))).collect();
    if let Some(controller) = tree.text_at(&["reportingComponent"]) {
        // An event of the newer API has no source.
        let source = values.iter_mut().find(|(label, value)| *label == "source" && value.is_empty());
        source.into_iter().for_each(|(_, value)| controller.clone_into(value));
    }
    values.extend(flag(info, tree).or_else(|| count(info, tree)));
    values
}

/// The selectable fields of a custom resource with their values.
pub(crate) fn custom_values(info: &ResourceInfo, tree: &Node) -> Vec<(String, String)> {
    let value = |path: &String| scalar(tree.at(&path.split('.').collect::<Vec<_>>()));
    info.selectable.iter().map(|path| (path.clone(), value(path))).collect()
}

/// A boolean, which reads `false` when it is absent.
fn flag(info: &ResourceInfo, tree: &Node) -> Option<(&'static str, String)> {
    let (label, path): (_, &[&str]) = match (&*info.gvr.group, &*info.gvr.resource) {
        ("", "pods") => ("spec.hostNetwork", &["spec", "hostNetwork"]),
        ("", "nodes") => ("spec.unschedulable", &["spec", "unschedulable"]),
        _ => return None,
    };
    let is_set = tree.at(path) == Some(&Node::Bool(true));
    Some((label, is_set.to_string()))
}

/// A number, which reads `0` when it is absent.
fn count(info: &ResourceInfo, tree: &Node) -> Option<(&'static str, String)> {
    let (label, path): (_, &[&str]) = match (&*info.gvr.group, &*info.gvr.resource) {
        ("", "replicationcontrollers") => ("status.replicas", &["status", "replicas"]),
        ("batch", "jobs") => ("status.successful", &["status", "succeeded"]),
        _ => return None,
    };
    let value = scalar(tree.at(path));
    Some((label, if value.is_empty() { "0".to_owned() } else { value }))
}

fn scalar(node: Option<&Node>) -> String {
    match node {
        Some(Node::String(text)) => text.clone(),
        Some(Node::Number(number)) => number.to_string(),
        Some(Node::Bool(value)) => value.to_string(),
        Some(Node::Null | Node::Array(_) | Node::Object(_)) | None => String::new(),
    }
}
