//! Accepting clients: TLS, HTTP/1.1 or HTTP/2 by what the client asks for, and the end of connections when the process
//! drains. Every request goes to [`Proxy::answer`]. How many there may be, `entrance` knows.
//!
//! A process that drains accepts for a while longer, since whoever sends it connections has yet to notice. Such a connection
//! is of use for that while: ended at once it would only come back.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;
use weir_daemon::Lifecycle;
use weir_daemon::clients::{ClientPort, ClientTls, Presented};
use weir_upstream::TaskExecutor;

use super::answer::Proxy;
use super::body::ProxyBody;
use super::clients::PeerAddress;
use super::entrance::{Entrance, EntranceLimits, EntranceMetrics, Place};
use super::idle::{Activity, Answering, Heard, Over, Waits};
use crate::drain::Drain;

/// How long a client may take for the head of a request, and for its first one; upstream's limit.
pub const HEAD_LIMIT: Duration = Duration::from_secs(32);
/// How long a connection waits for a request. Clients commonly close what they don't use after 90 s: whoever closes first sends
/// no request into a connection that is about to go.
const IDLE_LIMIT: Duration = Duration::from_secs(120);
/// Headers of a request over HTTP/1.1: who impersonates a user of many groups sends one for each.
const HEADERS: usize = 1_024;
/// Bytes of the headers of a request over HTTP/2, as kube-apiserver counts them: 1 MiB, and 32 for each of ten.
const HEADER_BYTES: u32 = (1 << 20) + 320;
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
    waits: Waits,
    goaway_chance: f64,
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
        let waits = Waits { head: HEAD_LIMIT, idle: IDLE_LIMIT };
        Self { proxy, lifecycle, limits, metrics, waits, goaway_chance: 0.0 }
    }

    /// The same with other bounds of connections.
    #[must_use]
    pub fn limited(self, limits: EntranceLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same, waiting so long for the head of a request.
    #[must_use]
    pub fn heads_within(self, head: Duration) -> Self {
        Self { waits: Waits { head, ..self.waits }, ..self }
    }

    /// The same, where each request has this chance to be the last that its connection takes. The next one goes over a new
    /// connection, which a balancer may bring to a proxy that was started meanwhile. What is under way goes on.
    #[must_use]
    pub fn moving_clients(self, goaway_chance: f64) -> Self {
        Self { goaway_chance, ..self }
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
        let (drain, waits, activity) = (self.drain().clone(), self.waits, Activity::new());
        let stream = Heard::new(stream, activity.clone());
        let begun = activity.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let (asker, is_last, under_way) = (asker.clone(), self.draws_goaway(), begun.begin());
            async move {
                let mut response = asker.answer(request).await;
                if is_last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, Infallible>(response.map(|body| Answering::new(body, under_way)))
            }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(None);
        builder.max_headers(HEADERS).keep_alive(!drain.has_begun());
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            // A request that has come counts before the time that it came at.
            biased;
            served = connection.as_mut() => return served,
            over = activity.over(waits) => match over {
                Over::Head => return Ok(()),
                Over::Idle => connection.as_mut().graceful_shutdown(),
            },
            () = told(&drain) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }

    async fn http2(self, stream: TlsStream<TcpStream>, asker: Asker) -> Result<(), hyper::Error> {
        let (drain, waits, lifecycle) = (self.drain().clone(), self.waits, self.lifecycle.clone());
        let (activity, last) = (Activity::new(), CancellationToken::new());
        let (begun, drawn) = (activity.clone(), last.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (asker, under_way) = (asker.clone(), begun.begin());
            if self.draws_goaway() {
                drawn.cancel();
            }
            async move {
                let response = asker.answer(request).await;
                Ok::<_, Infallible>(response.map(|body| Answering::new(body, under_way)))
            }
        });
        let mut builder = http2::Builder::new(TaskExecutor::new(lifecycle, "client stream"));
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEADER_BYTES)
            .max_send_buf_size(STREAM_BUFFER)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_LIMIT);
        let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            // A request that has come counts before the time that it came at.
            biased;
            served = connection.as_mut() => return served,
            over = activity.over(waits) => match over {
                Over::Head => return Ok(()),
                Over::Idle => connection.as_mut().graceful_shutdown(),
            },
            () = last.cancelled() => connection.as_mut().graceful_shutdown(),
            () = told(&drain) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    }

    fn draws_goaway(&self) -> bool {
        self.goaway_chance > 0.0 && rand::random_bool(self.goaway_chance)
    }
}

// === impl Asker ===

impl Asker {
    /// The answer to a request. hyper keeps the room of its future for as long as the answer is sent. Deciding takes some 30 KB of
    /// it, a watch lasts for hours: so it is boxed, and gone once there is an answer.
    async fn answer(self, mut request: Request<Incoming>) -> Response<ProxyBody> {
        request.extensions_mut().insert(PeerAddress(self.from));
        if let Some(presented) = self.presented {
            request.extensions_mut().insert(presented);
        }
        Box::pin(self.proxy.answer(request)).await
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
