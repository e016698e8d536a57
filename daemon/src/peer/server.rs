//! The server of a shard node: TLS if there are certificates, HTTP/2, and the services of the wire. Every request carries
//! the [`Caller`] in its extensions; that a caller is known does not mean that it may ask what it asks.
//!
//! Stopping refuses new requests and lets open ones end; the services end their streams themselves when the process stops.

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tonic::{Status, body::Body, codegen::Service, server::NamedService};
use tracing::{Instrument, debug, debug_span};
use weir_proto::{
    limits::{BATCH_BYTES, CONNECTION_WINDOW_BYTES, MAX_FRAME_BYTES, MAX_MESSAGE_BYTES, STREAM_WINDOW_BYTES},
    wire::{
        feed_server::{Feed, FeedServer},
        shard_server::{Shard, ShardServer},
    },
};

use super::{Caller, PING_EVERY, PING_LIMIT, PeerTls, preface::Opening};
use crate::{
    Lifecycle, Listener, SocketOptions, TaskExecutor,
    listener::{ListenError, is_loopback},
};

/// How long a peer may take for its TLS handshake, and again for the first bytes of HTTP/2.
pub(super) const OPENING_LIMIT: Duration = Duration::from_secs(10);

/// Connections that have not begun to speak HTTP/2; the next is not accepted before one of them has, or is gone. At some
/// 20 KiB each they hold 5 MiB.
pub(super) const OPENING_CONNECTIONS: usize = 256;

/// Requests at once on one connection: a session or a subscription takes one, and so does each list that is under way.
/// Peers wait with what is more.
const STREAMS: u32 = 1_024;

/// The header of a request; ours have a few hundred bytes.
const HEADER_BYTES: u32 = 16 << 10;

/// A bound address where peers connect, with the rule of who can: without certificates it is one of this machine.
pub struct PeerPort {
    listener: Listener,
    tls: Option<PeerTls>,
}

/// Serves peers.
pub struct PeerServer<F, S> {
    feed: FeedServer<F>,
    shard: ShardServer<S>,
    lifecycle: Lifecycle,
}

// === impl PeerPort ===

impl PeerPort {
    /// Binds an address; port 0 takes a free one. Without certificates only addresses of loopback are taken. Must be
    /// called inside the runtime.
    pub fn bind(address: SocketAddr, tls: Option<PeerTls>) -> Result<Self, ListenError> {
        if tls.is_none() && !is_loopback(address) {
            return Err(ListenError::PeersNotLoopback(address));
        }
        Ok(Self { listener: Listener::bind_anywhere(address, SocketOptions::for_peers())?, tls })
    }

    /// The address bound, with the port that was taken.
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }
}

// === impl PeerServer ===

impl<F: Feed, S: Shard> PeerServer<F, S> {
    /// With these services. Messages of up to [`MAX_MESSAGE_BYTES`] are read.
    pub fn new(feed: F, shard: S, lifecycle: Lifecycle) -> Self {
        Self {
            feed: FeedServer::new(feed).max_decoding_message_size(MAX_MESSAGE_BYTES),
            shard: ShardServer::new(shard).max_decoding_message_size(MAX_MESSAGE_BYTES),
            lifecycle,
        }
    }

    /// Accepts until the process stops. Connections are tasks of their own and end after it.
    pub async fn run(self, port: PeerPort) {
        let server = Arc::new(self);
        let openings = Arc::new(Semaphore::new(OPENING_CONNECTIONS));
        let next = async || {
            let permit = Arc::clone(&openings).acquire_owned().await.expect("never closed");
            (permit, port.listener.accept().await)
        };
        loop {
            let (permit, (stream, peer)) = tokio::select! {
                biased;
                () = server.lifecycle.token().cancelled() => return,
                next = next() => next,
            };
            let connection = Arc::clone(&server).connection(stream, port.tls.clone(), permit);
            let span = debug_span!("peer", %peer);
            server.lifecycle.spawn("peer connection", connection.instrument(span));
        }
    }

    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        tls: Option<PeerTls>,
        permit: OwnedSemaphorePermit,
    ) {
        let Some(tls) = tls else { return self.serve(stream, Caller::Trusted, permit).await };
        let accepted = tokio::select! {
            biased;
            () = self.lifecycle.token().cancelled() => return,
            accepted = tokio::time::timeout(OPENING_LIMIT, tls.accept(stream)) => accepted,
        };
        match accepted {
            Ok(Ok((stream, caller))) => self.serve(stream, caller, permit).await,
            Ok(Err(error)) => {
                let error: &dyn std::error::Error = &error;
                debug!(error, "peer refused");
            }
            Err(_) => debug!("peer took too long for its handshake"),
        }
    }

    /// Ends when the peer is gone, or after the process stops, once the open requests have ended.
    async fn serve<I>(self: Arc<Self>, io: I, caller: Caller, permit: OwnedSemaphorePermit)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        debug!(%caller, "peer connected");
        let lifecycle = self.lifecycle.clone();
        let (io, opened) = Opening::new(io);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(caller);
            Arc::clone(&self).route(request)
        });
        let connection = builder(&lifecycle).serve_connection(TokioIo::new(io), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            () = lifecycle.token().cancelled() => return,
            ended = connection.as_mut() => return say_ended(ended),
            opened = tokio::time::timeout(OPENING_LIMIT, opened) => if opened.is_err() {
                return debug!("peer took too long to begin");
            }
        }
        drop(permit);
        tokio::select! {
            biased;
            ended = connection.as_mut() => return say_ended(ended),
            () = lifecycle.token().cancelled() => connection.as_mut().graceful_shutdown(),
        }
        say_ended(connection.await);
    }

    async fn route(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let service = request.uri().path().split('/').nth(1).unwrap_or_default();
        if service == <ShardServer<S> as NamedService>::NAME {
            self.shard.clone().call(request).await
        } else if service == <FeedServer<F> as NamedService>::NAME {
            self.feed.clone().call(request).await
        } else {
            Ok(Status::unimplemented("no such service").into_http())
        }
    }
}

fn builder(lifecycle: &Lifecycle) -> http2::Builder<TaskExecutor> {
    let mut builder = http2::Builder::new(TaskExecutor::new(lifecycle.clone(), "peer request"));
    builder
        .timer(TokioTimer::new())
        .max_frame_size(MAX_FRAME_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS)
        // A proxy gives up proofs that are late, many at once where a node was held up. That is no attack, and to end the
        // connection for it would be to fail everything else that was asked on it.
        .max_pending_accept_reset_streams(STREAMS as usize)
        .max_header_list_size(HEADER_BYTES)
        // Beyond what is on its way, a stream buffers one batch more.
        .max_send_buf_size(BATCH_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_LIMIT);
    builder
}

fn say_ended(ended: Result<(), hyper::Error>) {
    match ended {
        Ok(()) => debug!("peer left"),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            debug!(error, "connection of a peer ended");
        }
    }
}
