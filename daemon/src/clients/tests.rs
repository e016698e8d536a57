//! Real handshakes over an in-memory pipe: what clients are shown as files change, and who a client is by its certificate.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{PrivateKeyDer, ServerName, pem::PemObject};
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::*;
use crate::{peer::tests::Directory, tls::ca_params};

const CN: &[u8] = &[0x55, 4, 3];
const O: &[u8] = &[0x55, 4, 10];

type Ca = CertifiedIssuer<'static, KeyPair>;

fn ca(name: &str) -> Ca {
    CertifiedIssuer::self_signed(ca_params(name), KeyPair::generate().unwrap()).unwrap()
}

fn params(name: &str, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "devs");
    // rcgen takes an attribute once; by its number it is another one.
    params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 10]), "ops");
    params.extended_key_usages = vec![usage];
    params
}

/// A certificate and its key, both in PEM.
fn signed(ca: &Ca, params: &CertificateParams) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, ca).unwrap().pem(), key.serialize_pem())
}

fn client_of(ca: &Ca, name: &str) -> (String, String) {
    signed(ca, &params(name, ExtendedKeyUsagePurpose::ClientAuth))
}

fn server_of(ca: &Ca, name: &str) -> (String, String) {
    signed(ca, &params(name, ExtendedKeyUsagePurpose::ServerAuth))
}

/// Writes a pair over the one that is there.
fn put(directory: &Path, (certificate, key): &(String, String)) -> ListenerCertificate {
    let paths = (directory.join("tls.crt"), directory.join("tls.key"));
    fs::write(&paths.0, certificate).unwrap();
    fs::write(&paths.1, key).unwrap();
    ListenerCertificate::Files { certificate: paths.0, key: paths.1 }
}

fn put_ca(directory: &Path, pem: &str) -> PathBuf {
    let path = directory.join("client-ca.crt");
    fs::write(&path, pem).unwrap();
    path
}

/// A client that trusts a CA, with a certificate of its own or without.
fn connector(
    trusted: &str,
    own: Option<&(String, String)>,
    versions: &[&'static SupportedProtocolVersion],
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            // Whatever the server hints at: clients may show what it does not trust.
            let key = CertifiedKey::from_der(chain, key, &provider()).unwrap();
            builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)))
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

async fn handshake(
    tls: &ClientTls,
    connector: &TlsConnector,
) -> std::io::Result<(server::TlsStream<DuplexStream>, client::TlsStream<DuplexStream>)> {
    let (near, far) = tokio::io::duplex(16 * 1024);
    let name = ServerName::try_from("localhost").unwrap();
    let accept = TlsAcceptor::from(tls.config()).accept(far);
    let (accepted, connected) = tokio::join!(accept, connector.connect(name, near));
    let connected = connected?;
    Ok((accepted?, connected))
}

/// Who the server takes the client for.
async fn presented(tls: &ClientTls, connector: &TlsConnector) -> Option<Presented> {
    let (accepted, _) = handshake(tls, connector).await.expect("no certificate fails a handshake");
    tls.presented(accepted.get_ref().1.peer_certificates())
}

#[tokio::test]
async fn what_is_spoken_is_tls_1_2_or_1_3_and_no_session_is_resumed() {
    let (directory, ca) = (Directory::new(), ca("clients"));
    let asking = put_ca(directory.path(), &ca.pem());
    for client_ca in [None, Some(asking)] {
        let tls = ClientTls::new(ListenerCertificate::Loopback, client_ca).unwrap();
        for (version, number) in [(&TLS12, ProtocolVersion::TLSv1_2), (&TLS13, ProtocolVersion::TLSv1_3)] {
            let own = client_of(&ca, "bob");
            let connector = connector(tls.ca_pem().unwrap(), Some(&own), &[version]);
            for _ in 0..3 {
                let (mut accepted, mut connected) = handshake(&tls, &connector).await.unwrap();
                // What a server sends of tickets comes before its first byte.
                tokio::io::AsyncWriteExt::write_all(&mut accepted, b"x").await.unwrap();
                connected.read_u8().await.unwrap();
                let session = connected.get_ref().1;
                assert_eq!(session.protocol_version(), Some(number));
                assert_eq!(session.alpn_protocol(), Some(&b"h2"[..]));
                assert_eq!(session.handshake_kind(), Some(HandshakeKind::Full));
            }
        }
    }
}

#[tokio::test]
async fn a_new_pair_is_for_new_handshakes_and_a_bad_one_for_none() {
    let (directory, old, new) = (Directory::new(), ca("old"), ca("new"));
    let tls = ClientTls::new(put(directory.path(), &server_of(&old, "one")), None).unwrap();
    let reloads = Reloads::default();
    let Shown::Followed(pair) = &*tls.0.shown else { panic!("it is of files") };
    let mut follower = pair.follower(&reloads);
    let both = [&TLS12, &TLS13];
    let trusts = |ca: &Ca| connector(&ca.pem(), None, &both);
    let (_accepted, mut open) = handshake(&tls, &trusts(&old)).await.unwrap();

    put(directory.path(), &(server_of(&new, "two").0, server_of(&new, "other").1));
    follower.look().await;
    follower.look().await;
    handshake(&tls, &trusts(&old)).await.expect("the old pair goes on");
    assert_eq!(counts(&reloads), (0, 1, 1), "taken, refused, stale");

    put(directory.path(), &server_of(&new, "three"));
    follower.look().await;
    handshake(&tls, &trusts(&new)).await.unwrap();
    assert!(handshake(&tls, &trusts(&old)).await.is_err());
    assert_eq!(counts(&reloads), (1, 1, 0));
    let mut accepted = _accepted;
    tokio::io::AsyncWriteExt::write_all(&mut accepted, b"x").await.unwrap();
    assert_eq!(open.read_u8().await.unwrap(), b'x', "an open connection stays");
}

