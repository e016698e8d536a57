//! What weir does not serve itself, as upstream serves it: method, raw path and query, headers, bodies and trailers as they
//! are, in both directions at once, with the credentials of the client and none of weir's, or under the name that the client's
//! certificate has. Nothing is collected, nothing is limited in time.
//!
//! What is not passed on, whoever asks: a shard selector (an upstream that does not know it would answer with everything,
//! or delete everything), identity headers of a front proxy, and a request that has been here before.

mod body;
mod headers;
mod passed;
mod refusal;
mod tunnel;

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tracing::debug;
use weir_core::{Status, accept::Encoding, query::Query};
use weir_daemon::Lifecycle;
use weir_upstream::{Affinity, ForwardError, RemoteUser, RequestBody, Upstream};

use self::headers::Via;
pub(crate) use self::headers::asks_for_upgrade;
pub use self::{body::PassedBody, passed::Passed};
use crate::drain::Drain;

/// How many headers a request may have. The map of them holds three times as many and panics beyond, and some of weir's own come to
/// them. An answer has fewer: hyper takes 16 KiB of them.
const MAX_HEADERS: usize = 8_192;

/// The header that says who answered.
const ANSWERED_BY: &str = "weir-answered-by";

const SHARD_SELECTOR: &str = "shardSelector";

/// How much of a read is here before its client is told anything: the whole of most.
const BEGUN: usize = 1 << 20;

/// How long it is waited for. One that comes slowly is passed on as it comes: its client would take it for silence.
const BEGUN_LIMIT: Duration = Duration::from_secs(1);

/// How often a read is sent whose answer breaks off before that.
const TRIES: usize = 3;

/// Passes requests on to upstream.
#[derive(Clone, Debug)]
pub struct Passthrough {
    upstream: Upstream,
    lifecycle: Lifecycle,
    drain: Drain,
    via: Arc<Via>,
    /// Keyed at random, so that nobody can choose an instance by choosing a token.
    hasher: RandomState,
}

// === impl Passthrough ===

impl Passthrough {
    /// Tunnels of upgrades are spawned by `lifecycle`.
    pub fn new(upstream: Upstream, lifecycle: Lifecycle) -> Self {
        Self {
            upstream,
            lifecycle,
            drain: Drain::new(),
            via: Arc::new(Via::random()),
            hasher: RandomState::new(),
        }
    }

    /// The same, whose tunnels are waited for by a drain.
    #[must_use]
    pub fn drained_by(self, drain: Drain) -> Self {
        Self { drain, ..self }
    }

    /// Upstream's answer. Where there is none, a Status says so, and only a request that certainly was not carried out is
    /// answered in a way that makes clients send it again.
    pub async fn forward(&self, request: Request<Incoming>, why: Passed) -> Response<PassedBody> {
        let encoding = refusal::encoding(&request);
        let refusal = self.refuse(&request);
        let (parts, body) = request.into_parts();
        let is_upgrade = asks_for_upgrade(&parts);
        let request = Request::from_parts(parts, body);
        let answer = match refusal {
            Some(status) => Err(status),
            None if is_upgrade => self.upgrade(request).await,
            None => self.exchange(request.map(|body| body.map_err(Into::into).boxed_unsync())).await,
        };
        passed(answer, (encoding, why))
    }

    /// The same for a read whose answer comes to an end by itself. The client is told nothing before its first MiB is here, so
    /// an answer that breaks off before is asked for again: the mirror would have answered whatever became of a connection.
    pub async fn forward_read(&self, request: Request<Incoming>, why: Passed) -> Response<PassedBody> {
        let (encoding, refusal) = (refusal::encoding(&request), self.refuse(&request));
        let (parts, body) = request.into_parts();
        if !body.is_end_stream() || asks_for_upgrade(&parts) {
            return self.forward(Request::from_parts(parts, body), why).await;
        }
        let answer = match refusal {
            Some(status) => Err(status),
            None => self.read(&parts).await,
        };
        passed(answer, (encoding, why))
    }

    async fn read(&self, parts: &Parts) -> Result<Response<PassedBody>, Status> {
        for _ in 0..TRIES {
            let answer = self.exchange(Request::from_parts(parts.clone(), nothing())).await?;
            let (head, body) = answer.into_parts();
            match body.begun(BEGUN, BEGUN_LIMIT).await {
                Ok(body) => return Ok(Response::from_parts(head, body)),
                Err(error) => {
                    debug!(error = &error as &dyn std::error::Error, "an answer broke off as it began");
                }
            }
        }
        Err(refusal::unreachable())
    }

    /// Reads for a client what it did not ask for in these words: with its credentials and under its name, in JSON.
    pub async fn read_for(&self, client: &Parts, path: &str) -> Result<Response<PassedBody>, Status> {
        let mut parts = Request::new(()).into_parts().0;
        parts.uri = path.parse().map_err(|_| Status::bad_request("the request has no path"))?;
        if let Some(user) = client.extensions.get::<Arc<RemoteUser>>() {
            parts.extensions.insert(user.clone());
        }
        for name in [header::AUTHORIZATION, header::USER_AGENT, header::VIA] {
            let values = client.headers.get_all(&name).into_iter().cloned();
            for value in values {
                parts.headers.append(&name, value);
            }
        }
        parts.headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        self.read(&parts).await
    }

