//! Reviews: who the caller is, and what the caller may do. They are asked with POST and kept nowhere.

use http::Method;
use weir_core::Status;

use super::exchange::Exchange;
use super::form::Form;
use super::respond::Answer;
use super::route::Target;
use crate::clock;
use crate::json::{Node, object};
use crate::refusal;
use crate::users::{Attributes, ResourceAttributes, User};

const WHO: (&str, &str) = ("authentication.k8s.io", "selfsubjectreviews");
const MAY: (&str, &str) = ("authorization.k8s.io", "selfsubjectaccessreviews");
const MAY_THEY: (&str, &str) = ("authorization.k8s.io", "subjectaccessreviews");

/// Whether a path names one of the reviews.
pub(super) fn is_review(target: &Target) -> bool {
    let named = (&*target.gvr.group, &*target.gvr.resource);
    &*target.gvr.version == "v1" && [WHO, MAY, MAY_THEY].contains(&named)
}

/// Answers a review.
pub(super) fn answer(exchange: &Exchange, target: &Target) -> Answer {
    if exchange.parts.method != Method::POST || target.name.is_some() || target.namespace.is_some() {
        return Answer::Failure(refusal::method_not_allowed());
    }
    let form = Form::plain(&exchange.parts.headers, &exchange.query);
    let tree = match &*target.gvr.resource {
        resource if resource == WHO.1 => Ok(who(exchange)),
        resource if resource == MAY_THEY.1 => may_they(exchange),
        _ => may(exchange, "SelfSubjectAccessReview", |_| Ok(exchange.user.clone())),
    };
    tree.map_or_else(Answer::Failure, |tree| Answer::json(201, form.text(&tree)))
}

fn who(exchange: &Exchange) -> Node {
    let user = &exchange.user;
    let now = exchange.sim.ask(|cluster| clock::timestamp(cluster.log().head()));
    let mut info = object([("username", Node::from(user.name.as_str()))]);
    if !user.uid.is_empty() {
        info.set("uid", Node::from(user.uid.as_str()));
    }
    info.set("groups", Node::Array(user.all_groups().into_iter().map(Node::from).collect()));
    if !user.extra.is_empty() {
        let values =
            |values: &Vec<String>| Node::Array(values.iter().map(|one| Node::from(one.as_str())).collect());
        let extra = user.extra.iter().map(|(key, of_key)| (key.clone(), values(of_key)));
        info.set("extra", Node::Object(extra.collect()));
    }
    object([
        ("kind", Node::from("SelfSubjectReview")),
        ("apiVersion", Node::from("authentication.k8s.io/v1")),
        ("metadata", object([("creationTimestamp", Node::from(now))])),
        ("status", object([("userInfo", info)])),
    ])
}

/// Somebody else's rights, by their name and groups.
fn may_they(exchange: &Exchange) -> Result<Node, Status> {
    may(exchange, "SubjectAccessReview", |spec| {
        let texts =
            |node: &Node| node.elements().iter().filter_map(Node::as_text).map(str::to_owned).collect();
        let groups: Vec<String> = spec.get("groups").map(texts).unwrap_or_default();
        let name = spec.text_at(&["user"]).unwrap_or_default();
        if name.is_empty() && groups.is_empty() {
            return Err(nobody());
        }
        let known = exchange.sim.with_users(|users| users.named(name));
        Ok(User { groups, ..known.unwrap_or_else(|| User::named(name)) })
    })
}

fn may(
    exchange: &Exchange,
    kind: &str,
    of: impl FnOnce(&Node) -> Result<User, Status>,
) -> Result<Node, Status> {
    let body = Node::parse(&exchange.body).map_err(|error| Status::bad_request(error.to_string()))?;
    let spec = body.get("spec").cloned().unwrap_or_else(Node::object);
    let (resource, path) = (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"));
    let wanted = match (resource, path) {
        (Some(resource), None) => {
            let text = |key| resource.text_at(&[key]).unwrap_or_default().to_owned();
            Attributes::Resource(ResourceAttributes {
                verb: text("verb"),
                group: text("group"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
                fields: fields(resource),
            })
        }
        (None, Some(path)) => {
            let text = |key| path.text_at(&[key]).unwrap_or_default().to_owned();
            Attributes::Path { verb: text("verb"), path: text("path") }
        }
        (Some(_), Some(_)) | (None, None) => return Err(not_exactly_one()),
    };
    let is_allowed = of(&spec)?.is_allowed(&wanted);
    Ok(object([
        ("kind", Node::from(kind)),
        ("apiVersion", Node::from("authorization.k8s.io/v1")),
        ("metadata", Node::object()),
        ("spec", spec),
        ("status", object([("allowed", Node::from(is_allowed))])),
    ]))
}

/// The terms of the field selector of a review.
fn fields(resource: &Node) -> Vec<String> {
    ResourceAttributes::terms(resource.text_at(&["fieldSelector", "rawSelector"]).unwrap_or_default())
}

fn nobody() -> Status {
    let message = ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified";
    Status::new(422, "Invalid", message)
}

fn not_exactly_one() -> Status {
    let message = ".authorization.k8s.io \"\" is invalid: spec: Invalid value: exactly one of \
        nonResourceAttributes or resourceAttributes must be specified";
    Status::new(422, "Invalid", message)
}
