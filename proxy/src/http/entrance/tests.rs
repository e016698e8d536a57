//! Handshakes one by one, over real sockets: when they are computed, and when they are given up.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, client};
use weir_daemon::clients::ListenerCertificate;

use super::*;

/// Nothing here takes long; what does hangs.
const DEADLINE: Duration = Duration::from_secs(20);

struct Fixture {
    entrance: Entrance,
    tls: ClientTls,
    listener: TcpListener,
    address: SocketAddr,
}

// === impl Fixture ===

impl Fixture {
    async fn new(limits: EntranceLimits) -> Self {
        let entrance = Entrance::new(limits, EntranceMetrics::default());
        let tls = ClientTls::new(ListenerCertificate::Loopback, None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { entrance, tls, listener, address }
    }

    async fn accepted(&self) -> Result<Counted, HandshakeError> {
        let place = self.entrance.place(&mut None).await;
        let (stream, _) = self.listener.accept().await.unwrap();
        self.entrance.handshake((stream, place), &self.tls).await.map(|(_, counted)| counted)
    }

    async fn connected(&self) -> io::Result<client::TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.tls.ca_pem().unwrap().as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(weir_daemon::tls::provider());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
    }

    /// Handshakes under way, connections, and those that came to nothing for a reason.
    fn counts(&self, reason: &'static str) -> (i64, i64, u64) {
        let metrics = &self.entrance.0.metrics;
        let failed = metrics.failed.get_or_create(&Of { reason }).get();
        (metrics.handshakes.get(), metrics.connections.get(), failed)
    }
}

#[tokio::test]
async fn a_handshake_is_computed_when_it_is_its_turn() {
    let fixture = Fixture::new(EntranceLimits { turns: 1, ..EntranceLimits::default() }).await;
    let turn = fixture.entrance.0.turns.acquire().await.unwrap();
    let both = async { tokio::join!(fixture.accepted(), fixture.connected()) };
    let mut both = std::pin::pin!(tokio::time::timeout(DEADLINE, both));
    let waits = async {
        // The hello is read before the turn is waited for.
        while fixture.counts("failed").0 == 0 {
            tokio::task::yield_now().await;
        }
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = both.as_mut() => panic!("it is another's turn"),
        () = waits => {}
    }
    drop(turn);
    let (accepted, connected) = both.await.expect("its turn comes");
    let counted = accepted.unwrap();
    connected.unwrap();
    assert_eq!(fixture.counts("failed"), (0, 1, 0), "the place for the handshake is free");
    drop(counted);
    assert_eq!(fixture.counts("failed"), (0, 0, 0));
}

#[tokio::test]
async fn who_says_nothing_is_given_up_in_time_and_at_once_what_is_no_handshake() {
    let limits = EntranceLimits { handshake: Duration::from_millis(50), ..EntranceLimits::default() };
    let fixture = Fixture::new(limits).await;
    let _silent = TcpStream::connect(fixture.address).await.unwrap();
    let given_up = tokio::time::timeout(DEADLINE, fixture.accepted()).await.expect("in time");
    assert!(matches!(given_up, Err(HandshakeError::Slow)));
    assert_eq!(fixture.counts("slow"), (0, 0, 1));

    let fixture = Fixture::new(EntranceLimits::default()).await;
    let other = TcpStream::connect(fixture.address).await.unwrap();
    other.writable().await.unwrap();
    other.try_write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let refused = tokio::time::timeout(DEADLINE, fixture.accepted()).await.expect("at once");
    assert!(matches!(refused, Err(HandshakeError::Failed(_))));
    assert_eq!(fixture.counts("failed"), (0, 0, 1));
}

#[tokio::test]
async fn whoever_is_waited_for_gives_way_only_while_others_have_no_place() {
    let short = |milliseconds| Duration::from_millis(milliseconds);
    let alone =
        EntranceLimits { handshakes: 1, hurried: short(1), handshake: short(50), ..Default::default() };
    let fixture = Fixture::new(alone).await;
    let _silent = TcpStream::connect(fixture.address).await.unwrap();
    let given_up = tokio::time::timeout(DEADLINE, fixture.accepted()).await.expect("in time");
    assert!(matches!(given_up, Err(HandshakeError::Slow)), "nobody else has come");

    let fixture =
        Fixture::new(EntranceLimits { handshakes: 1, hurried: short(1), ..Default::default() }).await;
    let _silent = TcpStream::connect(fixture.address).await.unwrap();
    let next = async { tokio::join!(fixture.accepted(), fixture.connected()) };
    let both = async { tokio::join!(fixture.accepted(), next) };
    let (gave_way, (accepted, connected)) = tokio::time::timeout(DEADLINE, both).await.expect("a place");
    assert!(matches!(gave_way, Err(HandshakeError::Hurried)));
    accepted.unwrap();
    connected.unwrap();
}
