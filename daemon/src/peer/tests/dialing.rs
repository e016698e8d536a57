//! What a dialer sees: nodes that are there, that are not, that go away.

use socket2::{Domain, Socket, Type};
use tokio::{io::AsyncWriteExt, net::TcpListener};
use tokio_util::sync::CancellationToken;
use weir_proto::wire::{Subscribe, feed_client::FeedClient};

use super::*;
use crate::{StopCause, peer::DialError};

/// What a server says first: that it has no settings to make.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

fn plain() -> Dialer {
    Dialer::new(None, Lifecycle::new())
}

#[tokio::test]
async fn where_nobody_listens_it_fails_at_once() {
    // Bound, so that nobody else takes the port, but not listening.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap().to_string();
    let failed = within(plain().connect(&address)).await.unwrap_err();
    assert!(matches!(failed, DialError::Connect { .. }), "{failed:?}");
    assert!(failed.to_string().contains(&address), "{failed}");
    let unknown = within(plain().connect("no port")).await.unwrap_err();
    assert!(matches!(unknown, DialError::Connect { .. }), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_accepts_and_hangs_is_no_node() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ca = PeerCa::generate().unwrap();
    for dialer in [plain(), dialer(tls(&ca, &ca.proxy().unwrap()))] {
        let late = dialer.connect(&address).await.unwrap_err();
        assert!(matches!(late, DialError::Late { .. }), "{late:?}");
    }
}

#[tokio::test]
async fn each_call_makes_a_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let accept = async || {
        let (mut stream, peer) = listener.accept().await.unwrap();
        stream.write_all(&SETTINGS).await.unwrap();
        (stream, peer)
    };
    let dialer = plain();
    let (first, (_first_stream, first_peer)) =
        within(async { tokio::join!(dialer.connect(&address), accept()) }).await;
    let (second, (_second_stream, second_peer)) =
        within(async { tokio::join!(dialer.connect(&address), accept()) }).await;
    let _channels = (first.unwrap(), second.unwrap());
    assert_ne!(first_peer, second_peer);
}

#[tokio::test]
async fn a_node_must_be_a_shard_node_of_the_ca() {
    let (ca, other) = (PeerCa::generate().unwrap(), PeerCa::generate().unwrap());
    let dialer = dialer(tls(&ca, &ca.proxy().unwrap()));
    let impostors = [
        ("a proxy", Node::start(Some(tls(&ca, &ca.proxy().unwrap())))),
        ("of another CA", Node::start(Some(tls(&other, &other.shard(0, 1).unwrap())))),
        ("without certificates", Node::start(None)),
    ];
    for (who, node) in &impostors {
        let failed = within(dialer.connect(&node.address())).await.unwrap_err();
        assert!(matches!(failed, DialError::Handshake { .. }), "{who}: {failed:?}");
        assert_eq!(node.double.seen(), [], "{who}");
    }
}

#[tokio::test]
async fn a_node_that_does_not_take_the_certificate_is_told_from_one_that_is_away() {
    let (ca, other) = (PeerCa::generate().unwrap(), PeerCa::generate().unwrap());
    let node = Node::start(Some(tls(&ca, &ca.shard(0, 1).unwrap())));
    let failed =
        within(dialer(tls(&ca, &other.proxy().unwrap())).connect(&node.address())).await.unwrap_err();
    assert!(matches!(failed, DialError::Refused { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_lost_connection_fails_its_calls_for_good() {
    let dialer = plain();
    let node = Node::start(None);
    let lost = CancellationToken::new();
    let channel = within(dialer.connect_noticing(&node.address(), lost.clone())).await.unwrap();
    let mut list =
        within(ShardClient::new(channel.clone()).list(List::default())).await.unwrap().into_inner();
    assert!(!lost.is_cancelled());

    // Nobody is asked to end; connections are cut.
    node.life().stop(StopCause::Asked);
    let stopped = node.life().stopped(Duration::ZERO).await;
    assert!(stopped.left.contains(&"peer connection".into()), "{stopped:?}");
    assert!(within(list.message()).await.is_err(), "the open call fails");
    within(lost.cancelled()).await;
    let again = within(async {
        // The kernel gives the address back once the aborted tasks are gone.
        loop {
            match PeerPort::bind(node.address, None) {
                Ok(port) => return drop(port),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    again.await;
    let node = Node::start_at(node.address, None);
    for _ in 0..3 {
        assert!(within(ask(&channel)).await.is_err(), "so does every later one");
    }
    assert_eq!(within(ask(&channel)).await.unwrap_err().code(), tonic::Code::Unavailable);
    assert_eq!(node.double.seen(), [], "nothing dialed by itself");
    let redialed = within(dialer.connect(&node.address())).await.unwrap();
    within(ask(&redialed)).await.unwrap();
}

#[tokio::test]
async fn a_node_that_stops_lets_open_streams_end() {
    let ca = PeerCa::generate().unwrap();
    let node = Node::start(Some(tls(&ca, &ca.shard(0, 1).unwrap())));
    let dialer = dialer(tls(&ca, &ca.proxy().unwrap()));
    let channel = within(dialer.connect(&node.address())).await.unwrap();
    let mut feed = FeedClient::new(channel.clone());
    let mut stream = within(feed.subscribe(Subscribe::default())).await.unwrap().into_inner();
    node.life().stop(StopCause::Asked);
    let (stopped, ended) =
        within(async { tokio::join!(node.life().stopped(DEADLINE), stream.message()) }).await;
    assert!(ended.unwrap().is_none(), "ended, not broken");
    assert_eq!(stopped.left, [] as [&str; 0]);
}

#[tokio::test]
async fn the_task_of_a_connection_ends_with_its_channel() {
    let node = Node::start(None);
    let life = Lifecycle::new();
    let channel = within(Dialer::new(None, life.clone()).connect(&node.address())).await.unwrap();
    within(ask(&channel)).await.unwrap();
    assert!(!life.is_empty());
    drop(channel);
    until("the tasks are gone", || life.is_empty()).await;
    until("so is the node's", || node.life().len() == 1).await;
}
