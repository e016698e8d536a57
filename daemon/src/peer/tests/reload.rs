//! Certificates that change under a running process.

use std::io;

use tracing_subscriber::fmt::MakeWriter;

use super::*;
use crate::{
    followed::Reloads,
    peer::{DialError, PeerTlsError},
    tls::TlsError,
};

/// Log lines of this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl Lines {
    fn warnings(&self) -> usize {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().matches("the old ones go on").count()
    }
}

#[tokio::test]
async fn new_certificates_are_for_new_connections_and_open_ones_stay() {
    let (old, new) = (PeerCa::generate().unwrap(), PeerCa::generate().unwrap());
    let (at_node, at_proxy) = (Directory::new(), Directory::new());
    let node_tls = PeerTls::from_files(at_node.put(old.pem(), &old.shard(0, 1).unwrap())).unwrap();
    let proxy_tls = PeerTls::from_files(at_proxy.put(old.pem(), &old.proxy().unwrap())).unwrap();
    let stale = dialer(tls(&old, &old.proxy().unwrap()));
    let node = Node::start(Some(node_tls.clone()));
    let dialer = dialer(proxy_tls.clone());
    let opened = within(dialer.connect(&node.address())).await.unwrap();
    within(ask(&opened)).await.unwrap();

    at_node.put(new.pem(), &new.shard(0, 1).unwrap());
    at_proxy.put(new.pem(), &new.shard(1, 2).unwrap());
    node_tls.follower().look().await;
    let one_sided = within(dialer.connect(&node.address())).await.err();
    assert!(matches!(one_sided, Some(DialError::Handshake { .. })), "{one_sided:?}");
    proxy_tls.follower().look().await;
    let reopened = within(dialer.connect(&node.address())).await.unwrap();
    within(ask(&reopened)).await.unwrap();
    within(ask(&opened)).await.unwrap();
    let other = Caller::Shard { index: 1, count: 2 };
    assert_eq!(node.double.seen(), [Some(Caller::Proxy), Some(other), Some(Caller::Proxy)]);
    assert!(within(stale.connect(&node.address())).await.is_err(), "the old CA is not trusted any more");
}

#[tokio::test]
async fn two_cas_are_trusted_while_one_replaces_the_other() {
    let (old, new) = (PeerCa::generate().unwrap(), PeerCa::generate().unwrap());
    let both = format!("{}{}", old.pem(), new.pem());
    let with_both = |identity| PeerTls::from_files(Directory::new().put(&both, &identity)).unwrap();
    let node = Node::start(Some(with_both(new.shard(0, 1).unwrap())));
    for identity in [old.proxy().unwrap(), new.proxy().unwrap()] {
        let channel = within(dialer(with_both(identity)).connect(&node.address())).await.unwrap();
        within(ask(&channel)).await.unwrap();
    }
}

#[tokio::test]
async fn what_cannot_be_used_is_warned_of_once_and_the_old_goes_on() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(lines.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let ca = PeerCa::generate().unwrap();
    let directory = Directory::new();
    let good = ca.proxy().unwrap();
    let files = directory.put(ca.pem(), &good);
    let tls = PeerTls::from_files(files.clone()).unwrap();
    let mut follower = tls.follower();
    let mut look_twice = async |warnings: usize, why: &str| {
        follower.look().await;
        follower.look().await;
        assert_eq!(lines.warnings(), warnings, "{why}");
        assert_eq!(tls.role(), Caller::Proxy, "{why}");
    };

    look_twice(0, "nothing changed").await;
    fs::write(&files.certificate, ca.shard(0, 1).unwrap().certificate_pem).unwrap();
    look_twice(1, "certificate and key are no pair").await;
    fs::write(&files.certificate, "").unwrap();
    look_twice(2, "no certificate").await;
    directory.put(ca.pem(), &ca.sign(&["localhost"]).unwrap());
    look_twice(3, "no role").await;
    fs::remove_file(&files.key).unwrap();
    look_twice(4, "no key").await;
    directory.put(ca.pem(), &good);
    look_twice(4, "the old ones are back").await;
    fs::write(&files.ca, "no PEM").unwrap();
    look_twice(5, "no CA").await;

    directory.put(ca.pem(), &ca.shard(0, 2).unwrap());
    follower.look().await;
    assert_eq!((tls.role(), lines.warnings()), (Caller::Shard { index: 0, count: 2 }, 5));
}

#[tokio::test(start_paused = true)]
async fn the_files_are_followed_until_the_process_stops() {
    let ca = PeerCa::generate().unwrap();
    let directory = Directory::new();
    let tls = PeerTls::from_files(directory.put(ca.pem(), &ca.proxy().unwrap())).unwrap();
    let life = Lifecycle::new();
    tls.follow(&life, &Reloads::default());
    directory.put(ca.pem(), &ca.shard(0, 2).unwrap());
    let followed = async {
        while tls.role() == Caller::Proxy {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    within(followed).await;
    life.stop(crate::StopCause::Asked);
    assert_eq!(life.stopped(DEADLINE).await.left, [] as [&str; 0]);
}

#[test]
fn a_process_does_not_begin_with_what_its_peers_would_refuse() {
    let ca = PeerCa::generate().unwrap();
    let directory = Directory::new();
    let put = |identity: &PeerIdentity| directory.put(ca.pem(), identity);
    let load = |files: &PeerFiles| PeerTls::from_files(files.clone()).err().unwrap();

    let files = put(&ca.sign(&["localhost"]).unwrap());
    assert!(matches!(load(&files), PeerTlsError::Role { .. }));
    let files = put(&ca.proxy().unwrap());
    fs::write(&files.key, ca.proxy().unwrap().key_pem).unwrap();
    assert!(matches!(load(&files), PeerTlsError::Pair(_)));
    fs::write(&files.ca, "").unwrap();
    assert!(matches!(load(&files), PeerTlsError::Files(TlsError::NoCertificate { .. })));
    fs::write(&files.ca, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert!(matches!(load(&files), PeerTlsError::Files(TlsError::Authority { .. })));
    fs::remove_file(&files.ca).unwrap();
    assert!(matches!(load(&files), PeerTlsError::Files(TlsError::Read { .. })));
}
