//! Accepting clients: TLS, HTTP/1.1 or HTTP/2 by what the client asks for, and the end of connections when the process
//! drains. Every request goes to [`Proxy::answer`]. How many there may be, `entrance` knows.
//!
//! A process that drains accepts for a while longer, since whoever sends it connections has yet to notice. Such a connection
//! is of use for that while: ended at once it would only come back.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;
use tracing::debug;
use weir_daemon::Lifecycle;
use weir_daemon::clients::{ClientPort, ClientTls, Presented};
use weir_upstream::TaskExecutor;

use super::answer::Proxy;
use super::body::ProxyBody;
use super::clients::PeerAddress;
use super::entrance::{Entrance, EntranceLimits, EntranceMetrics, Place};
use crate::drain::Drain;

/// How long a client may take for the head of a request, and for its first one; upstream's limit.
pub const HEAD_LIMIT: Duration = Duration::from_secs(32);
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
    lifecycle: Lifecycle,
    limits: EntranceLimits,
    metrics: EntranceMetrics,
    head_limit: Duration,
}

/// Whoever is at the other end of a connection.
#[derive(Clone)]
struct Asker {
    proxy: Arc<Proxy>,
    from: IpAddr,
    presented: Option<Arc<Presented>>,
}

/// A connection as it was accepted.
struct Accepted {
    stream: TcpStream,
    from: IpAddr,
    place: Place,
}

// === impl Server ===

impl Server {
    /// A server of this proxy.
    pub fn new(proxy: Arc<Proxy>, lifecycle: Lifecycle) -> Self {
        let (limits, metrics) = (EntranceLimits::default(), EntranceMetrics::default());
        Self { proxy, lifecycle, limits, metrics, head_limit: HEAD_LIMIT }
    }

    /// The same with other bounds of connections.
    #[must_use]
    pub fn limited(self, limits: EntranceLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same, waiting so long for the head of a request.
    #[must_use]
    pub fn heads_within(self, head_limit: Duration) -> Self {
        Self { head_limit, ..self }
    }

    /// Shows operators how many connections there are.
    pub fn register(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Accepts until the process drains, and ends when it stops. One that stops without having drained has no time left for
    /// its clients.
    pub async fn run(self, port: ClientPort) {
        let stop = self.lifecycle.token().clone();
        let drain = self.drain().clone();
        let _ = stop.run_until_cancelled(self.accept(port)).await;
        stop.cancelled().await;
        drain.begin(Duration::ZERO);
    }

    async fn accept(self, port: ClientPort) {
        let drain = self.drain().clone();
        let entrance = Entrance::new(self.limits, self.metrics.clone());
        let mut closed = std::pin::pin!(drain.closed());
        let mut said = None;
        loop {
            let next = async {
                let place = entrance.place(&mut said).await;
                let (stream, from) = port.listener().accept().await;
                Accepted { stream, from: from.ip(), place }
            };
            tokio::select! {
                biased;
                () = closed.as_mut() => return,
                accepted = next => {
                    let (server, entrance, tls) = (self.clone(), entrance.clone(), port.tls().clone());
                    let connection = async move { server.connection(accepted, (&entrance, &tls)).await };
                    self.lifecycle.spawn("client connection", connection);
                }
            }
        }
    }

    fn drain(&self) -> &Drain {
        self.proxy.drain()
    }

    async fn connection(self, accepted: Accepted, (entrance, tls): (&Entrance, &ClientTls)) {
        let _counted = self.drain().client();
        let Accepted { stream, from, place } = accepted;
        let (stream, _place) = match entrance.handshake((stream, place), tls).await {
            Ok(shaken) => shaken,
            Err(error) => return debug!(error = &error as &dyn std::error::Error, "client refused"),
        };
        let session = stream.get_ref().1;
        let is_h2 = session.alpn_protocol() == Some(b"h2");
        let presented = tls.presented(session.peer_certificates()).map(Arc::new);
        let asker = Asker { proxy: self.proxy.clone(), from, presented };
        let served = if is_h2 { self.http2(stream, asker).await } else { self.http1(stream, asker).await };
        if let Err(error) = served {
            debug!(%error, "client connection ended");
        }
    }

    async fn http1(self, stream: TlsStream<TcpStream>, asker: Asker) -> Result<(), hyper::Error> {
        let drain = self.drain().clone();
        let service = service_fn(move |request: Request<Incoming>| asker.clone().answer(request));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.head_limit).keep_alive(!drain.has_begun());
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            served = connection.as_mut() => return served,
            () = told(&drain) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }

    async fn http2(self, stream: TlsStream<TcpStream>, asker: Asker) -> Result<(), hyper::Error> {
        let drain = self.drain().clone();
        let asked = watch::Sender::new(false);
        let silent = never_asked(asked.subscribe(), self.head_limit);
        let service = service_fn(move |request: Request<Incoming>| {
            asked.send_if_modified(|has_asked| !std::mem::replace(has_asked, true));
            asker.clone().answer(request)
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
            () = silent => {
                debug!("client never asked for anything");
                return Ok(());
            }
            () = told(&drain) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }
}

// === impl Asker ===

impl Asker {
    /// The answer to a request. In both protocols hyper keeps the room of a request's future for as long as its answer is sent.
    /// Deciding takes some 30 KB of it, a watch lasts for hours: so the future is boxed, and gone once there is an answer.
    async fn answer(self, mut request: Request<Incoming>) -> Result<Response<ProxyBody>, Infallible> {
        request.extensions_mut().insert(PeerAddress(self.from));
        if let Some(presented) = self.presented {
            request.extensions_mut().insert(presented);
        }
        Ok(Box::pin(self.proxy.answer(request)).await)
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

/// Ready when there was no request within the limit. Pings are answered by the dead too; this is about who lives and asks for
/// nothing, which HTTP/2 leaves open.
async fn never_asked(mut asked: watch::Receiver<bool>, limit: Duration) {
    let has_asked = tokio::time::timeout(limit, asked.wait_for(|has_asked| *has_asked)).await.is_ok();
    if has_asked {
        std::future::pending::<()>().await;
    }
}
