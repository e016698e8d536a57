//! The API's error body, `v1` Status. Every error that leaves weir is one of these; no other place knows a code. The same
//! failure has other words, another code or no reason at all depending on where upstream meets it: look for the
//! constructor that names the place before making one.

mod errors;
mod json;
mod protobuf;
#[cfg(test)]
mod tests;
mod tree;
mod yaml;

use std::borrow::Cow;

use crate::accept::Encoding;
pub use errors::DEADLINE_BODY;
pub(crate) use json::push_json_string;

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

    /// The same with details.
    #[must_use]
    pub fn with_details(self, details: Details) -> Self {
        Self { details: Some(details), ..self }
    }

    /// What the header `Retry-After` says, if it is sent.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|&seconds| seconds > 0)
    }

    /// The body in this encoding.
    pub fn encode(&self, encoding: Encoding) -> Vec<u8> {
        match encoding {
            Encoding::Json => self.to_json().into_bytes(),
            Encoding::PrettyJson => self.to_pretty_json().into_bytes(),
            Encoding::Yaml => self.to_yaml().into_bytes(),
            Encoding::Protobuf => self.to_protobuf(),
        }
    }

    /// JSON on one line, with its line feed.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        json::push_compact(&mut text, &tree::of_status(self));
        text.push('\n');
        text
    }

    /// JSON over several lines, without a line feed at the end.
    pub fn to_pretty_json(&self) -> String {
        let mut text = String::new();
        json::push_pretty(&mut text, &tree::of_status(self), 0);
        text
    }

    /// YAML.
    pub fn to_yaml(&self) -> String {
        yaml::of_document(&tree::of_status(self))
    }

    /// Protobuf in its envelope.
    pub fn to_protobuf(&self) -> Vec<u8> {
        protobuf::of_status(self)
    }

    /// The line of a JSON watch with this as its ERROR, with the line feed.
    pub fn to_watch_line(&self) -> String {
        let mut text = String::from("{\"type\":\"ERROR\",\"object\":");
        json::push_compact(&mut text, &tree::of_status(self));
        text.push_str("}\n");
        text
    }

    /// The frame of a protobuf watch with this as its ERROR, length included.
    pub fn to_watch_frame(&self) -> Vec<u8> {
        protobuf::watch_frame("ERROR", &self.to_protobuf())
    }
}
