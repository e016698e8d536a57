//! weir's own words where upstream has none. `Retry-After` makes clients send a request again, writes too, so it stands
//! only where that does no harm.

use http::{
    HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
};
use weir_core::Status;

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

pub(super) fn response(status: &Status) -> Response<PassedBody> {
    let mut response = Response::new(PassedBody::whole(status.to_json()));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Some(seconds) = status.retry_after_seconds() {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
