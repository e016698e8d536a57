//! The service behind the real server of peers, over loopback: what HTTP/2 adds is the end of a connection, and windows that
//! fill.

use std::pin::Pin;
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};
use weir_core::message::OpenId;
use weir_core::{GroupVersionResource, SlotSet};
use weir_daemon::StopCause;
use weir_daemon::peer::{Dialer, PeerPort, PeerServer};
use weir_proto::limits::MAX_MESSAGE_BYTES;
use weir_proto::read::ListAnswer;
use weir_proto::session::{FromNode, ToNode};
use weir_proto::wire::feed_server::Feed;
use weir_proto::wire::shard_client::ShardClient;
use weir_proto::{Encoded, Spoken, wire};

use super::super::testing::{Mirror, Node, Peer, brief, open, resource, schema};
use super::listing::question;
use super::pods;
use crate::node::SessionId;
use crate::testing::Pod;
use weir_core::interest::Interest;

/// No feed is asked for here.
struct NoFeed;

type Subscription = Pin<Box<dyn Stream<Item = Result<Encoded<wire::FeedAnswer>, Status>> + Send>>;

#[tonic::async_trait]
impl Feed for NoFeed {
    type SubscribeStream = Subscription;

    async fn subscribe(&self, _: Request<wire::Subscribe>) -> Result<Response<Subscription>, Status> {
        Err(Status::unimplemented("no feed"))
    }

    async fn prove(&self, _: Request<wire::Prove>) -> Result<Response<wire::Proof>, Status> {
        Err(Status::unimplemented("no feed"))
    }
}

/// The address of the node, once it listens.
fn serve(node: &Node) -> String {
    let port = PeerPort::bind("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let address = port.local_address().to_string();
    let server = PeerServer::new(NoFeed, node.service.clone(), node.lifecycle.clone());
    node.lifecycle.spawn("peer server", server.run(port));
    address
}

/// A proxy's connection; its tasks are none of the node's.
async fn dial(address: &str) -> ShardClient<Channel> {
    let channel = Dialer::new(None, weir_daemon::Lifecycle::new()).connect(address).await.unwrap();
    ShardClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES)
}

async fn session(client: &mut ShardClient<Channel>) -> Peer {
    let (say, mut said) = mpsc::channel(1_000);
    let stream = futures_util::stream::poll_fn(move |context| said.poll_recv(context));
    say.send((&ToNode::Hello(Spoken::OURS)).into()).await.unwrap();
    let heard: Streaming<Encoded<wire::FromNode>> = client.session(stream).await.unwrap().into_inner();
    let mut peer = Peer::new(say, heard);
    assert!(matches!(peer.next().await.unwrap(), FromNode::Welcome { slots, .. } if slots == SlotSet::ALL));
    peer
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what} in time"));
}

fn registrations(mirror: &Mirror) -> usize {
    mirror.cell().registered(SessionId(1), OpenId(1)).count
}

/// A session with one registration and the first event behind it.
async fn joined(client: &mut ShardClient<Channel>, mirror: &Mirror, credit: u32) -> Peer {
    let mut peer = session(client).await;
    let number = peer.attach("pods").await.mirror;
    peer.say(&ToNode::Open(open(number, 1, (Interest::everything(), SlotSet::ALL, credit)))).await;
    while peer.said().await != "live 1 at 10" {}
    mirror.state((10, 11), vec![Pod::new("ns", "a", "u").put(11)]);
    while peer.said().await != "(10, 11] 11:Added->1" {}
    peer
}

#[tokio::test]
async fn events_come_over_a_connection_and_its_end_ends_the_session() {
    let (node, mirror) = Node::with_pods(Vec::new());
    let mut client = dial(&serve(&node)).await;
    let peer = joined(&mut client, &mirror, 1_000).await;
    assert_eq!((registrations(&mirror), node.metrics.sessions.get()), (1, 1));
    drop((peer, client));
    until("the session is gone", || registrations(&mirror) == 0 && node.metrics.sessions.get() == 0).await;
    node.lifecycle.stop(StopCause::Asked);
    assert!(node.lifecycle.stopped(Duration::from_secs(10)).await.left.is_empty());
}

