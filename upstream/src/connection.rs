//! A connection of weir's own to one instance, with weir's credentials. A proof about an instance holds only on the
//! connection that the watch is on, so every answer carries the id of the connection it came over.
//!
//! On HTTP/2 that is one connection. HTTP/1.1 carries one request at a time, so there a [`Connection`] is a handle on
//! several, each with an id of its own: while a watch is open, the next request goes over another one, and its answer
//! has another id. Read the id from the answer's extensions, where both cases look the same.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use weir_core::SourceId;

use crate::{
    access::Identity,
    error::{ConnectError, SendError},
    forward::RequestBody,
    instance::Instance,
    wire::{self, Http2, Lost, Purpose, Windows, Wire},
};

/// Lists are large and few here: 2 MB of one stream may be on its way, 5 MB of a connection.
const BULK: Windows = Windows { stream: 2 << 20, connection: 5 << 20 };

/// Upstream gives up after 60 s by itself; what has not begun to answer by then never will.
const ANSWER_LIMIT: Duration = Duration::from_secs(75);

/// HTTP/1.1 connections that a handle keeps; a further one is used once.
const MAX_KEPT: usize = 8;

/// What a connection of weir's own is for; upstream's audit log tells them apart by the user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// List, watch and discovery.
    Feed,
    /// Access reviews.
    Review,
    /// Consistency questions.
    Proof,
    /// Audit events, for a webhook that is reached in the same way.
    Audit,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Many requests at once.
    Http2,
    /// One request at a time.
    Http1,
}

/// A connection of weir's own.
#[derive(Debug)]
pub struct Connection {
    instance: Arc<Instance>,
    id: SourceId,
    role: Role,
    lanes: Lanes,
}

#[derive(Debug)]
enum Lanes {
    Http2(Http2),
    Http1(Mutex<Vec<Socket>>),
}

/// One HTTP/1.1 connection that waits for a request.
#[derive(Debug)]
struct Socket {
    id: SourceId,
    sender: http1::SendRequest<RequestBody>,
}

// === impl Role ===

impl Role {
    /// The value of the header `User-Agent`.
    pub fn user_agent(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Feed => concat!("weir/", env!("CARGO_PKG_VERSION"), " (feed)"),
            Self::Review => concat!("weir/", env!("CARGO_PKG_VERSION"), " (review)"),
            Self::Proof => concat!("weir/", env!("CARGO_PKG_VERSION"), " (proof)"),
            Self::Audit => concat!("weir/", env!("CARGO_PKG_VERSION"), " (audit)"),
        })
    }
}

// === impl Connection ===

impl Connection {
    pub(crate) async fn open(instance: Arc<Instance>, role: Role) -> Result<Self, ConnectError> {
        let id = random_id();
        let lanes = match wire::open(&instance, OWN).await? {
            Wire::Http2(http2) => Lanes::Http2(http2),
            Wire::Http1(sender) => Lanes::Http1(Mutex::new(vec![Socket { id, sender }])),
        };
        Ok(Self { instance, id, role, lanes })
    }

    /// The id of the connection; on HTTP/1.1 that of the first one.
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// The instance at the other end.
    pub fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// What it is for.
    pub fn role(&self) -> Role {
        self.role
    }

    /// What it speaks.
    pub fn protocol(&self) -> Protocol {
        match self.lanes {
            Lanes::Http2(_) => Protocol::Http2,
            Lanes::Http1(_) => Protocol::Http1,
        }
    }

    /// Whether it takes no more requests. On HTTP/1.1 it always does: it connects again.
    pub fn is_closed(&self) -> bool {
        match &self.lanes {
            Lanes::Http2(http2) => http2.is_closed(),
            Lanes::Http1(_) => false,
        }
    }

    /// Sends a request with weir's credentials; its URI has path and query. The answer's extensions hold the
    /// [`SourceId`] of the connection it came over. On a 401 the credentials are read again, and when they are newer the
    /// request is sent once more.
    ///
    /// The wait for the head of the answer is bounded; its body may go on for ever. Dropping the future or the body
    /// ends the request at upstream.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Incoming>, SendError> {
        let (response, generation) = self.send_once(&request).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        if !self.instance.access.renew_refused(generation).await {
            return Ok(response);
        }
        drop(response);
        Ok(self.send_once(&request).await?.0)
    }

    async fn send_once(&self, request: &Request<Bytes>) -> Result<(Response<Incoming>, u64), SendError> {
        let shown = self.instance.access.headers().await.map_err(SendError::Credentials)?;
        let request = self.identified(request, shown.headers);
        let answer = tokio::time::timeout(ANSWER_LIMIT, self.dispatch(request)).await;
        Ok((answer.map_err(|_| SendError::Timeout)??, shown.generation))
    }

    fn identified(&self, request: &Request<Bytes>, shown: HeaderMap) -> Request<RequestBody> {
        let body = Full::new(request.body().clone()).map_err(|never| match never {}).boxed_unsync();
        let mut own = Request::new(body);
        *own.method_mut() = request.method().clone();
        *own.uri_mut() = request.uri().clone();
        *own.headers_mut() = request.headers().clone();
        own.headers_mut().extend(shown);
        own.headers_mut().insert(header::USER_AGENT, self.role.user_agent());
        own
    }

    async fn dispatch(&self, mut request: Request<RequestBody>) -> Result<Response<Incoming>, SendError> {
        let path = request.uri().path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        let (id, mut wire) = match &self.lanes {
            Lanes::Http2(http2) => (self.id, Wire::Http2(http2.clone())),
            Lanes::Http1(sockets) => self.socket(sockets).await?,
        };
        wire.address(&self.instance, &path, &mut request)?;
        let mut response = wire.send(request).await.map_err(|lost| match lost {
            Lost::Unsent(error) | Lost::Refused(error) | Lost::Sent(error) => SendError::Broken(error),
            Lost::Stuck | Lost::Silent => SendError::Timeout,
        })?;
        response.extensions_mut().insert(id);
        if let (Lanes::Http1(sockets), Wire::Http1(sender)) = (&self.lanes, wire) {
            keep(sockets, Socket { id, sender });
        }
        Ok(response)
    }

    async fn socket(&self, sockets: &Mutex<Vec<Socket>>) -> Result<(SourceId, Wire), ConnectError> {
        let idle = {
            let mut sockets = lock(sockets);
            sockets.retain(|socket| !socket.sender.is_closed());
            let ready = sockets.iter().position(|socket| socket.sender.is_ready());
            ready.map(|at| sockets.swap_remove(at))
        };
        match idle {
            Some(Socket { id, sender }) => Ok((id, Wire::Http1(sender))),
            None => Ok((random_id(), wire::open(&self.instance, OWN).await?)),
        }
    }
}

const OWN: Purpose = Purpose { identity: Identity::Own, windows: BULK };

fn keep(sockets: &Mutex<Vec<Socket>>, socket: Socket) {
    let mut sockets = lock(sockets);
    if sockets.len() < MAX_KEPT {
        sockets.push(socket);
    }
}

fn lock(sockets: &Mutex<Vec<Socket>>) -> MutexGuard<'_, Vec<Socket>> {
    sockets.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Random, so that two processes never call two connections the same.
fn random_id() -> SourceId {
    SourceId(rand::random())
}

#[cfg(test)]
mod tests;