    /// What must not reach upstream.
    fn refuse(&self, request: &Request<Incoming>) -> Option<Status> {
        if request.method() == Method::CONNECT {
            return Some(Status::method_not_allowed());
        }
        if request.headers().len() > MAX_HEADERS {
            return Some(Status::new(431, "RequestHeaderFieldsTooLarge", "the request has too many headers"));
        }
        if names_shards(request.uri().query().unwrap_or_default()) {
            return Some(Status::bad_request(
                "shardSelector is honoured on lists and watches of mirrored resources only; this request was not sent",
            ));
        }
        self.via.has_passed(request.headers()).then(refusal::looped)
    }

    async fn exchange(&self, request: Request<RequestBody>) -> Result<Response<PassedBody>, Status> {
        let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
        let affinity = self.affinity(&request);
        let (request, user) = self.outgoing(request);
        let answer = match user {
            Some(user) => self.upstream.forward_as(&user, request, affinity).await,
            None => self.upstream.forward(request, affinity).await,
        };
        let mut response = answer.map_err(|error| unanswered(&error, is_read))?;
        headers::remove_hop_by_hop(response.headers_mut());
        Ok(response.map(PassedBody::from))
    }

    async fn upgrade(&self, mut request: Request<Incoming>) -> Result<Response<PassedBody>, Status> {
        let client = hyper::upgrade::on(&mut request);
        let protocol = request.headers().get(header::UPGRADE).cloned();
        let affinity = self.affinity(&request);
        let (mut request, user) = self.outgoing(request.map(|body| body.map_err(Into::into).boxed_unsync()));
        headers::set_upgrade(request.headers_mut(), protocol.clone());
        // It asks for a tunnel, so sending it twice may start something twice, whatever its method.
        let answer = match user {
            Some(user) => self.upstream.upgrade_as(&user, request, affinity).await,
            None => self.upstream.upgrade(request, affinity).await,
        };
        let mut response = answer.map_err(|error| unanswered(&error, false))?;
        let is_tunnel = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let chosen = response.headers().get(header::UPGRADE).cloned();
        if is_tunnel && !headers::is_same_protocol(protocol.as_ref(), chosen.as_ref()) {
            return Err(refusal::unknown_outcome());
        }
        headers::remove_hop_by_hop(response.headers_mut());
        if is_tunnel {
            headers::set_upgrade(response.headers_mut(), chosen);
            let upstream = hyper::upgrade::on(&mut response);
            let (parts, place) = response.into_parts();
            let counted = self.drain.client();
            tunnel::open(&self.lifecycle, tunnel::Ends { client, upstream, place, counted });
            return Ok(Response::from_parts(parts, PassedBody::empty()));
        }
        Ok(response.map(PassedBody::from))
    }

    /// The request as it goes on, and whose it is if weir has verified that.
    fn outgoing(&self, mut request: Request<RequestBody>) -> (Request<RequestBody>, Option<Arc<RemoteUser>>) {
        let version = request.version();
        headers::remove_hop_by_hop(request.headers_mut());
        self.upstream.remove_claims(request.headers_mut());
        // The client has been told to go on by the time its body is read here.
        request.headers_mut().remove(header::EXPECT);
        self.via.mark(version, request.headers_mut());
        let user = request.extensions_mut().remove();
        request.extensions_mut().clear();
        (request, user)
    }

    /// One client stays on one instance, also where it has many connections.
    fn affinity<B>(&self, request: &Request<B>) -> Affinity {
        if let Some(affinity) = request.extensions().get::<Affinity>() {
            return *affinity;
        }
        if let Some(user) = request.extensions().get::<Arc<RemoteUser>>() {
            return Affinity(self.hasher.hash_one(user));
        }
        let name = |name| request.headers().get(name).map(HeaderValue::as_bytes);
        Affinity(self.hasher.hash_one((name(header::AUTHORIZATION), name(header::USER_AGENT))))
    }
}

fn nothing() -> RequestBody {
    RequestBody::new(http_body_util::Empty::new().map_err(Into::into))
}

/// An answer as the client gets it.
fn passed(
    answer: Result<Response<PassedBody>, Status>,
    (encoding, why): (Encoding, Passed),
) -> Response<PassedBody> {
    let mut response = answer.unwrap_or_else(|status| refusal::response(&status, encoding));
    debug!(reason = why.reason(), status = response.status().as_u16(), "passed through");
    let answered_by = HeaderValue::from_static(why.answered_by());
    response.headers_mut().insert(ANSWERED_BY, answered_by);
    response
}

/// Whether upstream, or anybody who reads the query more leniently, could see a shard selector in it.
fn names_shards(raw_query: &str) -> bool {
    let query = Query::parse(raw_query);
    query.has(SHARD_SELECTOR) || query.drops(SHARD_SELECTOR)
}

fn unanswered(error: &ForwardError, is_read: bool) -> Status {
    debug!(error = error as &dyn std::error::Error, kind = ?error.kind(), "no answer from upstream");
    match error {
        ForwardError::Unreachable(_) => refusal::unreachable(),
        ForwardError::Malformed(_) => Status::bad_request("the request cannot be passed on as it is"),
        ForwardError::Broken(_) | ForwardError::Answer(_) | ForwardError::Timeout if is_read => {
            refusal::unreachable()
        }
        ForwardError::Broken(_) | ForwardError::Answer(_) | ForwardError::Timeout => {
            refusal::unknown_outcome()
        }
    }
}

#[cfg(test)]
mod tests;
