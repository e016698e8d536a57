//! An HTTP client that keeps every byte: HTTP/2 or HTTP/1.1 over TLS, a bearer token or none.
//!
//! A client of client-go puts all its requests on one connection, and so does this one; a test about connections takes a
//! client [`Client::alone`].

mod connections;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use std::sync::Mutex;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weir_daemon::Lifecycle;
use weir_upstream::TaskExecutor;

use crate::stream::Watching;

/// Nothing that these tests wait for takes longer, by far; a hang is a failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// What hyper's client gives a stream and a connection, and a client that reads little.
#[derive(Clone, Copy)]
pub(crate) struct Windows {
    pub(crate) stream: u32,
    pub(crate) connection: u32,
}

/// Which HTTP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Where a server is and how to trust it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    roots: Arc<RootCertStore>,
}

/// Somebody who asks.
#[derive(Clone)]
pub(crate) struct Client {
    server: Server,
    protocol: Protocol,
    windows: Windows,
    certificate: Option<Arc<CertifiedKey>>,
    headers: HeaderMap,
    tasks: Lifecycle,
    open: Arc<Mutex<Open>>,
}

/// The connection of an HTTP/2 client, and the tasks of all its connections.
#[derive(Default)]
struct Open {
    shared: Option<http2::SendRequest<Full<Bytes>>>,
    tasks: Vec<AbortHandle>,
}

/// An answer whose body may still be coming.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Incoming,
}

/// An answer that was read.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

const WIDE: Windows = Windows { stream: 2 << 20, connection: 8 << 20 };

// === impl Server ===

