//! Who is let in, and as whom.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderName, HeaderValue, Uri};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio::{io::AsyncReadExt, net::TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::{metadata::MetadataMap, transport::Endpoint};
use weir_proto::wire::{Prove, feed_client::FeedClient};

use super::*;
use crate::{listener::ListenError, tls::provider};

/// What a front proxy would say of a user, and what a user would say to be another.
const FORWARDED: [(&str, &str); 5] = [
    ("x-remote-user", "admin"),
    ("x-remote-group", "system:masters"),
    ("impersonate-user", "admin"),
    ("impersonate-group", "system:masters"),
    ("x-forwarded-client-cert", "DNS=proxy.weir.internal"),
];

/// A client that is no peer: it trusts the node, and shows what it likes.
async fn connect(
    address: SocketAddr,
    ca: &PeerCa,
    shown: Option<&PeerIdentity>,
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let chain = vec![CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("shard.weir.internal").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Asks over a connection that is there, with the words of a forwarded identity.
async fn ask_forwarded(stream: TlsStream<TcpStream>) -> Result<(), Status> {
    let mut only = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_: Uri| {
        std::future::ready(only.take().ok_or_else(|| Status::unavailable("lost")))
    });
    let channel = Endpoint::from_static("http://shard.weir.internal").connect_with_connector(connector).await;
    let channel = channel.map_err(|error| Status::unavailable(error.to_string()))?;
    let mut request = Request::new(WindowRequest::default());
    let mut headers = http::HeaderMap::new();
    for (name, value) in FORWARDED {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    *request.metadata_mut() = MetadataMap::from_headers(headers);
    ShardClient::new(channel).window(request).await.map(|_| ())
}

#[tokio::test]
async fn ds_11_nothing_is_served_without_a_certificate_of_the_peer_ca_with_the_name_of_a_role() {
    let (ca, other) = (PeerCa::generate().unwrap(), PeerCa::generate().unwrap());
    let node = Node::start(Some(tls(&ca, &ca.shard(0, 4).unwrap())));
    let strangers = [
        ("no certificate", None),
        ("a proxy of another CA", Some(other.proxy().unwrap())),
        ("a shard node of another CA", Some(other.shard(0, 4).unwrap())),
        ("a name of no role", Some(ca.sign(&["admin.weir.internal"]).unwrap())),
        ("the name of all shard nodes only", Some(ca.sign(&["shard.weir.internal"]).unwrap())),
        ("a wildcard", Some(ca.sign(&["*.weir.internal", "*.shard.weir.internal"]).unwrap())),
        ("an address", Some(ca.sign(&["127.0.0.1"]).unwrap())),
        ("no name", Some(ca.sign(&[]).unwrap())),
        ("two roles", Some(ca.sign(&["proxy.weir.internal", "0-of-4.shard.weir.internal"]).unwrap())),
        ("two shards", Some(ca.sign(&["0-of-4.shard.weir.internal", "1-of-4.shard.weir.internal"]).unwrap())),
    ];
    for (who, shown) in &strangers {
        let asked = within(Box::pin(async {
            match connect(node.address, &ca, shown.as_ref(), &[b"h2"]).await {
                Ok(stream) => ask_forwarded(stream).await,
                Err(error) => Err(Status::unauthenticated(error.to_string())),
            }
        }));
        assert!(asked.await.is_err(), "{who} was answered");
        assert_eq!(node.double.seen(), [], "{who} was served");
    }

    // The same client with a certificate as it should be: the words that it forwards make it nobody else.
    let shard = ca.shard(1, 4).unwrap();
    let stream = within(connect(node.address, &ca, Some(&shard), &[b"h2"])).await.unwrap();
    within(Box::pin(ask_forwarded(stream))).await.unwrap();
    assert_eq!(node.double.seen(), [Some(Caller::Shard { index: 1, count: 4 })]);
    assert!(!node.life().is_stopping());
}

#[tokio::test]
async fn a_service_sees_the_role_that_the_certificate_names() {
    let ca = PeerCa::generate().unwrap();
    let node = Node::start(Some(tls(&ca, &ca.shard(0, 3).unwrap())));
    for (identity, role) in [
        (ca.proxy().unwrap(), Caller::Proxy),
        (ca.shard(2, 3).unwrap(), Caller::Shard { index: 2, count: 3 }),
        (ca.shard(0, 3).unwrap(), Caller::Shard { index: 0, count: 3 }),
    ] {
        let tls = tls(&ca, &identity);
        assert_eq!(tls.role(), role);
        let channel = within(dialer(tls).connect(&node.address())).await.unwrap();
        within(ask(&channel)).await.unwrap();
        assert_eq!(node.double.seen().last(), Some(&Some(role)));
    }
}

#[tokio::test]
async fn without_certificates_a_process_of_the_machine_is_trusted() {
    let node = Node::start(None);
    let channel = within(Dialer::new(None, Lifecycle::new()).connect(&node.address())).await.unwrap();
    within(ask(&channel)).await.unwrap();
    assert_eq!(node.double.seen(), [Some(Caller::Trusted)]);
}

#[tokio::test]
async fn both_services_are_reached_and_no_other() {
    let node = Node::start(None);
    let channel = within(Dialer::new(None, Lifecycle::new()).connect(&node.address())).await.unwrap();
    within(ask(&channel)).await.unwrap();
    let proof = within(FeedClient::new(channel.clone()).prove(Prove::default())).await.unwrap();
    assert_eq!(proof.into_inner().revision, 7);
    for path in
        ["/weir.v1.Other/Window", "/weir.v1.Shard/Other", "/weir.v1.Shar", "/", "//weir.v1.Shard/Window"]
    {
        let request = http::Request::post(path).body(tonic::body::Body::empty()).unwrap();
        let answer = within(tower::ServiceExt::oneshot(channel.clone(), request)).await.unwrap();
        assert_eq!(answer.headers()["grpc-status"], "12", "{path} is not implemented");
    }
    assert_eq!(node.double.seen().len(), 1);
}

#[tokio::test]
async fn a_peer_that_does_not_ask_for_http2_is_refused() {
    let ca = PeerCa::generate().unwrap();
    let node = Node::start(Some(tls(&ca, &ca.shard(0, 1).unwrap())));
    let shown = ca.proxy().unwrap();
    for alpn in [&[] as &[&[u8]], &[b"http/1.1"]] {
        let read = within(async {
            let mut read = Vec::new();
            if let Ok(mut stream) = connect(node.address, &ca, Some(&shown), alpn).await {
                let _ = stream.read_to_end(&mut read).await;
            }
            read
        });
        assert!(read.await.is_empty(), "{alpn:?} is spoken to");
    }
}

#[tokio::test]
async fn only_with_certificates_an_address_that_others_reach_is_taken() {
    let ca = PeerCa::generate().unwrap();
    let tls = tls(&ca, &ca.shard(0, 1).unwrap());
    for address in ["0.0.0.0:0", "[::ffff:0.0.0.0]:0"] {
        let address: SocketAddr = address.parse().unwrap();
        let refused = PeerPort::bind(address, None).err().unwrap();
        assert!(matches!(refused, ListenError::PeersNotLoopback(_)), "{refused}");
        assert!(refused.to_string().contains("without certificates"), "{refused}");
    }
    let port = PeerPort::bind("0.0.0.0:0".parse().unwrap(), Some(tls)).unwrap();
    assert_ne!(port.local_address().port(), 0);
    assert_ne!(PeerPort::bind("127.0.0.1:0".parse().unwrap(), None).unwrap().local_address().port(), 0);
}
