//! As much of OpenAPI v3 as clients need to see that faulty fields are the server's to judge, so that kubectl does not
//! insist on schemas of its own. There are no schemas: the simulation takes any field.

use super::exchange::Exchange;
use super::form::Form;
use super::respond::Answer;
use crate::catalog::ResourceInfo;
use crate::json::{Node, object};

/// `/openapi/v3`: where the document of each group and version is.
pub(super) fn index(exchange: &Exchange) -> Answer {
    let mut roots: Vec<_> =
        exchange.sim.read(|cluster| cluster.catalog().all().map(|(_, info)| root(info)).collect());
    roots.sort();
    roots.dedup();
    let paths = roots.into_iter().map(|root| {
        let url = object([("serverRelativeURL", Node::from(format!("/openapi/v3/{root}")))]);
        (root, url)
    });
    shown(exchange, &object([("paths", Node::Object(paths.collect()))]))
}

/// `/openapi/v3/ROOT`: the document of one group and version.
pub(super) fn document(exchange: &Exchange, wanted: &str) -> Answer {
    let paths: Vec<_> = exchange.sim.read(|cluster| {
        let all = cluster.catalog().all().map(|(_, info)| info);
        all.filter(|info| root(info) == wanted).map(patch_path).collect()
    });
    if paths.is_empty() {
        return Answer::not_found();
    }
    let info = object([("title", Node::from("Kubernetes")), ("version", Node::from("v1.37.2"))]);
    let tree = object([("openapi", Node::from("3.0.0")), ("info", info), ("paths", Node::Object(paths))]);
    shown(exchange, &tree)
}

/// The path of a group and version, without the slash before it.
fn root(info: &ResourceInfo) -> String {
    let collection = info.gvr.collection_path();
    let root = collection.strip_suffix(&format!("/{}", info.gvr.resource)).unwrap_or(&collection);
    root.trim_start_matches('/').to_owned()
}

/// The one operation that kubectl looks at, with the one parameter.
fn patch_path(info: &ResourceInfo) -> (String, Node) {
    let namespace = if info.is_namespaced() { "namespaces/{namespace}/" } else { "" };
    let path = format!("/{}/{namespace}{}/{{name}}", root(info), info.gvr.resource);
    let parameter = object([
        ("name", Node::from("fieldValidation")),
        ("in", Node::from("query")),
        ("schema", object([("type", Node::from("string"))])),
    ]);
    let kind = object([
        ("group", Node::from(&*info.gvr.group)),
        ("kind", Node::from(info.kind.as_str())),
        ("version", Node::from(&*info.gvr.version)),
    ]);
    let patch = object([
        ("parameters", Node::Array(vec![parameter])),
        ("responses", Node::object()),
        ("x-kubernetes-group-version-kind", kind),
    ]);
    (path, object([("patch", patch)]))
}

fn shown(exchange: &Exchange, tree: &Node) -> Answer {
    Answer::json(200, Form::plain(&exchange.parts.headers, &exchange.query).text(tree))
}
