//! The API's error body, `v1` Status. Every error that leaves weir is one of these; no other place knows a code.

use std::borrow::Cow;

/// A `v1` Status with `status: Failure`. Empty fields are left out of the encodings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The HTTP code.
    pub code: u16,
    /// The machine-readable reason, for example `BadRequest`; empty where upstream sends none.
    pub reason: Cow<'static, str>,
    /// The text for people.
    pub message: Cow<'static, str>,
    /// `details`; `Some` of an empty value is written as `{}`.
    pub details: Option<Details>,
    /// `metadata.continue`: the fresh token of an expired one.
    pub continue_token: Option<String>,
}

/// `details` of a Status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The name of the object.
    pub name: Cow<'static, str>,
    /// The API group.
    pub group: Cow<'static, str>,
    /// The kind, or the plural of the resource, as upstream has it.
    pub kind: Cow<'static, str>,
    /// The uid of the object.
    pub uid: Cow<'static, str>,
    /// Single causes.
    pub causes: Vec<Cause>,
    /// Seconds to wait; also sent as the header `Retry-After` when above 0.
    pub retry_after_seconds: u32,
}

/// One cause in `details.causes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason.
    pub reason: Cow<'static, str>,
    /// The text for people.
    pub message: Cow<'static, str>,
    /// The field it is about.
    pub field: Cow<'static, str>,
}

// === impl Status ===

impl Status {
    /// A status without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, reason: reason.into(), message: message.into(), details: None, continue_token: None }
    }

    /// 400 `BadRequest`.
    pub fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(400, "BadRequest", message)
    }
}
