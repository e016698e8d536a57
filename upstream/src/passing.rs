//! One request on its way to upstream, with all attempts at it. It is sent again when that certainly does no harm: it was
//! never sent; upstream has said that it did not look at it; or it may be repeated and its answer did not begin. What
//! looks most like a proof and is none is a connection that breaks after upstream took the request.

use std::{pin::pin, sync::Arc, time::Duration};

use http::{HeaderMap, Method, Request, Response, StatusCode, uri::PathAndQuery};
use hyper::body::Incoming;

use crate::{
    error::{ConnectError, ForwardError},
    forward::{ForwardedBody, RequestBody, note},
    front::{FrontProxy, Whose},
    instance::Instance,
    pool::{Ticket, Way},
    rewind::Rewind,
    strangers::Refused,
    traffic::Traffic,
    wire::{Course, Lost, Wire},
};

/// A kept connection may go stale at any time, and so may the next one; after this many the instance is left.
const STALE_TRIES: usize = 3;

/// How often upstream may say of one request that it did not look at it, over all instances. It does so when it ends a
/// connection, and that this happens to five in a row has another reason than bad luck.
const MAX_REFUSALS: usize = 5;

/// After so many refusals it gets a connection of its own. Callers with credentials that upstream does not know yet end the
/// connections that they share with others, and may do so faster than those get through.
const SHARED_TRIES: usize = 2;

/// A request that its connection has not begun to write by then, or that is unanswered so long after the connection
/// stopped to take others, waits for nothing, if it can be repeated.
const STALLED_AFTER: Duration = Duration::from_secs(5);

/// How often a request may be sent although upstream may have looked at it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Never,
    Once {
        /// How long the first attempt waits for the head of its answer.
        patience: Option<Duration>,
    },
}

/// A request under way.
pub(crate) struct Passing<'a> {
    method: Method,
    headers: HeaderMap,
    path: PathAndQuery,
    rewind: Rewind,
    repeat: Repeat,
    traffic: Traffic,
    is_repeated: bool,
    refusals: usize,
    refused: &'a Refused,
    whose: Whose,
}

/// Why an attempt, or all attempts at one instance, came to nothing.
enum Failed {
    /// Upstream did not look at it, and there may be another instance.
    Unreachable(ConnectError),
    /// Upstream may have looked at it.
    Lost(ForwardError),
    /// There is no point in another attempt.
    Final(ForwardError),
}

// === impl Passing ===

impl<'a> Passing<'a> {
    pub(crate) fn new(
        request: Request<RequestBody>,
        (repeat, traffic): (Repeat, Traffic),
        refused: &'a Refused,
    ) -> Self {
        let path = crate::forward::path_of(&request);
        let (parts, body) = request.into_parts();
        let (method, headers) = (parts.method, parts.headers);
        Self {
            method,
            headers,
            path,
            rewind: Rewind::new(body),
            repeat,
            traffic,
            is_repeated: false,
            refusals: 0,
            refused,
            whose: Whose::Callers,
        }
    }

    /// The same over these connections.
    pub(crate) fn over(self, whose: Whose) -> Self {
        Self { whose, ..self }
    }

