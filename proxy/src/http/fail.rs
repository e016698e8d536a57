//! Errors as HTTP, and the headers that every answer of weir's own carries. No other file writes a Status to a client.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};
use weir_core::Status;
use weir_core::accept::{self, Encoding};
use weir_core::query::Query;
use weir_core::status::DEADLINE_BODY;

use super::body::ProxyBody;
use super::request;
use crate::auth::Permit;
use crate::mirror::proofs::Proof;

/// The header that says who answered.
pub const ANSWERED_BY: &str = "weir-answered-by";

/// 429: come back in a second.
pub fn busy(message: &'static str) -> Status {
    Status::too_many_requests(message, 1)
}

/// An answer from a mirror, in JSON, to a caller who may have it, and what proved it where it had to be fresh.
pub fn json(_permit: &Permit, body: ProxyBody, proof: Option<Proof>) -> Response<ProxyBody> {
    let mut response = Response::new(body);
    mark(&mut response, HeaderValue::from_static("application/json"));
    if let Some(proof) = proof {
        response.headers_mut().insert(ANSWERED_BY, HeaderValue::from_static(proof.answered_by()));
    }
    response
}

/// A Status in the encoding that errors to this request have.
pub fn outcome(parts: &Parts, status: &Status) -> Response<ProxyBody> {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let encoding =
        request::asked(parts, &query).map_or(Encoding::Json, |asked| accept::negotiate_error(&asked));
    let body = match encoding {
        Encoding::Json => status.to_json().into(),
        Encoding::PrettyJson => status.to_pretty_json().into(),
        Encoding::Yaml => status.to_yaml().into(),
        Encoding::Protobuf => Bytes::from(status.to_protobuf()),
    };
    let mut response = Response::new(ProxyBody::full(body));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    // For whoever audits it.
    response.extensions_mut().insert(status.clone());
    mark(&mut response, HeaderValue::from_static(encoding.content_type()));
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// 504 of a request that took longer than its `timeout`, as upstream writes it: text, and never negotiated.
pub fn over_deadline() -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(DEADLINE_BODY));
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    mark(&mut response, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn mark(response: &mut Response<ProxyBody>, content_type: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(ANSWERED_BY, HeaderValue::from_static("mirror"));
}
