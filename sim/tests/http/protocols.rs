//! HTTP/2, plain and over TLS.

use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use weir_sim::Listen;

use crate::fixture::Fixture;

type Sender = SendRequest<Empty<Bytes>>;

async fn connect<S>(stream: S) -> (Sender, JoinSet<()>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // Its end is seen by the requests on it.
        let _ = connection.await;
    });
    (sender, driver)
}

fn request(path: &str) -> http::Request<Empty<Bytes>> {
    http::Request::get(format!("https://sim{path}"))
        .header("authorization", "Bearer admin")
        .body(Empty::new())
        .unwrap()
}

#[tokio::test]
async fn many_watches_share_a_connection() {
    let fixture = Fixture::start().await;
    let stream = TcpStream::connect(fixture.handles[0].addr()).await.unwrap();
    let (mut sender, _driver) = connect(stream).await;
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={}", fixture.head());
    let mut watches = Vec::new();
    for _ in 0..50 {
        sender.ready().await.unwrap();
        watches.push(sender.send_request(request(&path)).await.unwrap());
    }
    fixture.create("configmaps", "web");
    for watch in &mut watches {
        let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(frame.starts_with(b"{\"type\":\"ADDED\""));
    }
}

#[tokio::test]
async fn a_cut_resets_one_stream_only() {
    let fixture = Fixture::start().await;
    let config_maps = fixture.sim.resource("configmaps").unwrap();
    let stream = TcpStream::connect(fixture.handles[0].addr()).await.unwrap();
    let (mut sender, _driver) = connect(stream).await;
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={}", fixture.head());
    fixture.sim.instance(0).cut_after(config_maps, 1);
    let mut cut = sender.send_request(request(&path)).await.unwrap();
    let mut whole = sender.send_request(request(&path)).await.unwrap();
    fixture.create("configmaps", "web");
    assert!(cut.frame().await.unwrap().is_ok());
    assert!(cut.frame().await.unwrap().is_err());
    fixture.create("configmaps", "web-2");
    for _ in 0..2 {
        assert!(whole.frame().await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn tls_is_what_the_caller_configures() {
    let key = rcgen::generate_simple_self_signed(["sim".to_owned()]).unwrap();
    let certificate = key.cert.der().clone();
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.signing_key.serialize_der()));
    let mut server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let fixture = Fixture::start().await;
    let listen = Listen { listener: None, tls: Some(Arc::new(server)) };
    let handle = fixture.sim.serve(0, listen).await.unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(handle.addr()).await.unwrap();
    let name = ServerName::try_from("sim").unwrap();
    let stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, _driver) = connect(stream).await;
    let answer = sender.send_request(request("/api/v1/namespaces/kube-system")).await.unwrap();
    assert_eq!(answer.status(), 200);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"{\"kind\":\"Namespace\""));
}
