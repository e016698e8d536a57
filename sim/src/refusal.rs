//! The errors of the simulated apiserver in upstream's words.
//!
//! `kind` in the details of an error about an object is the plural of its resource, not its kind.

use weir_core::ResourceVersion;
use weir_core::Status;
use weir_core::status::{Cause, Details};

use crate::catalog::ResourceInfo;

/// What a list, a watch or a page that came too late is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TooOld {
    /// A list at a compacted revision.
    List,
    /// A page of a compacted revision, with the token that goes on without it.
    Page {
        /// The token of the rest at the latest revision.
        fresh: String,
    },
    /// A watch below an instance's history.
    Watch {
        /// Where the client wanted to start.
        from: ResourceVersion,
        /// The lowest revision that it could have named.
        lowest: ResourceVersion,
    },
    /// A watch of an uncached resource at a compacted revision.
    UncachedWatch,
}

/// 404 for an object.
pub(crate) fn not_found(info: &ResourceInfo, name: &str) -> Status {
    about(info, name, (404, "NotFound"), format!("{info} \"{name}\" not found"))
}

/// 409 for a name that is taken.
pub(crate) fn already_exists(info: &ResourceInfo, name: &str) -> Status {
    about(info, name, (409, "AlreadyExists"), format!("{info} \"{name}\" already exists"))
}

/// 409 for a write on top of a state that is no longer there.
pub(crate) fn modified_since(info: &ResourceInfo, name: &str) -> Status {
    let advice =
        "the object has been modified; please apply your changes to the latest version and try again";
    conflict(info, name, advice)
}

/// 409 with the reason that keeps the operation from being done.
pub(crate) fn conflict(info: &ResourceInfo, name: &str, why: &str) -> Status {
    let message = format!("Operation cannot be fulfilled on {info} \"{name}\": {why}");
    about(info, name, (409, "Conflict"), message)
}

/// 422 for an object with one faulty field.
pub(crate) fn invalid(
    info: &ResourceInfo,
    name: &str,
    (field, fault): (&'static str, &'static str),
) -> Status {
    let message = format!("{} \"{name}\" is invalid: {field}: {fault}", kind_dot_group(info));
    let mut status = about(info, name, (422, "Invalid"), message);
    if let Some(details) = &mut status.details {
        details.kind = info.kind.clone().into();
        let reason = if fault.starts_with("Required") { "FieldValueRequired" } else { "FieldValueInvalid" };
        details.causes = vec![Cause { reason: reason.into(), message: fault.into(), field: field.into() }];
    }
    status
}

/// 410 in the form that fits what came too late.
pub(crate) fn expired(what: TooOld) -> Status {
    const PAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can \
        start a new list without the continue parameter, or use the continue token in this response to retrieve \
        the remainder of the results. Continuing with the provided token results in an inconsistent list - \
        objects that were created, modified, or deleted between the time the first chunk was returned and now may \
        show up in the list.";
    let gone = |message: String| Status::new(410, "Expired", message);
    match what {
        TooOld::List => gone("The resourceVersion for the provided list is too old.".to_owned()),
        TooOld::Page { fresh } => Status { continue_token: Some(fresh), ..gone(PAGE.to_owned()) },
        TooOld::Watch { from, lowest } => gone(format!("too old resource version: {from} ({lowest})")),
        TooOld::UncachedWatch => gone("The resourceVersion for the provided watch is too old.".to_owned()),
    }
}

/// 504 for a revision that an instance has not reached. A wait that was cut short asks to come back.
pub(crate) fn too_new(wanted: ResourceVersion, current: ResourceVersion, retry_after_seconds: u32) -> Status {
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    let cause = Cause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: "".into(),
    };
    let details = Details { causes: vec![cause], retry_after_seconds, ..Details::default() };
    Status { details: Some(details), ..Status::new(504, "Timeout", message) }
}

/// 404 for a path that names nothing the server has, as built-in groups answer it.
pub(crate) fn no_such_resource() -> Status {
    let status = Status::new(404, "NotFound", "the server could not find the requested resource");
    Status { details: Some(Details::default()), ..status }
}

/// 405.
pub(crate) fn method_not_allowed() -> Status {
    let status = Status::new(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
    Status { details: Some(Details::default()), ..status }
}

fn about(info: &ResourceInfo, name: &str, (code, reason): (u16, &'static str), message: String) -> Status {
    let details = Details {
        name: name.to_owned().into(),
        group: info.gvr.group.to_string().into(),
        kind: info.gvr.resource.to_string().into(),
        ..Details::default()
    };
    Status { details: Some(details), ..Status::new(code, reason, message) }
}

fn kind_dot_group(info: &ResourceInfo) -> String {
    if info.gvr.group.is_empty() { info.kind.clone() } else { format!("{}.{}", info.kind, info.gvr.group) }
}
