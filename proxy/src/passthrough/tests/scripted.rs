//! The two ends of the tests: upstreams that do what a test says, and clients that write bytes by hand where the bytes
//! matter. The passthrough stands between them on a free port of loopback.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::SendRequest,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsAcceptor;
use weir_daemon::{Lifecycle, tls::ServerTls};
use weir_upstream::{BoxError, Origin, RequestBody, TaskExecutor, Upstream, UpstreamOptions};

use crate::passthrough::{Passed, Passthrough};

/// Longer than anything takes that is not broken.
const DEADLINE: Duration = Duration::from_secs(10);

/// A body that the test feeds frame by frame; it ends when the sender is dropped, or breaks with an error.
struct Fed(mpsc::Receiver<Result<Frame<Bytes>, BoxError>>);

pub(super) type Feeder = mpsc::Sender<Result<Frame<Bytes>, BoxError>>;

/// An upstream and how to reach it.
pub(super) struct Scripted {
    pub(super) url: http::Uri,
    requests: Arc<AtomicUsize>,
}

/// A client that writes and reads HTTP/1.1 by hand.
pub(super) struct RawClient(TcpStream);

pub(super) fn fed() -> (Feeder, RequestBody) {
    let (sender, receiver) = mpsc::channel(4);
    (sender, Fed(receiver).boxed_unsync())
}

// === impl Fed ===

impl Body for Fed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.poll_recv(context)
    }
}

// === impl Scripted ===

impl Scripted {
    /// HTTP/1.1 without TLS. An error of the handler breaks the connection.
    pub(super) async fn http1<H, F>(life: &Lifecycle, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<RequestBody>, BoxError>> + Send + 'static,
    {
        let (listener, address) = bind().await;
        let (requests, service) = counted(handler);
        let spawner = life.clone();
        life.spawn("scripted upstream", async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service.clone();
                spawner.spawn("scripted connection", async move {
                    let service = service_fn(service);
                    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                    let _ = connection.with_upgrades().await;
                });
            }
        });
        Self { url: format!("http://{address}").parse().unwrap(), requests }
    }

    /// HTTP/2 over TLS.
    pub(super) async fn http2<H, F>(life: &Lifecycle, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<RequestBody>, BoxError>> + Send + 'static,
    {
        let (listener, address) = bind().await;
        let acceptor = TlsAcceptor::from(ServerTls::self_made().unwrap().config);
        let (requests, service) = counted(handler);
        let spawner = life.clone();
        life.spawn("scripted upstream", async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let stream = acceptor.accept(stream).await.unwrap();
                assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                let service = service.clone();
                let executor = TaskExecutor::new(spawner.clone(), "scripted stream");
                spawner.spawn("scripted connection", async move {
                    let service = service_fn(service);
                    let builder = http2::Builder::new(executor);
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { url: format!("https://{address}").parse().unwrap(), requests }
    }

    /// Reads the head of one request, writes `answer`, and closes; gives the head to the test.
    pub(super) async fn raw(life: &Lifecycle, answer: &'static str) -> (Self, mpsc::Receiver<String>) {
        let (listener, address) = bind().await;
        let (heads, seen) = mpsc::channel(8);
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        life.spawn("raw upstream", async move {
            loop {
                let mut client = RawClient(listener.accept().await.unwrap().0);
                let head = client.head().await;
                counted.fetch_add(1, Ordering::SeqCst);
                heads.send(head).await.unwrap();
                client.write(answer).await;
            }
        });
        (Self { url: format!("http://{address}").parse().unwrap(), requests }, seen)
    }

    /// Reads the head of one request on each connection, writes `answer`, and keeps the connection; gives the head to the
    /// test, and what else comes until the end.
    pub(super) async fn recording(
        life: &Lifecycle,
        answer: &'static str,
    ) -> (Self, mpsc::Receiver<(String, String)>) {
        let (listener, address) = bind().await;
        let (seen, all) = mpsc::channel(8);
        let requests = Arc::new(AtomicUsize::new(0));
        let (counted, spawner) = (Arc::clone(&requests), life.clone());
        life.spawn("recording upstream", async move {
            loop {
                let mut client = RawClient(listener.accept().await.unwrap().0);
                let (counted, seen) = (Arc::clone(&counted), seen.clone());
                spawner.spawn("recorded connection", async move {
                    let head = client.head().await;
                    counted.fetch_add(1, Ordering::SeqCst);
                    client.write(answer).await;
                    let _ = seen.send((head, client.rest().await)).await;
                });
            }
        });
        (Self { url: format!("http://{address}").parse().unwrap(), requests }, all)
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn counted<H, F>(
    handler: H,
) -> (Arc<AtomicUsize>, impl Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static)
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
{
    let requests = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requests);
    let service = move |request| {
        counter.fetch_add(1, Ordering::SeqCst);
        handler(request)
    };
    (requests, service)
}

pub(super) fn text(text: &'static str) -> RequestBody {
    Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {}).boxed_unsync()
}

pub(super) async fn bind() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An upstream that trusts whatever these servers show.
pub(super) async fn upstream(life: &Lifecycle, urls: Vec<http::Uri>) -> Upstream {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("weir-passthrough-{}-{number}", std::process::id()));
    let cluster = r#"{"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": true}"#;
    let text = format!(
        r#"{{"apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{{"name": "one", "cluster": {cluster}}}],
        "users": [{{"name": "one", "user": {{"token": "of-weir"}}}}],
        "contexts": [{{"name": "one", "context": {{"cluster": "one", "user": "one"}}}}]}}"#
    );
    std::fs::write(&path, text).unwrap();
    let origin = Origin::Kubeconfig { path: Some(path.clone()), context: None };
    let upstream = Upstream::load(UpstreamOptions { origin, urls }, life).await.unwrap();
    std::fs::remove_file(path).unwrap();
    upstream
}

