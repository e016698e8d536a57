//! Accepting clients: TLS, HTTP/1.1 or HTTP/2 by what the client asks for, and the end of connections when the process
//! drains. Every request goes to [`Proxy::answer`].
//!
//! A process that drains accepts for a while longer, since whoever sends it connections has yet to notice. Such a connection
//! is of use for that while: ended at once it would only come back.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;
use weir_daemon::{Lifecycle, Listener};
use weir_upstream::TaskExecutor;

use super::answer::Proxy;
use super::clients::PeerAddress;
use crate::drain::Drain;

/// How long a handshake may take.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// How long a client may take for the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(32);
/// Requests at once on one HTTP/2 connection; client-go puts all its watches on one.
const STREAMS: u32 = 1_000;
/// Bytes that HTTP/2 buffers for one stream that its client does not read.
const STREAM_BUFFER: usize = 64 << 10;
/// How often a silent HTTP/2 client is asked whether it is there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_LIMIT: Duration = Duration::from_secs(15);

/// Serves clients.
#[derive(Clone)]
pub struct Server {
    proxy: Arc<Proxy>,
    acceptor: TlsAcceptor,
    lifecycle: Lifecycle,
}

// === impl Server ===

impl Server {
    /// A server with this TLS configuration.
    pub fn new(proxy: Arc<Proxy>, acceptor: TlsAcceptor, lifecycle: Lifecycle) -> Self {
        Self { proxy, acceptor, lifecycle }
    }

    /// Accepts until the process drains, and ends when it stops. One that stops without having drained has no time left for
    /// its clients.
    pub async fn run(self, listener: Listener) {
        let stop = self.lifecycle.token().clone();
        let drain = self.drain().clone();
        let _ = stop.run_until_cancelled(self.accept(listener)).await;
        stop.cancelled().await;
        drain.begin(Duration::ZERO);
    }

    async fn accept(self, listener: Listener) {
        let drain = self.drain().clone();
        let mut closed = std::pin::pin!(drain.closed());
        loop {
            tokio::select! {
                biased;
                () = closed.as_mut() => return,
                (stream, from) = listener.accept() => {
                    let server = self.clone();
                    self.lifecycle.spawn("client connection", async move { server.connection(stream, from.ip()).await });
                }
            }
        }
    }

    fn drain(&self) -> &Drain {
        self.proxy.drain()
    }

    async fn connection(self, stream: TcpStream, from: IpAddr) {
        let _counted = self.drain().client();
        let handshake = tokio::time::timeout(HANDSHAKE_LIMIT, self.acceptor.accept(stream)).await;
        let Ok(Ok(stream)) = handshake else {
            debug!("handshake failed");
            return;
        };
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let served = if is_h2 { self.http2(stream, from).await } else { self.http1(stream, from).await };
        if let Err(error) = served {
            debug!(%error, "client connection ended");
        }
    }

    // In both protocols hyper keeps the room of a request's future for as long as its answer is sent. Deciding takes some
    // 30 KB of it, a watch lasts for hours: so the future is boxed, and gone once there is an answer.

    async fn http1(self, stream: TlsStream<TcpStream>, from: IpAddr) -> Result<(), hyper::Error> {
        let (drain, proxy) = (self.drain().clone(), self.proxy);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let proxy = proxy.clone();
            request.extensions_mut().insert(PeerAddress(from));
            async move { Ok::<_, Infallible>(Box::pin(proxy.answer(request)).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT).keep_alive(!drain.has_begun());
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            served = connection.as_mut() => return served,
            () = told(&drain) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }

    async fn http2(self, stream: TlsStream<TcpStream>, from: IpAddr) -> Result<(), hyper::Error> {
        let (drain, proxy) = (self.drain().clone(), self.proxy);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let proxy = proxy.clone();
            request.extensions_mut().insert(PeerAddress(from));
            async move { Ok::<_, Infallible>(Box::pin(proxy.answer(request)).await) }
        });
        let mut builder = http2::Builder::new(TaskExecutor::new(self.lifecycle.clone(), "client stream"));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_send_buf_size(STREAM_BUFFER)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_LIMIT);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            served = connection.as_mut() => return served,
            () = told(&drain) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }
}

/// Waits until a connection that is made now is to end.
async fn told(drain: &Drain) {
    if drain.has_begun() {
        drain.closed().await;
    } else {
        drain.begun().await;
    }
}