#[tokio::test]
async fn a_proxy_hears_at_once_that_the_process_stops() {
    let (node, mirror) = Node::with_pods(Vec::new());
    let mut client = dial(&serve(&node)).await;
    let mut peer = joined(&mut client, &mirror, 1_000).await;
    node.lifecycle.stop(StopCause::Asked);
    let status = tokio::time::timeout(Duration::from_secs(10), peer.end()).await.expect("at once");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the process stops"));
    assert!(node.lifecycle.stopped(Duration::from_secs(10)).await.left.is_empty());
}

#[tokio::test]
async fn what_waits_for_a_peer_that_does_not_read_stays_within_its_credit() {
    let (node, mirror) = Node::with_pods(Vec::new());
    let mut client = dial(&serve(&node)).await;
    let mut peer = joined(&mut client, &mirror, 2_000).await;
    // Far more than windows and buffers take; the peer reads none of it.
    for at in 12..=4_000 {
        let pod = Pod { padding: 20_000, ..Pod::new("ns", "a", "u") };
        mirror.state((at - 1, at), vec![pod.put(at)]);
        if at % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(registrations(&mirror), 0, "the store has gone on without it");
    // It reads again: everything within the credit, then where it was left, then what no longer counts for it.
    let mut events = 1;
    let left = loop {
        let (_, said) = peer.part().await;
        let said = brief(&said);
        match said.strip_prefix("left 1 at ") {
            Some(at) => break at.parse::<u64>().unwrap(),
            None => events += said.matches("->1").count(),
        }
    };
    assert_eq!((events, left), (2_000, 2_010));
    assert_eq!(peer.said().await, "(2010, 4000]");
}

#[tokio::test]
async fn a_list_and_a_session_side_by_side() {
    let (node, mirror) = Node::with_pods(pods(20_000));
    let address = serve(&node);
    let (mut live, mut bulk) = (dial(&address).await, dial(&address).await);
    let mut peer = joined(&mut live, &mirror, 1_000_000).await;
    let list = async {
        let mut answers = bulk.list(question(10, usize::MAX)).await.unwrap().into_inner();
        let (mut objects, mut is_whole) = (0, false);
        while let Some(answer) = answers.message().await.unwrap() {
            let ListAnswer::Chunk(chunk) = ListAnswer::read(answer, &schema()).unwrap() else {
                panic!("unanswered")
            };
            objects += chunk.objects.len();
            is_whole = chunk.next.is_none();
        }
        assert!(is_whole);
        objects
    };
    let live = async {
        for at in 12..200 {
            mirror.state((at - 1, at), vec![Pod::new("ns", "a", "u").put(at)]);
            while !peer.said().await.starts_with(&format!("({}, {at}]", at - 1)) {}
        }
    };
    let (objects, ()) = tokio::join!(list, live);
    assert_eq!(objects, 20_000);
}

#[tokio::test]
async fn many_sessions_come_and_go() {
    let (node, mirror) = Node::with_pods(Vec::new());
    let address = serve(&node);
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = dial(&address).await;
        let mut peer = session(&mut client).await;
        let number = peer.attach("pods").await.mirror;
        peer.open(number, 1, 10).await;
        while peer.said().await != "live 1 at 10" {}
        clients.push((client, peer));
    }
    let wanted: GroupVersionResource = resource("pods");
    assert_eq!(mirror.hosted.resource(), &wanted);
    mirror.state((10, 11), vec![Pod::new("ns", "a", "u").put(11)]);
    for (_, peer) in &mut clients {
        while peer.said().await != "(10, 11] 11:Added->1" {}
    }
    clients.truncate(7);
    until("13 are gone", || node.metrics.sessions.get() == 7).await;
    clients.clear();
    until("all are gone", || node.metrics.sessions.get() == 0).await;
}
