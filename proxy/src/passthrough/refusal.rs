//! weir's own words where upstream has none. `Retry-After` makes clients send a request again, writes too, so it stands
//! only where that does no harm.

use http::{
    HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, USER_AGENT},
};
use weir_core::{
    Status,
    accept::{self, Asked, Encoding},
    query::Query,
};

use super::body::PassedBody;

/// Nothing was sent, or a read was lost.
pub(super) fn unreachable() -> Status {
    Status::service_unavailable("kube-apiserver cannot be reached", 1)
}

/// A write was lost: it may have been carried out.
pub(super) fn unknown_outcome() -> Status {
    Status::new(
        502,
        "InternalError",
        "the connection to kube-apiserver broke before an answer came; the request may have been carried out",
    )
}

/// The request came back.
pub(super) fn looped() -> Status {
    Status::new(508, "LoopDetected", "this request has passed here before: weir is its own upstream")
}

/// The encoding in which this request would have upstream's errors.
pub(super) fn encoding<B>(request: &Request<B>) -> Encoding {
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let raw_query = request.uri().query().unwrap_or_default();
    let query = Query::parse(raw_query);
    let (accept, user_agent) = (text(ACCEPT), text(USER_AGENT));
    accept::negotiate_error(&Asked { accept, user_agent, raw_query, query: &query })
}

pub(super) fn response(status: &Status, encoding: Encoding) -> Response<PassedBody> {
    let mut response = Response::new(PassedBody::whole(status.encode(encoding)));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(encoding.content_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Some(seconds) = status.retry_after_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
