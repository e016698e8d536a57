//! Passing requests on for others. A request is sent again only when it is certain that it does no harm; `passing.rs` has
//! the rules. All else is answered with what is known.
//!
//! There is no limit on the time to an answer here. Upstream bounds its own requests; logs, execs and watches may be
//! silent for as long as they like, and dead peers are found on the connection.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, uri::PathAndQuery};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use tracing::debug;

use crate::{
    connection::Role,
    error::{BoxError, ConnectError, ForwardError},
    front::{FrontProxy, Whose},
    instance::Instance,
    passing::{Passing, Repeat},
    pool::Ticket,
    traffic::Traffic,
    upstream::Upstream,
    wire::Lost,
};

/// Bounds an access review as a whole: a client waits for it.
pub(crate) const REVIEW_LIMIT: Duration = Duration::from_secs(10);

/// A review echoes its request and adds a sentence.
pub(crate) const REVIEW_BYTES: usize = 1 << 20;

/// How long the first question waits for the head of its answer. Reviews are answered within milliseconds, and the
/// second goes over another connection.
pub(crate) const REVIEW_PATIENCE: Duration = Duration::from_secs(3);

const REVIEW_PATH: PathAndQuery =
    PathAndQuery::from_static("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");

const WHO_PATH: PathAndQuery = PathAndQuery::from_static("/apis/authentication.k8s.io/v1/selfsubjectreviews");

/// The body of a request to upstream.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// Requests of one affinity go to the same instance while it can be reached, as they would on one connection of the
/// client: what it reads does not jump back and forth between caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affinity(pub u64);

/// Upstream's answer to an access review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewAnswer {
    /// 201 when the question was answered.
    pub status: StatusCode,
    /// The review with its status, or a Status.
    pub body: Bytes,
}

/// The body of an answer. It holds its place on the connection until it has been read or dropped.
#[derive(Debug)]
pub struct ForwardedBody {
    incoming: Incoming,
    ticket: Option<Ticket>,
}

// === impl Upstream ===

impl Upstream {
    /// Passes a request on, over connections that know nothing of weir's credentials. Its URI has path and query; `Host`
    /// is set here, all other headers are the caller's business.
    pub async fn forward(
        &self,
        request: Request<RequestBody>,
        affinity: Affinity,
    ) -> Result<Response<ForwardedBody>, ForwardError> {
        self.forward_over(Whose::Callers, request, affinity).await
    }

    pub(crate) async fn forward_over(
        &self,
        whose: Whose,
        request: Request<RequestBody>,
        affinity: Affinity,
    ) -> Result<Response<ForwardedBody>, ForwardError> {
        let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
        let may_repeat = is_read && request.body().is_end_stream();
        let repeat = if may_repeat { Repeat::Once { patience: None } } else { Repeat::Never };
        let traffic = Traffic::of(request.method(), &path_of(&request));
        self.exchange_over(whose, (request, (repeat, traffic)), affinity).await
    }

    /// Passes on a request that asks for an upgrade, over an HTTP/1.1 connection of its own. Only a 101 has an upgrade:
    /// take it with [`hyper::upgrade::on`], and keep the body beside it: that holds its place at the instance. The request
    /// is never sent twice.
    pub async fn upgrade(
        &self,
        request: Request<RequestBody>,
        affinity: Affinity,
    ) -> Result<Response<ForwardedBody>, ForwardError> {
        self.upgrade_over(Whose::Callers, request, affinity).await
    }

    pub(crate) async fn upgrade_over(
        &self,
        whose: Whose,
        mut request: Request<RequestBody>,
        affinity: Affinity,
    ) -> Result<Response<ForwardedBody>, ForwardError> {
        let path = path_of(&request);
        let party = whose.party(self.refused(), request.headers());
        let mut last = None;
        for instance in self.order(affinity) {
            let mut ticket = match whose.pool(&instance).single(&instance, party).await {
                Ok(ticket) => ticket,
                Err(error) => {
                    note(&instance, &error);
                    last = Some(error);
                    continue;
                }
            };
            ticket.wire().address(&instance, &path, &mut request)?;
            whose.check(request.headers(), self.access().front().map(FrontProxy::headers));
            return match ticket.wire().send(request).await {
                Ok(response) => Ok(ForwardedBody::wrap(response, ticket)),
                Err(Lost::Unsent(error) | Lost::Refused(error) | Lost::Sent(error)) => {
                    Err(ForwardError::Broken(error))
                }
                Err(Lost::Stuck | Lost::Silent) => Err(ForwardError::Timeout),
            };
        }
        Err(unreachable_error(last))
    }