/// Taken, refused, and whether the files are stale, of the listener's pair.
fn counts(reloads: &Reloads) -> (u64, u64, u64) {
    let mut registry = prometheus_client::registry::Registry::default();
    reloads.register(&mut registry);
    let mut page = String::new();
    prometheus_client::encoding::text::encode(&mut page, &registry).unwrap();
    let value = |name: &str| {
        let series = format!("{name}{{files=\"listener\"}} ");
        page.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |value| value.parse().unwrap())
    };
    (
        value("certificate_reloads_total"),
        value("certificate_refusals_total"),
        value("certificate_files_stale"),
    )
}

#[tokio::test]
async fn a_certificate_of_the_ca_makes_its_holder_known_and_any_other_nobody() {
    let (directory, trusted, other) = (Directory::new(), ca("clients"), ca("strangers"));
    let tls = ClientTls::new(ListenerCertificate::Loopback, Some(put_ca(directory.path(), &trusted.pem())));
    let tls = tls.unwrap();
    let server = tls.ca_pem().unwrap().to_owned();
    for version in [&TLS12, &TLS13] {
        let with = |own: Option<&(String, String)>| connector(&server, own, &[version]);
        let known = presented(&tls, &with(Some(&client_of(&trusted, "bob")))).await.unwrap().holder();
        let Holder::Verified(certificate) = known else { panic!("{known:?}") };
        assert_eq!(certificate.subject.values(CN).collect::<Vec<_>>(), ["bob"]);
        assert_eq!(certificate.subject.values(O).collect::<Vec<_>>(), ["devs", "ops"]);
        assert_eq!(certificate.sha256.len(), 64);

        let mut expired = params("bob", ExtendedKeyUsagePurpose::ClientAuth);
        expired.not_after = date_time_ymd(2020, 1, 1);
        let mut early = params("bob", ExtendedKeyUsagePurpose::ClientAuth);
        early.not_before = date_time_ymd(4000, 1, 1);
        for nobody in [
            client_of(&other, "bob"),
            signed(&trusted, &expired),
            signed(&trusted, &early),
            server_of(&trusted, "bob"),
        ] {
            assert_eq!(presented(&tls, &with(Some(&nobody))).await.unwrap().holder(), Holder::Unknown);
        }
        assert!(presented(&tls, &with(None)).await.is_none());
    }
}

#[tokio::test]
async fn a_ca_that_is_withdrawn_makes_open_connections_nobodys() {
    let (directory, old, new) = (Directory::new(), ca("old"), ca("new"));
    let file = put_ca(directory.path(), &old.pem());
    let tls = ClientTls::new(ListenerCertificate::Loopback, Some(file)).unwrap();
    let Asked::Yes(asking) = &tls.0.asked else { panic!("it asks") };
    let mut follower = asking.follower(&Reloads::default());
    let with = |ca: &Ca| connector(tls.ca_pem().unwrap(), Some(&client_of(ca, "bob")), &[&TLS13]);
    let open = presented(&tls, &with(&old)).await.unwrap();
    assert!(matches!(open.holder(), Holder::Verified(_)));
    put_ca(directory.path(), "nonsense");
    follower.look().await;
    assert!(matches!(open.holder(), Holder::Verified(_)), "the old CA goes on");
    put_ca(directory.path(), &new.pem());
    follower.look().await;
    assert_eq!(open.holder(), Holder::Unknown);
    assert!(matches!(presented(&tls, &with(&new)).await.unwrap().holder(), Holder::Verified(_)));
}

#[tokio::test]
async fn without_a_certificate_that_somebody_chose_only_this_machine_is_let_in() {
    let directory = Directory::new();
    let chosen = put(directory.path(), &server_of(&ca("servers"), "one"));
    let named =
        ListenerCertificate::SelfSigned { names: vec!["weir.example".to_owned(), "192.0.2.1".to_owned()] };
    let anywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    for (certificate, is_taken) in [(chosen, true), (named, true), (ListenerCertificate::Loopback, false)] {
        let tls = ClientTls::new(certificate, None).unwrap();
        assert_eq!(ClientPort::bind(anywhere, tls.clone()).is_ok(), is_taken, "{tls:?}");
        ClientPort::bind("127.0.0.1:0".parse().unwrap(), tls).unwrap();
    }
}

#[tokio::test]
async fn a_certificate_made_for_names_is_good_for_them() {
    let names = vec!["weir.example".to_owned(), "192.0.2.1".to_owned()];
    let tls = ClientTls::new(ListenerCertificate::SelfSigned { names }, None).unwrap();
    let connector = connector(tls.ca_pem().unwrap(), None, &[&TLS13]);
    for (name, is_good) in
        [("weir.example", true), ("192.0.2.1", true), ("localhost", true), ("192.0.2.2", false)]
    {
        let (near, far) = tokio::io::duplex(16 * 1024);
        let accept = TlsAcceptor::from(tls.config()).accept(far);
        let connect = connector.connect(ServerName::try_from(name).unwrap(), near);
        let (_, connected) = tokio::join!(accept, connect);
        assert_eq!(connected.is_ok(), is_good, "{name}");
    }
}
