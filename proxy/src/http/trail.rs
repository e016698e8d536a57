//! The events of one answer, from what is known when it begins to its end, which may be hours later and is told when the body
//! is gone.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::request::Parts;
use http::{HeaderValue, Response};
use weir_core::Status;

use super::body::ProxyBody;
use super::request::ReadRequest;
use crate::audit::{Audit, Event, Stage};
use crate::auth::Identity;

/// Names an answer in the audit logs of weir and upstream; the client's own is echoed.
pub(super) const AUDIT_ID: &str = "audit-id";

/// What is asked, and by whom.
pub(crate) struct Asked<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) request: &'a ReadRequest,
    pub(crate) user: Arc<Identity>,
    /// Why upstream allowed it.
    pub(crate) reason: Option<Arc<str>>,
    /// From where.
    pub(crate) peer: Option<IpAddr>,
    pub(crate) received: SystemTime,
    /// The name of its answer.
    pub(crate) id: HeaderValue,
}

/// An answer that is audited. Its last event is written when this is gone, if there was an answer.
#[derive(Debug)]
pub struct Trail {
    audit: Audit,
    event: Box<Event>,
    is_watch: bool,
    has_begun: bool,
}

// === impl Trail ===

impl Trail {
    /// Nothing is answered yet.
    pub(crate) fn new(audit: &Audit, asked: Asked<'_>) -> Self {
        let Asked { parts, request, user, reason, peer, received, id } = asked;
        let id = String::from_utf8_lossy(id.as_bytes()).into_owned();
        let from = (&request.info, &parts.uri, &parts.headers);
        let event = Event::new(from, (user, reason.as_deref()), (peer, received), id);
        Self { audit: audit.clone(), event: Box::new(event), is_watch: request.is_watch(), has_begun: false }
    }

    /// The same answer, whose end will be told.
    pub(crate) fn of(mut self, response: Response<ProxyBody>) -> Response<ProxyBody> {
        let (mut parts, body) = response.into_parts();
        self.event.answered(parts.status.as_u16(), parts.extensions.get::<Status>());
        self.has_begun = true;
        if self.is_watch && parts.status.is_success() {
            self.event.reach(Stage::ResponseStarted);
            self.audit.put(&self.event);
        }
        if let Ok(id) = HeaderValue::from_str(&self.event.audit_id) {
            parts.headers.insert(AUDIT_ID, id);
        }
        Response::from_parts(parts, body.audited(self))
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        if self.has_begun {
            self.event.reach(Stage::ResponseComplete);
            self.audit.put(&self.event);
        }
    }
}

/// The name of an answer: the client's own, or one in the form in which upstream makes them.
pub(super) fn audit_id(parts: &Parts) -> HeaderValue {
    parts.headers.get(AUDIT_ID).cloned().unwrap_or_else(random_id)
}

fn random_id() -> HeaderValue {
    let [a, b]: [u64; 2] = rand::random();
    let text = format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        0x8000 | (b >> 48) & 0x3fff,
        b & 0xffff_ffff_ffff
    );
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("unknown"))
}
