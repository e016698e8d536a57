//! Writes over HTTP. JSON bodies only; of patches, merge patches.
//!
//! `status` is the one subresource that is known: a write to it changes nothing but the status.

use http::header::CONTENT_TYPE;
use weir_core::status::Details;
use weir_core::{ResourceVersion, Status};

use super::exchange::ResourceCall;
use super::form::Form;
use super::reads::Options;
use super::respond::Answer;
use crate::json::{Node, object};
use crate::log::EventType;
use crate::object::{Object, StoreKey};
use crate::read::{ListQuery, ListVersion, Page, Patience, Step};
use crate::refusal;
use crate::write::{Op, Preconditions, Written};

/// Creates an object.
pub(super) fn create(call: &ResourceCall) -> Result<Answer, Status> {
    let body = json_body(call)?;
    if call.info.is_namespaced() && call.target.namespace.is_none() {
        return Err(refusal::method_not_allowed());
    }
    check_kind(call, &body)?;
    let given = body.text_at(&["metadata", "namespace"]).unwrap_or_default();
    if !given.is_empty() && call.target.namespace.as_deref().is_some_and(|own| own != given) {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    let namespace = call.target.namespace.clone();
    let written = apply(call, Op::Create { resource: call.resource, namespace, body })?;
    shown(call, 201, &written.object)
}

/// Replaces an object, or its status.
pub(super) fn update(call: &ResourceCall) -> Result<Answer, Status> {
    let mut body = json_body(call)?;
    check_kind(call, &body)?;
    if is_status(call)? {
        let rv = body.at(&["metadata", "resourceVersion"]).cloned();
        let mut tree = current(call)?.tree();
        tree.set("status", body.remove("status").unwrap_or_else(Node::object));
        if let Some(rv) = rv {
            tree.entry("metadata").set("resourceVersion", rv);
        }
        body = tree;
    }
    let written = apply(call, Op::Update { resource: call.resource, key: key(call), body })?;
    shown(call, 200, &written.object)
}

/// Applies a merge patch to an object, or to its status.
pub(super) fn patch(call: &ResourceCall) -> Result<Answer, Status> {
    const MERGE: &str = "application/merge-patch+json";
    if media_type(call) != MERGE {
        return Err(unsupported(MERGE));
    }
    let mut patch = parse(call)?;
    if is_status(call)? {
        let parts = ["status", "metadata"].map(|part| (part, patch.remove(part)));
        patch = Node::object();
        for (name, part) in parts {
            if let Some(part) = part {
                patch.set(name, part);
            }
        }
    }
    let written = apply(call, Op::Patch { resource: call.resource, key: key(call), patch })?;
    shown(call, 200, &written.object)
}

/// Deletes an object.
pub(super) fn delete(call: &ResourceCall) -> Result<Answer, Status> {
    let only_if = preconditions(call)?;
    let written = apply(call, Op::Delete { resource: call.resource, key: key(call), only_if })?;
    let is_gone = written.event.as_ref().is_some_and(|event| event.event == EventType::Deleted);
    if !is_gone {
        return shown(call, 200, &written.object);
    }
    let form = Form::plain(&call.exchange.parts.headers, &call.exchange.query);
    Ok(Answer::json(200, form.text(&deleted(call, &written.object))))
}

/// Deletes all objects that the options select.
pub(super) fn delete_all(call: &ResourceCall) -> Result<Answer, Status> {
    let options = Options::read(call)?;
    let query = ListQuery {
        resource: call.resource,
        namespace: options.namespace(call),
        selection: options.selection.clone(),
        version: ListVersion::Direct,
        limit: None,
        start: String::new(),
    };
    let (sim, id) = (&call.exchange.sim, call.exchange.id);
    let Step::Ready(found) = sim.ask(|cluster| cluster.list(id, &query, Patience::Exhausted))? else {
        return Err(Status::new(500, "InternalError", "the current state needs no wait"));
    };
    let mut items = Vec::new();
    for object in found.items {
        let (key, only_if) = (object.key().clone(), Preconditions::default());
        match sim.apply(Op::Delete { resource: call.resource, key, only_if }) {
            Ok(written) => items.push(written.object),
            Err(status) if status.code == 404 => {}
            Err(status) => return Err(status),
        }
    }
    let rv = items.last().map_or(ResourceVersion::ZERO, |object| object.rv());
    let page = Page { items, rv, next: None, remaining: None };
    Ok(Answer::json(200, options.form.list(&call.info, &page)))
}

fn apply(call: &ResourceCall, op: Op) -> Result<Written, Status> {
    call.exchange.sim.apply(op)
}

fn shown(call: &ResourceCall, code: u16, object: &Object) -> Result<Answer, Status> {
    let form = Form::negotiate(&call.exchange.parts.headers, &call.exchange.query, &call.info)?;
    Ok(Answer::json(code, form.object(object)))
}

fn key(call: &ResourceCall) -> StoreKey {
    StoreKey::new(call.target.namespace.as_deref(), call.target.name.as_deref().unwrap_or_default())
}

fn current(call: &ResourceCall) -> Result<std::sync::Arc<Object>, Status> {
    let (key, resource) = (key(call), call.resource);
    let found = call.exchange.sim.ask(|cluster| {
        let log = cluster.log();
        log.get(resource, &key, log.head()).cloned()
    });
    found.ok_or_else(|| refusal::not_found(&call.info, key.name()))
}

fn is_status(call: &ResourceCall) -> Result<bool, Status> {
    match call.target.subresource.as_deref() {
        None => Ok(false),
        Some("status") => Ok(true),
        Some(_) => Err(refusal::no_such_resource()),
    }
}

fn media_type(call: &ResourceCall) -> &str {
    let header = call.exchange.parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    header.and_then(|text| text.split(';').next()).unwrap_or_default().trim()
}

fn unsupported(accepted: &'static str) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    Status::new(415, "UnsupportedMediaType", message)
}

fn json_body(call: &ResourceCall) -> Result<Node, Status> {
    match media_type(call) {
        "" | "application/json" => parse(call),
        _ => Err(unsupported("application/json")),
    }
}

fn parse(call: &ResourceCall) -> Result<Node, Status> {
    let fault =
        |why: String| Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"));
    let node = Node::parse(&call.exchange.body).map_err(|error| fault(error.to_string()))?;
    if matches!(node, Node::Object(_)) { Ok(node) } else { Err(fault("not an object".to_owned())) }
}

fn check_kind(call: &ResourceCall, body: &Node) -> Result<(), Status> {
    let (kind, api_version) = (call.info.kind.as_str(), call.info.gvr.api_version());
    let fits = |key, own: &str| body.text_at(&[key]).is_none_or(|given| given.is_empty() || given == own);
    if fits("kind", kind) && fits("apiVersion", &api_version) {
        return Ok(());
    }
    let message = format!("the object provided is unrecognized (must be of type {kind} of {api_version})");
    Err(Status::bad_request(message))
}

fn preconditions(call: &ResourceCall) -> Result<Preconditions, Status> {
    if call.exchange.body.is_empty() {
        return Ok(Preconditions::default());
    }
    let options = parse(call)?;
    let text = |key| options.text_at(&["preconditions", key]).map(str::to_owned);
    Ok(Preconditions { uid: text("uid"), rv: text("resourceVersion") })
}

fn deleted(call: &ResourceCall, object: &Object) -> Node {
    let gvr = &call.info.gvr;
    let details = Details {
        name: object.key().name().to_owned().into(),
        group: gvr.group.to_string().into(),
        kind: gvr.resource.to_string().into(),
        uid: object.uid().to_owned().into(),
        ..Details::default()
    };
    success(&details)
}

fn success(details: &Details) -> Node {
    object([
        ("kind", Node::from("Status")),
        ("apiVersion", Node::from("v1")),
        ("metadata", Node::object()),
        ("status", Node::from("Success")),
        ("details", super::form::details_tree(details)),
    ])
}
