//! From an answer to the bytes of a response: the headers that all have, errors in their own form, planted refusals.

use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::request::Parts;
use http::{Response, StatusCode};
use weir_core::Status;
use weir_core::query::Query;
use weir_core::status::Details;

use super::body::{self, Body, Flow};
use super::form::Form;
use crate::fault::Effect;

/// An answer before its common headers.
pub(super) enum Answer {
    /// A text of a media type, with its code.
    Text(u16, &'static str, String),
    /// An error.
    Failure(Status),
    /// A watch.
    Stream(Body),
}

/// What the response to a request has, whatever the answer is.
pub(super) struct Common {
    errors: Form,
    audit_id: HeaderValue,
    warning: Option<HeaderValue>,
}

/// The media type of bare texts.
pub(super) const PLAIN: &str = "text/plain; charset=utf-8";

const JSON: &str = "application/json";
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

// === impl Answer ===

impl Answer {
    /// A JSON text.
    pub(super) fn json(code: u16, text: String) -> Self {
        Self::Text(code, JSON, text)
    }

    /// The bare 404 of a path that nobody serves.
    pub(super) fn not_found() -> Self {
        Self::Text(404, PLAIN, "404 page not found\n".to_owned())
    }
}

// === impl Common ===

impl Common {
    /// Reads a request for what its response must have.
    pub(super) fn new(parts: &Parts, query: &Query, warning: Option<String>) -> Self {
        let warning = warning.map(|text| format!("299 - \"{text}\""));
        Self {
            errors: Form::plain(&parts.headers, query),
            audit_id: audit_id(parts),
            warning: warning.and_then(|text| HeaderValue::from_str(&text).ok()),
        }
    }

    /// The response.
    pub(super) fn respond(self, answer: Answer, flow: Flow) -> Response<Body> {
        let Self { errors, audit_id, warning } = self;
        let (code, content_type, body, retry_after) = match answer {
            Answer::Text(code, content_type, text) => {
                (code, content_type, body::whole(text, flow), u32::from(code == 429))
            }
            Answer::Stream(body) => (200, JSON, body, 0),
            Answer::Failure(status) => {
                let retry_after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
                (status.code, JSON, body::whole(errors.error(&status), flow), retry_after)
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(AUDIT_ID, audit_id);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if retry_after > 0 {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after));
        }
        if let Some(warning) = warning.filter(|_| code != 401 && code != 403) {
            headers.insert(WARNING, warning);
        }
        response
    }
}

/// What a planted refusal says: upstream's text for 429 and 401, an internal error for other codes.
pub(super) fn refusal(effect: Effect) -> Option<Answer> {
    match effect {
        Effect::Refuse(429) => {
            Some(Answer::Text(429, PLAIN, "Too many requests, please try again later.\n".to_owned()))
        }
        Effect::Refuse(401) => Some(Answer::Failure(Status::new(401, "Unauthorized", "Unauthorized"))),
        Effect::Refuse(code) => {
            let message = "Internal error occurred: a simulated fault";
            Some(Answer::Failure(Status::new(code, "InternalError", message)))
        }
        Effect::NotReady => {
            let status = Status::new(429, "TooManyRequests", "storage is (re)initializing");
            let details = Details { retry_after_seconds: 1, ..Details::default() };
            Some(Answer::Failure(Status { details: Some(details), ..status }))
        }
        Effect::CutAfter(_) | Effect::EndAfter(_) | Effect::TruncateAt(_) => None,
    }
}

/// Where a body is planted to break off.
pub(super) fn truncation(effect: Effect) -> Option<usize> {
    match effect {
        Effect::TruncateAt(bytes) => Some(bytes),
        Effect::CutAfter(_) | Effect::EndAfter(_) | Effect::Refuse(_) | Effect::NotReady => None,
    }
}

/// The id that the client gave, or one that is unique in this process.
fn audit_id(parts: &Parts) -> HeaderValue {
    static ANSWERED: AtomicU64 = AtomicU64::new(0);
    parts.headers.get(AUDIT_ID).cloned().unwrap_or_else(|| {
        let number = ANSWERED.fetch_add(1, Ordering::Relaxed);
        let text = format!("00000000-0000-4000-8000-{number:012x}");
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("0"))
    })
}