/// The passthrough in front of these upstreams, speaking HTTP/1.1 or HTTP/2 by prior knowledge.
pub(super) async fn front(life: &Lifecycle, urls: Vec<http::Uri>) -> SocketAddr {
    let (listener, address) = bind().await;
    let passthrough = Passthrough::new(upstream(life, urls).await, life.clone());
    serve(life, listener, passthrough);
    address
}

pub(super) fn serve(life: &Lifecycle, listener: TcpListener, passthrough: Passthrough) {
    let spawner = life.clone();
    life.spawn("front", async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let passthrough = passthrough.clone();
            let executor = TaskExecutor::new(spawner.clone(), "front stream");
            spawner.spawn("front connection", async move {
                let mut preface = [0; 3];
                stream.peek(&mut preface).await.unwrap();
                let service = service_fn(move |request| {
                    let passthrough = passthrough.clone();
                    async move { Ok::<_, Infallible>(passthrough.forward(request, Passed::NotMirrored).await) }
                });
                let stream = TokioIo::new(stream);
                if &preface == b"PRI" {
                    let mut builder = http2::Builder::new(executor);
                    let _ = builder.max_header_list_size(1 << 20).serve_connection(stream, service).await;
                } else {
                    let mut builder = http1::Builder::new();
                    let connection = builder.timer(TokioTimer::new()).serve_connection(stream, service);
                    let _ = connection.with_upgrades().await;
                }
            });
        }
    });
}

/// An HTTP/2 client of the front.
pub(super) async fn http2_client(life: &Lifecycle, address: SocketAddr) -> SendRequest<RequestBody> {
    let stream = TcpStream::connect(address).await.unwrap();
    let executor = TaskExecutor::new(life.clone(), "client stream");
    let (sender, connection) =
        hyper::client::conn::http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
    life.spawn("client", async move {
        let _ = connection.await;
    });
    sender
}

// === impl RawClient ===

impl RawClient {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(super) async fn write(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    pub(super) async fn close_write(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// Up to and with the empty line.
    pub(super) async fn head(&mut self) -> String {
        self.until("\r\n\r\n").await
    }

    pub(super) async fn until(&mut self, end: &str) -> String {
        let mut text = Vec::new();
        while !text.ends_with(end.as_bytes()) {
            let byte = within(self.0.read_u8()).await;
            let byte =
                byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&text)));
            text.push(byte);
        }
        String::from_utf8(text).unwrap()
    }

    /// Up to the end of the connection, however it comes.
    pub(super) async fn rest(&mut self) -> String {
        let mut text = Vec::new();
        let _ = within(self.0.read_to_end(&mut text)).await;
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A wait that cannot hang the test.
pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("it takes no longer than the deadline")
}
