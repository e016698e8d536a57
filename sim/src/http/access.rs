//! Who asks, and what the request is judged as, before anything in it is known to be right: unknown resources and
//! broken options too.
//!
//! A front proxy's word about the user counts before any token, and stands for a user who has a token too: their rights.
//!
//! Impersonation is judged by the rights to the request itself (the verb gets a prefix), and only masters have them.

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use weir_core::Status;
use weir_core::query::Query;

use super::reads;
use super::route::{PathForm, Route};
use crate::sim::Sim;
use crate::users::{self, Attributes, ResourceAttributes, User};

/// The certificate, in DER, that a client has shown on its connection; it stands in the extensions of its requests.
#[derive(Clone, Debug)]
pub(super) struct Shown(pub(super) Vec<u8>);

/// Who asks, or whom they impersonate.
///
/// # Errors
/// 401 for a token that nobody has, 400 and 403 for an impersonation that cannot be.
pub(super) fn who(sim: &Sim, parts: &Parts, wanted: &Attributes) -> Result<User, Status> {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let user = fronted(sim, parts).or_else(|| sim.who(header(AUTHORIZATION.as_str())));
    let user = user.ok_or_else(|| Status::new(401, "Unauthorized", "Unauthorized"))?;
    let values = parts.headers.get_all("impersonate-group").iter();
    let groups: Vec<_> = values.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect();
    let Some(name) = header("impersonate-user").filter(|name| !name.is_empty()) else {
        let is_half = !groups.is_empty() || parts.headers.contains_key("impersonate-uid");
        return if is_half { Err(nobody_named(&groups)) } else { Ok(user) };
    };
    if !user.is_master() {
        return Err(users::forbidden(&user, &wanted.with_verb_prefix("impersonate-on:user-info:")));
    }
    let mut impersonated = sim.with_users(|users| users.named(name)).unwrap_or_else(|| User::named(name));
    if !groups.is_empty() {
        impersonated.groups = groups;
    }
    Ok(impersonated)
}

/// The user that a front proxy has named.
fn fronted(sim: &Sim, parts: &Parts) -> Option<User> {
    let Shown(certificate) = parts.extensions.get()?;
    if !sim.with_users(|users| users.is_front_proxy(certificate)) {
        return None;
    }
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let first = |name: &str| parts.headers.get(name).and_then(text).filter(|text| !text.is_empty());
    let name = first("x-remote-user")?;
    let mut user = sim.with_users(|users| users.named(&name)).unwrap_or_else(|| User::named(&name));
    user.groups = parts.headers.get_all("x-remote-group").iter().filter_map(text).collect();
    user.uid = first("x-remote-uid").unwrap_or_default();
    for (name, value) in &parts.headers {
        let Some(key) = name.as_str().strip_prefix("x-remote-extra-") else { continue };
        user.extra.entry(key.replace("%2f", "/")).or_default().extend(text(value));
    }
    Some(user)
}

fn nobody_named(groups: &[String]) -> Status {
    let groups: Vec<_> = groups.iter().map(|group| format!("{group:?}")).collect();
    Status::bad_request(format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:\"\", Groups:[]string{{{}}}, \
         Extra:map[string][]string(nil)}} without impersonating a user name",
        groups.join(", ")
    ))
}

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
    let is_narrowed = target.form == PathForm::Plain && ["list", "watch", "deletecollection"].contains(&verb);
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
        fields: if is_narrowed {
            ResourceAttributes::terms(query.get("fieldSelector").unwrap_or_default())
        } else {
            Vec::new()
        },
    })
}
