//! Real handshakes over an in-memory pipe: who trusts the self-made certificate, what is negotiated, what is resumed.

use std::sync::Arc;

use rustls::{ClientConfig, HandshakeKind, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use super::{ServerTls, TlsError, provider};

fn client(ca_pem: &str, alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

async fn handshake(
    server: &ServerTls,
    client: &Arc<ClientConfig>,
    name: &str,
) -> std::io::Result<TlsStream<tokio::io::DuplexStream>> {
    let (near, far) = tokio::io::duplex(16 * 1024);
    let accept = TlsAcceptor::from(Arc::clone(&server.config)).accept(far);
    let connect =
        TlsConnector::from(Arc::clone(client)).connect(ServerName::try_from(name.to_owned()).unwrap(), near);
    let (accepted, connected) = tokio::join!(accept, connect);
    let connected = connected?;
    accepted?;
    Ok(connected)
}

#[tokio::test]
async fn a_self_made_certificate_is_good_for_every_name_of_loopback_and_for_no_other() {
    let server = ServerTls::self_made().unwrap();
    let client = client(server.ca_pem.as_deref().unwrap(), &[]);
    for name in ["localhost", "127.0.0.1", "::1"] {
        handshake(&server, &client, name).await.unwrap();
    }
    assert!(handshake(&server, &client, "example.com").await.is_err());
}

#[tokio::test]
async fn another_ca_is_not_trusted() {
    let server = ServerTls::self_made().unwrap();
    let other = ServerTls::self_made().unwrap();
    let client = client(other.ca_pem.as_deref().unwrap(), &[]);
    assert!(handshake(&server, &client, "localhost").await.is_err());
}

#[tokio::test]
async fn http2_is_preferred_and_http1_spoken() {
    let server = ServerTls::self_made().unwrap();
    let ca = server.ca_pem.as_deref().unwrap();
    let both = handshake(&server, &client(ca, &[b"http/1.1", b"h2"]), "localhost").await.unwrap();
    assert_eq!(both.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let old = handshake(&server, &client(ca, &[b"http/1.1"]), "localhost").await.unwrap();
    assert_eq!(old.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn a_session_is_never_resumed() {
    let server = ServerTls::self_made().unwrap();
    let client = client(server.ca_pem.as_deref().unwrap(), &[]);
    for _ in 0..3 {
        let stream = handshake(&server, &client, "localhost").await.unwrap();
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full));
    }
}

#[tokio::test]
async fn files_are_read_and_faults_name_the_file() {
    let directory = std::env::temp_dir().join(format!("weir-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (certificate, key) = (directory.join("tls.crt"), directory.join("tls.key"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();

    let server = ServerTls::from_files(&certificate, &key).unwrap();
    assert!(server.ca_pem.is_none());
    handshake(&server, &client(&made.cert.pem(), &[]), "localhost").await.unwrap();

    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&key, other.signing_key.serialize_pem()).unwrap();
    assert!(matches!(ServerTls::from_files(&certificate, &key), Err(TlsError::Pair(_))), "no pair");
    std::fs::write(&certificate, "").unwrap();
    assert!(matches!(ServerTls::from_files(&certificate, &key), Err(TlsError::NoCertificate { .. })));
    let missing = ServerTls::from_files(&directory.join("none"), &key).unwrap_err();
    assert!(missing.to_string().ends_with("none\""), "{missing}");
    std::fs::remove_dir_all(&directory).unwrap();
}
