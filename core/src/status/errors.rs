//! The errors that weir makes itself, by the place where upstream would meet them.

use std::borrow::Cow;

use super::{Cause, Details, Status};
use crate::continue_token::{ContinueToken, KeySpelling, TokenVersion};
use crate::request_info::RequestInfo;
use crate::resource::GroupResource;
use crate::resource_version::ResourceVersion;

/// The body that upstream writes when a request runs into its deadline: never negotiated, and not a whole Status.
pub const DEADLINE_BODY: &str = "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"Timeout: request did not complete \
    within the allotted timeout\",\"reason\":\"Timeout\",\"details\":{},\"code\":504}\n";

const EXPIRED_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can \
    start a new list without the continue parameter, or use the continue token in this response to retrieve the \
    remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were \
    created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

// === impl Status ===

/// Errors of the request.
impl Status {
    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: a credential that nobody knows.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403 for this user.
    pub fn forbidden(info: &RequestInfo, user: &str) -> Self {
        let user = crate::go_text::quote(user);
        let verb = &info.verb;
        if !info.is_resource_request {
            let path = crate::go_text::quote(&info.path);
            let message = format!("forbidden: User {user} cannot {verb} path {path}");
            return Self::new(403, "Forbidden", message).with_details(Details::default());
        }
        let resource =
            GroupResource { group: info.group.as_str().into(), resource: info.resource.as_str().into() };
        let slash = if info.subresource.is_empty() { "" } else { "/" };
        let scope = if info.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", crate::go_text::quote(&info.namespace))
        };
        let name = if info.name.is_empty() { String::new() } else { format!(" \"{}\"", info.name) };
        let message = format!(
            "{resource}{name} is forbidden: User {user} cannot {verb} resource \"{}{slash}{}\" in API group \"{}\" {scope}",
            info.resource, info.subresource, info.group
        );
        Self::new(403, "Forbidden", message).with_details(Details::of(&resource, &info.name))
    }

    /// 404: no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" not found");
        Self::new(404, "NotFound", message).with_details(Details::of(resource, name))
    }

    /// 404: a built-in group has no such resource, version, subresource or scope.
    pub fn unknown_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
            .with_details(Details::default())
    }

    /// 405 of a built-in resource.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).with_details(Details::default())
    }

    /// 406: the client takes no form in which this can be written.
    pub fn not_acceptable(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }
}

/// Errors of the state that was asked for.
impl Status {
    /// 410 of a list at a revision that is gone.
    pub fn list_too_old() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided list is too old.")
    }

    /// 410 of a page whose revision is gone, with a token that goes on at the same key in the latest state. `start` is
    /// that of the old token.
    pub fn expired_token(start: &str) -> Self {
        let token = ContinueToken { rv: TokenVersion::Latest, start: start.to_owned() };
        let continue_token = Some(token.encode(KeySpelling::Bare));
        Self { continue_token, ..Self::new(410, "Expired", EXPIRED_TOKEN) }
    }

    /// 410 of a watch from a revision before the floor. Send it as an ERROR on a stream with code 200: clients relist on
    /// nothing else.
    pub fn watch_too_old(from: ResourceVersion, floor: ResourceVersion) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {from} ({floor})"))
    }

    /// 504 after waiting for a revision that did not come.
    pub fn too_large_resource_version(wanted: ResourceVersion, current: ResourceVersion) -> Self {
        let mut status = Self::beyond_resource_version(wanted, current);
        status.details.get_or_insert_default().retry_after_seconds = 1;
        status
    }

    /// 504 without a wait: upstream's answer where no cache serves the resource.
    pub fn beyond_resource_version(wanted: ResourceVersion, current: ResourceVersion) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = Cause {
            reason: "ResourceVersionTooLarge".into(),
            message: "Too large resource version".into(),
            field: "".into(),
        };
        Self::new(504, "Timeout", message).with_details(Details { causes: vec![cause], ..Details::default() })
    }

    /// 429 while a mirror loads, in upstream's words for a cache that does.
    pub fn not_ready(retry_after_seconds: u32) -> Self {
        Self::too_many_requests("storage is (re)initializing", retry_after_seconds)
    }
}

/// Errors of the server.
impl Status {
    /// 429: come back later.
    pub fn too_many_requests(message: impl Into<Cow<'static, str>>, retry_after_seconds: u32) -> Self {
        Self::new(429, "TooManyRequests", message).with_details(Details::retry_after(retry_after_seconds))
    }

    /// 500 without a reason: upstream's form for errors that are not of the API.
    pub fn unclassified(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(500, "", message)
    }

    /// 503: nobody can answer now.
    pub fn service_unavailable(message: impl Into<Cow<'static, str>>, retry_after_seconds: u32) -> Self {
        Self::new(503, "ServiceUnavailable", message).with_details(Details::retry_after(retry_after_seconds))
    }

    /// 504 `Timeout`.
    pub fn timeout(message: &str, retry_after_seconds: u32) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {message}"))
            .with_details(Details::retry_after(retry_after_seconds))
    }
}

// === impl Details ===

impl Details {
    /// About an object, or a resource where the name is empty. The kind is the plural, as upstream has it.
    pub fn of(resource: &GroupResource, name: &str) -> Self {
        Self {
            name: name.to_owned().into(),
            group: resource.group.to_string().into(),
            kind: resource.resource.to_string().into(),
            ..Self::default()
        }
    }

    /// Nothing but when to come back; 0: not said.
    pub fn retry_after(seconds: u32) -> Self {
        Self { retry_after_seconds: seconds, ..Self::default() }
    }
}