    /// The first instance comes a second time at the end: a read that was lost on the only instance gets another chance
    /// there, over another connection.
    pub(crate) async fn through(
        mut self,
        order: &[Arc<Instance>],
    ) -> Result<Response<ForwardedBody>, ForwardError> {
        let mut unreachable = None;
        let mut lost = None;
        for instance in order.iter().chain(order.first()) {
            match self.at(instance).await {
                Ok(response) => return Ok(response),
                Err(Failed::Unreachable(error)) => unreachable = Some(error),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Lost(error)) => {
                    if self.repeat == Repeat::Never || self.is_repeated || !self.rewind.give_up() {
                        return Err(error);
                    }
                    self.is_repeated = true;
                    lost = Some(error);
                }
            }
        }
        let unreachable = || ForwardError::Unreachable(unreachable.unwrap_or(ConnectError::NoInstance));
        Err(lost.unwrap_or_else(unreachable))
    }

    /// Tries one instance, over as many connections as turn out not to take the request.
    async fn at(&mut self, instance: &Arc<Instance>) -> Result<Response<ForwardedBody>, Failed> {
        let name = || instance.name().to_owned();
        let mut stale = 0;
        loop {
            let mut ticket = self.ticket(instance, stale).await.map_err(Failed::Unreachable)?;
            let request = self.attempt(instance, ticket.wire())?;
            let error = match self.answer(ticket.wire(), request).await {
                Ok(response) => return Ok(self.answered(response, ticket)),
                Err(Lost::Sent(error)) => return Err(Failed::Lost(ForwardError::Broken(error))),
                Err(Lost::Silent) => {
                    ticket.retire();
                    return Err(Failed::Lost(ForwardError::Timeout));
                }
                Err(Lost::Refused(error)) => {
                    ticket.retire();
                    self.refuse(instance, error)?;
                    continue;
                }
                Err(Lost::Unsent(source)) => ConnectError::Http { instance: name(), source },
                Err(Lost::Stuck) => ConnectError::Timeout { instance: name() },
            };
            ticket.retire();
            stale += 1;
            if !self.rewind.give_up() {
                return Err(Failed::Final(ForwardError::Unreachable(error)));
            }
            if stale == STALE_TRIES {
                return Err(Failed::Unreachable(error));
            }
        }
    }

    /// Whether there is another attempt after upstream did not look at this one.
    fn refuse(&mut self, instance: &Instance, source: hyper::Error) -> Result<(), Failed> {
        self.refusals += 1;
        if !self.rewind.give_up() {
            return Err(Failed::Final(ForwardError::Broken(source)));
        }
        if self.refusals > MAX_REFUSALS {
            let error = ConnectError::Refused { instance: instance.name().to_owned(), source };
            return Err(Failed::Final(ForwardError::Unreachable(error)));
        }
        Ok(())
    }

    async fn ticket(&self, instance: &Arc<Instance>, stale: usize) -> Result<Ticket, ConnectError> {
        let (way, pool) = (
            Way { party: self.whose.party(self.refused, &self.headers), traffic: self.traffic },
            self.whose.pool(instance),
        );
        let ticket = if self.refusals >= SHARED_TRIES {
            pool.alone(instance, way).await
        } else if stale + 1 < STALE_TRIES {
            pool.ticket(instance, way).await
        } else {
            pool.dial(instance, way).await
        };
        ticket.inspect_err(|error| note(instance, error))
    }

    fn attempt(&self, instance: &Instance, wire: &Wire) -> Result<Request<RequestBody>, Failed> {
        let body = self.rewind.start();
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        wire.address(instance, &self.path, &mut request).map_err(|error| Failed::Final(error.into()))?;
        self.whose.check(request.headers(), instance.access.front().map(FrontProxy::headers));
        Ok(request)
    }

    /// Waits for the head of the answer, and no longer than there is something to wait for.
    async fn answer(
        &self,
        wire: &mut Wire,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Lost> {
        let (closing, ended) = (wire.until(Course::Closing), wire.until(Course::Ended));
        let mut answer = pin!(wire.send(request));
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = closing => {}
            () = self.impatient() => return Err(Lost::Silent),
            () = self.stalled() => return Err(Lost::Stuck),
        }
        if self.repeat != Repeat::Never && !self.is_repeated {
            let answer = tokio::time::timeout(STALLED_AFTER, answer).await;
            return answer.unwrap_or(Err(Lost::Silent));
        }
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = ended => {}
        }
        // One that came into the queue while that was emptied for good is still there.
        if self.rewind.is_taken() { answer.await } else { Err(Lost::Stuck) }
    }

    async fn impatient(&self) {
        match self.repeat {
            Repeat::Once { patience: Some(patience) } if !self.is_repeated => {
                tokio::time::sleep(patience).await;
            }
            Repeat::Once { .. } | Repeat::Never => std::future::pending().await,
        }
    }

    /// Ready when the request waits in the queue of its connection for too long. A write stays there: the connection
    /// might take it in the moment in which it is given up.
    async fn stalled(&self) {
        if self.repeat != Repeat::Never {
            tokio::time::sleep(STALLED_AFTER).await;
            if !self.rewind.is_taken() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    fn answered(&self, response: Response<Incoming>, ticket: Ticket) -> Response<ForwardedBody> {
        self.rewind.settle();
        self.refused.note(&self.headers, response.status());
        if response.status() == StatusCode::UNAUTHORIZED {
            // kube-apiserver is about to end it.
            ticket.retire();
        }
        ForwardedBody::wrap(response, ticket)
    }
}

#[cfg(test)]
mod tests;
