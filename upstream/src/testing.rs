//! A small apiserver for tests: it listens on a free port of loopback, answers with what the test says, and counts.

use std::{
    convert::Infallible,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::PrivatePkcs8KeyDer;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use weir_daemon::Lifecycle;

use crate::{BoxError, Origin, Upstream, UpstreamOptions};

mod frames;

pub(crate) use frames::{Act, Asked, FrameServer};

pub(crate) type TestBody = UnsyncBoxBody<Bytes, BoxError>;

/// What the server speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Plain,
    Http2,
    Http1,
}

/// What the handler knows of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Counted from 0.
    pub(crate) connection: usize,
    pub(crate) has_certificate: bool,
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) authority: Authority,
    scheme: &'static str,
    connections: Arc<AtomicUsize>,
}

/// A CA with what it signed: the server's certificate, and one for a client.
#[derive(Clone)]
pub(crate) struct Authority {
    pub(crate) ca_pem: String,
    pub(crate) client_pem: String,
    pub(crate) client_key_pem: String,
    config: Arc<ServerConfig>,
}

impl Authority {
    pub(crate) fn new(alpn: &[&str]) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let sign = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([name.to_owned()]).unwrap();
            (params.signed_by(&key, &issuer).unwrap(), key)
        };
        let (server, server_key) = sign("127.0.0.1");
        let (client, client_key) = sign("client");
        let mut roots = RootCertStore::empty();
        roots.add(ca.der().clone()).unwrap();
        let provider = weir_daemon::tls::provider();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .unwrap();
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![server.der().clone()],
                PrivatePkcs8KeyDer::from(server_key.serialize_der()).into(),
            )
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        Self {
            ca_pem: ca.pem(),
            client_pem: client.pem(),
            client_key_pem: client_key.serialize_pem(),
            config: Arc::new(config),
        }
    }
}

impl TestServer {
    /// Serves until the life ends. An error of the handler breaks the connection (HTTP/1.1) or the stream (HTTP/2).
    pub(crate) async fn start<H, F>(life: &Lifecycle, speaks: Speaks, handler: H) -> Self
    where
        H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Result<Response<TestBody>, BoxError>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let alpn: &[&str] = if speaks == Speaks::Http2 { &["h2", "http/1.1"] } else { &["http/1.1"] };
        let authority = Authority::new(alpn);
        let acceptor = TlsAcceptor::from(Arc::clone(&authority.config));
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, spawner) = (Arc::clone(&connections), life.clone());
        life.spawn("test server", async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let connection = counted.fetch_add(1, Ordering::SeqCst);
                let (acceptor, handler, life) = (acceptor.clone(), handler.clone(), spawner.clone());
                spawner.spawn("test connection", async move {
                    if speaks == Speaks::Plain {
                        let peer = Peer { connection, has_certificate: false };
                        return serve(stream, peer, handler).await;
                    }
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let session = stream.get_ref().1;
                    let is_http2 = session.alpn_protocol() == Some(b"h2");
                    let peer = Peer { connection, has_certificate: session.peer_certificates().is_some() };
                    if is_http2 {
                        serve_http2(stream, peer, handler, life).await;
                    } else {
                        serve(stream, peer, handler).await;
                    }
                });
            }
        });
        let scheme = if speaks == Speaks::Plain { "http" } else { "https" };
        Self { address, authority, scheme, connections }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> http::Uri {
        format!("{}://{}", self.scheme, self.address).parse().unwrap()
    }

    /// A kubeconfig whose `user` is given in JSON.
    pub(crate) fn kubeconfig(&self, user: &serde_json::Value) -> String {
        use base64::Engine;
        let ca = base64::engine::general_purpose::STANDARD.encode(&self.authority.ca_pem);
        let cluster = serde_json::json!({
            "server": self.url().to_string(),
            "certificate-authority-data": if self.scheme == "https" { Some(ca) } else { None },
        });
        kubeconfig(&cluster, user)
    }

    /// An upstream of this server, with the user given in JSON.
    pub(crate) async fn upstream(&self, life: &Lifecycle, user: &serde_json::Value) -> Upstream {
        let file = TestFile::new(&self.kubeconfig(user));
        let origin = Origin::Kubeconfig { path: Some(file.path.clone()), context: None };
        Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, life).await.unwrap()
    }
}

/// Plain upstreams of these servers, without credentials.
pub(crate) async fn bare(life: &Lifecycle, urls: Vec<http::Uri>) -> Upstream {
    Upstream::load(UpstreamOptions { origin: Origin::Nothing, urls }, life).await.unwrap()
}

pub(crate) fn kubeconfig(cluster: &serde_json::Value, user: &serde_json::Value) -> String {
    serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "one",
        "clusters": [{"name": "one", "cluster": cluster}],
        "users": [{"name": "one", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
    })
    .to_string()
}

async fn serve<S, H, F>(stream: S, peer: Peer, handler: H)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Result<Response<TestBody>, BoxError>> + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        handler(request)
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
}

async fn serve_http2<S, H, F>(stream: S, peer: Peer, handler: H, life: Lifecycle)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(Request<Incoming>) -> F + Send + 'static,
    F: Future<Output = Result<Response<TestBody>, BoxError>> + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        handler(request)
    });
    let executor = crate::TaskExecutor::new(life, "test stream");
    let _ = hyper::server::conn::http2::Builder::new(executor)
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

pub(crate) fn text(text: impl Into<Bytes>) -> Response<TestBody> {
    Response::new(Full::new(text.into()).map_err(infallible).boxed_unsync())
}

/// An answer whose head comes and whose body never does.
pub(crate) fn silence() -> Response<TestBody> {
    Response::new(Silent.boxed_unsync())
}

struct Silent;

impl http_body::Body for Silent {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
        Poll::Pending
    }
}

pub(crate) fn infallible(never: Infallible) -> BoxError {
    match never {}
}

/// A file that goes with its owner.
pub(crate) struct TestFile {
    pub(crate) path: PathBuf,
}

impl TestFile {
    pub(crate) fn new(text: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-upstream-{}-{number}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self { path }
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