impl Server {
    pub(crate) fn new(address: SocketAddr, ca_pem: &str) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
        Self { address, roots: Arc::new(roots) }
    }

    async fn connect(&self, protocol: Protocol, shown: Option<&Arc<CertifiedKey>>) -> TlsStream<TcpStream> {
        let builder = ClientConfig::builder_with_provider(weir_daemon::tls::provider());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(self.roots.clone());
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            // Whatever the server hints at: clients may show what it does not trust.
            Some(shown) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(shown.clone()))),
        };
        config.alpn_protocols = vec![match protocol {
            Protocol::Http1 => b"http/1.1".to_vec(),
            Protocol::Http2 => b"h2".to_vec(),
        }];
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let name = ServerName::IpAddress(self.address.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

// === impl Client ===

impl Client {
    /// An HTTP/2 client with a token; its tasks are spawned by `tasks`.
    pub(crate) fn new(server: Server, token: &str, tasks: Lifecycle) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert("user-agent", "weir-tests".parse().unwrap());
        headers.insert("accept", "application/json".parse().unwrap());
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        let open = Arc::default();
        Self { server, protocol: Protocol::Http2, windows: WIDE, certificate: None, headers, tasks, open }
    }

    /// The same on a connection of its own.
    pub(crate) fn alone(&self) -> Self {
        Self { open: Arc::default(), ..self.clone() }
    }

    /// One that leaves the server little room for what it does not read.
    pub(crate) fn narrow(&self) -> Self {
        Self { windows: Windows { stream: 65_535, connection: 65_535 }, ..self.alone() }
    }

    pub(crate) fn speaking(&self, protocol: Protocol) -> Self {
        Self { protocol, ..self.alone() }
    }

    /// The same with another token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        self.with_header("authorization", &format!("Bearer {token}"))
    }

    /// The same with no credential.
    pub(crate) fn anonymous(&self) -> Self {
        let mut client = self.clone();
        client.headers.remove("authorization");
        client
    }

    pub(crate) fn with_header(&self, name: &'static str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.insert(name, value.parse().unwrap());
        client
    }

    /// A connection on which nothing has been said.
    pub(crate) async fn connect(&self, protocol: Protocol) -> TlsStream<TcpStream> {
        self.server.connect(protocol, self.certificate.as_ref()).await
    }

    /// The same with a certificate, on a connection of its own.
    pub(crate) fn showing(&self, certificate: Arc<CertifiedKey>) -> Self {
        Self { certificate: Some(certificate), ..self.alone() }
    }

    /// The same with one more header for each value.
    pub(crate) fn with_headers(&self, name: &'static str, values: impl Iterator<Item = String>) -> Self {
        let mut client = self.clone();
        for value in values {
            client.headers.append(name, value.parse().unwrap());
        }
        client
    }

    /// GET, to the end of the body.
    pub(crate) async fn get(&self, path: &str) -> Whole {
        self.open(path).await.whole().await
    }

    /// GET, to the head of the answer.
    pub(crate) async fn open(&self, path: &str) -> Answer {
        self.send("GET", path, Bytes::new()).await
    }

    /// GET of a watch.
    pub(crate) async fn watch(&self, path: &str) -> Watching {
        let answer = self.open(path).await;
        if answer.code != 200 {
            panic!("{path}: {:?}", answer.whole().await);
        }
        Watching::new(path, answer)
    }

    /// GET; `None` where the answer broke off before its head was out.
    pub(crate) async fn open_or_broken(&self, path: &str) -> Option<Answer> {
        self.try_send("GET", path, Bytes::new()).await.ok()
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: Bytes) -> Answer {
        self.try_send(method, path, body).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    async fn try_send(&self, method: &str, path: &str, body: Bytes) -> Result<Answer, hyper::Error> {
        let sent = timeout(LIMIT, self.exchange(method, path, body)).await;
        let (head, body) = sent.unwrap_or_else(|_| panic!("no answer to {path} in time"))?.into_parts();
        Ok(Answer { code: head.status.as_u16(), headers: head.headers, body })
    }

    /// Ends all connections at once, as the death of the client does.
    pub(crate) fn vanish(&self) {
        let mut open = self.open.lock().unwrap();
        open.shared = None;
        open.tasks.drain(..).for_each(|task| task.abort());
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, hyper::Error> {
        let mut request = Request::builder().method(method).body(Full::new(body)).unwrap();
        *request.headers_mut() = self.headers.clone();
        match self.protocol {
            Protocol::Http1 => {
                let mut sender = self.http1().await;
                *request.uri_mut() = path.parse().unwrap();
                request.headers_mut().insert("host", self.server.address.to_string().parse().unwrap());
                sender.send_request(request).await
            }
            Protocol::Http2 => {
                let mut sender = self.http2().await;
                *request.uri_mut() = format!("https://{}{path}", self.server.address).parse().unwrap();
                match sender.send_request(request.clone()).await {
                    // It was never sent, since the connection takes no more, which its sender learns late; or it crossed the
                    // GOAWAY that says so, and nobody looked at it.
                    Err(error) if error.is_canceled() || has_crossed_goaway(&error) => {
                        self.open.lock().unwrap().shared = None;
                        self.http2().await.send_request(request).await
                    }
                    answer => answer,
                }
            }
        }
    }

    async fn http1(&self) -> http1::SendRequest<Full<Bytes>> {
        let stream = self.connect(self.protocol).await;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        self.carry(async move { drop(connection.await) });
        sender
    }

    async fn http2(&self) -> http2::SendRequest<Full<Bytes>> {
        if let Some(sender) = self.open.lock().unwrap().shared.clone().filter(|sender| !sender.is_closed()) {
            return sender;
        }
        let stream = self.connect(self.protocol).await;
        let executor = TaskExecutor::new(self.tasks.clone(), "test client stream");
        let mut builder = http2::Builder::new(executor);
        builder.initial_stream_window_size(self.windows.stream);
        builder.initial_connection_window_size(self.windows.connection);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        self.carry(async move { drop(connection.await) });
        self.open.lock().unwrap().shared = Some(sender.clone());
        sender
    }

    fn carry(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn("test client connection", connection);
        self.open.lock().unwrap().tasks.push(task);
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) async fn whole(self) -> Whole {
        self.whole_or_broken().await.expect("a body that ends")
    }

    /// `None` for a body that broke off, as one that upstream breaks off has to.
    pub(crate) async fn whole_or_broken(self) -> Option<Whole> {
        let Self { code, headers, body } = self;
        let body = timeout(LIMIT, body.collect()).await.expect("no end of the body in time");
        Some(Whole { code, headers, body: body.ok()?.to_bytes() })
    }
}

// === impl Whole ===

impl Whole {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The header that says who answered.
    pub(crate) fn answered_by(&self) -> &str {
        header(&self.headers, "weir-answered-by")
    }

    /// Whether the mirror answered.
    pub(crate) fn is_mirrored(&self) -> bool {
        is_of_mirror(self.answered_by())
    }

    /// An answer from the mirror, as it has to be.
    #[track_caller]
    pub(crate) fn mirrored(self) -> Self {
        assert!(
            self.code == 200 && self.is_mirrored(),
            "{} by {}: {}",
            self.code,
            self.answered_by(),
            self.text()
        );
        self
    }

    /// An answer that had to be fresh: upstream's own, where a busy machine left no time for a proof.
    #[track_caller]
    pub(crate) fn fresh(self) -> Self {
        assert_eq!(self.code, 200, "{}", self.text());
        assert!(self.is_mirrored() || self.answered_by() == "passed; freshness", "{}", self.answered_by());
        self
    }

    /// A refusal with this code and reason.
    #[track_caller]
    pub(crate) fn refused(&self, code: u16, reason: &str) {
        let status = self.json();
        assert_eq!((self.code, &status["code"], &status["kind"]), (code, &code.into(), &"Status".into()));
        assert_eq!(status["reason"], reason, "{status}");
    }
}

/// Whether the header that says who answered names the mirror, with or without what proved that it was fresh.
pub(crate) fn is_of_mirror(answered_by: &str) -> bool {
    answered_by.split("; ").next() == Some("mirror")
}

/// A header's text; empty if there is none.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// Whether the other side ended the connection in peace before it looked at the request.
fn has_crossed_goaway(error: &hyper::Error) -> bool {
    let reason = std::error::Error::source(error).and_then(|source| source.downcast_ref::<h2::Error>());
    reason.is_some_and(|error| {
        error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
    })
}