    /// Asks upstream whether the bearer of `authorization` may do what `body`, a SelfSubjectAccessReview in JSON, says.
    /// The header is handed on as the caller sent it, so that it is judged as it would be on the request itself.
    pub async fn review(
        &self,
        authorization: &HeaderValue,
        body: Bytes,
        affinity: Affinity,
    ) -> Result<ReviewAnswer, ForwardError> {
        self.ask_as(authorization, (REVIEW_PATH, body), affinity).await
    }

    /// Asks upstream who the bearer of `authorization` is: the answer is a SelfSubjectReview in JSON.
    pub async fn who(
        &self,
        authorization: &HeaderValue,
        affinity: Affinity,
    ) -> Result<ReviewAnswer, ForwardError> {
        self.ask_as(authorization, (WHO_PATH, Bytes::from_static(b"{}")), affinity).await
    }

    async fn ask_as(
        &self,
        authorization: &HeaderValue,
        (path, body): (PathAndQuery, Bytes),
        affinity: Affinity,
    ) -> Result<ReviewAnswer, ForwardError> {
        let json = HeaderValue::from_static("application/json");
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = path.into();
        let headers = request.headers_mut();
        headers.insert(header::AUTHORIZATION, authorization.clone());
        headers.insert(header::CONTENT_TYPE, json.clone());
        headers.insert(header::ACCEPT, json);
        headers.insert(header::USER_AGENT, Role::Review.user_agent());
        // A review changes nothing, so it may be asked twice.
        let repeat = Repeat::Once { patience: Some(REVIEW_PATIENCE) };
        let asked = async {
            let how = (repeat, Traffic::Reviews);
            let answer = self.exchange_over(Whose::Callers, (request.map(full), how), affinity).await?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), REVIEW_BYTES);
            let body = body.collect().await.map_err(ForwardError::Answer)?.to_bytes();
            Ok(ReviewAnswer { status, body })
        };
        tokio::time::timeout(REVIEW_LIMIT, asked).await.map_err(|_| ForwardError::Timeout)?
    }

    pub(crate) async fn exchange_over(
        &self,
        whose: Whose,
        (request, how): (Request<RequestBody>, (Repeat, Traffic)),
        affinity: Affinity,
    ) -> Result<Response<ForwardedBody>, ForwardError> {
        Passing::new(request, how, self.refused()).over(whose).through(&self.order(affinity)).await
    }
}

pub(crate) fn note(instance: &Instance, error: &ConnectError) {
    debug!(instance = instance.name(), error = error as &dyn std::error::Error, "instance cannot be reached");
}

fn unreachable_error(last: Option<ConnectError>) -> ForwardError {
    ForwardError::Unreachable(last.unwrap_or(ConnectError::NoInstance))
}

pub(crate) fn path_of(request: &Request<RequestBody>) -> PathAndQuery {
    request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"))
}

pub(crate) fn full(body: Bytes) -> RequestBody {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

// === impl ForwardedBody ===

impl ForwardedBody {
    pub(crate) fn wrap(response: Response<Incoming>, ticket: Ticket) -> Response<Self> {
        let is_tunnel = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        response.map(|incoming| {
            let mut body = Self { incoming, ticket: Some(ticket) };
            if body.incoming.is_end_stream() && !is_tunnel {
                body.finish();
            }
            body
        })
    }

    fn finish(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.give_back();
        }
    }
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(context));
        match &frame {
            Some(Ok(_)) if !self.incoming.is_end_stream() => {}
            Some(Ok(_)) | None => self.finish(),
            Some(Err(_)) => self.ticket = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cfg(test)]
mod tests;
