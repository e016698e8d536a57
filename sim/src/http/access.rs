//! What a request is judged as, before anything in it is known to be right: unknown resources and broken options too.

use http::request::Parts;
use weir_core::query::Query;

use super::reads;
use super::route::{PathForm, Route};
use crate::users::{Attributes, ResourceAttributes};

/// What the request is judged as, before anything in it is known to be right.
pub(super) fn attributes(parts: &Parts, route: &Route, query: &Query) -> Attributes {
    let Route::Resource(target) = route else {
        let verb = parts.method.as_str().to_lowercase();
        return Attributes::Path { verb, path: parts.uri.path().to_owned() };
    };
    let is_watch = query.get("watch").is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"));
    let verb = match (parts.method.as_str(), target.name.is_some()) {
        ("GET" | "HEAD", _) if target.form == PathForm::Watch => "watch",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) if is_watch => "watch",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    };
    let named =
        reads::named_by_selector(query).filter(|_| ["list", "watch", "deletecollection"].contains(&verb));
    let own_namespace = (target.gvr.group.is_empty() && &*target.gvr.resource == "namespaces")
        .then(|| target.name.clone())
        .flatten();
    Attributes::Resource(ResourceAttributes {
        verb: verb.to_owned(),
        group: target.gvr.group.to_string(),
        resource: target.gvr.resource.to_string(),
        subresource: target.subresource.clone().unwrap_or_default(),
        namespace: target.namespace.clone().or(own_namespace).unwrap_or_default(),
        name: target.name.clone().or(named).unwrap_or_default(),
    })
}
