//! Whoever connects and is no peer: noise, silence, too much, too many.

use std::net::Shutdown;

use rand::{Rng, SeedableRng, rngs::StdRng};
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use weir_proto::{limits::MAX_MESSAGE_BYTES, wire::Mirror};

use super::*;
use crate::peer::{
    DialError,
    server::{OPENING_CONNECTIONS, OPENING_LIMIT},
};

fn node_with_tls(ca: &PeerCa) -> Node {
    Node::start(Some(tls(ca, &ca.shard(0, 1).unwrap())))
}

/// Says it, and reads until the node has ended the connection.
async fn say(node: &Node, noise: &[u8]) {
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    // The node may be gone before it has heard everything.
    let _ = stream.write_all(noise).await;
    let _ = SockRef::from(&stream).shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn noise_ends_its_connection_and_nothing_else() {
    let seed: u64 = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let ca = PeerCa::generate().unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let after_preface = |bytes: &[u8]| [preface.as_slice(), bytes].concat();
    let mut noises = vec![
        b"GET / HTTP/1.1\r\nHost: node\r\n\r\n".to_vec(),
        preface.to_vec(),
        after_preface(&[0xff; 64]),
        // A SETTINGS frame of a length that it must not have, and one that claims 16 MB.
        after_preface(&[0, 0, 5, 4, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]),
        after_preface(&[0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0]),
        // A handshake record of TLS that is longer than what follows, and one that is no handshake.
        vec![0x16, 3, 1, 0x40, 0, 1],
        vec![0x17, 3, 3, 0, 4, 1, 2, 3, 4],
        vec![0; 70_000],
    ];
    for _ in 0..32 {
        let mut noise = vec![0; random.random_range(1..4_000)];
        random.fill(noise.as_mut_slice());
        noises.push(noise.clone());
        noises.push(after_preface(&noise));
    }
    for node in [Node::start(None), node_with_tls(&ca)] {
        for (number, noise) in noises.iter().enumerate() {
            let said = tokio::time::timeout(DEADLINE, say(&node, noise)).await;
            assert!(said.is_ok(), "noise {number} of seed {seed} holds its connection");
        }
        until("connections are gone", || node.life().len() == 1).await;
        assert!(!node.life().is_stopping(), "seed {seed}");
        assert_eq!(node.double.seen(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_ended_in_time() {
    let ca = PeerCa::generate().unwrap();
    // Both words are the beginning of what the node waits for.
    for (node, word) in [(Node::start(None), b"PRI * ".as_slice()), (node_with_tls(&ca), &[0x16, 3, 1])] {
        let start = Instant::now();
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        stream.write_all(word).await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        assert!(start.elapsed() >= OPENING_LIMIT, "ended after {:?}", start.elapsed());
        until("the connection is gone", || node.life().len() == 1).await;
    }
}

#[tokio::test]
async fn silence_does_not_keep_the_process_from_stopping() {
    let ca = PeerCa::generate().unwrap();
    for node in [Node::start(None), node_with_tls(&ca)] {
        let _silent = TcpStream::connect(node.address).await.unwrap();
        until("it was accepted", || node.life().len() == 2).await;
        node.life().stop(crate::StopCause::Asked);
        assert_eq!(node.life().stopped(OPENING_LIMIT / 2).await.left, [] as [&str; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_have_not_begun_are_so_many_and_the_next_waits() {
    let ca = PeerCa::generate().unwrap();
    let node = node_with_tls(&ca);
    let mut silent = Vec::new();
    for _ in 0..OPENING_CONNECTIONS {
        silent.push(TcpStream::connect(node.address).await.unwrap());
    }
    until("all were accepted", || node.life().len() > OPENING_CONNECTIONS).await;
    let dialer = dialer(tls(&ca, &ca.proxy().unwrap()));
    let waits = dialer.connect(&node.address()).await;
    assert!(matches!(waits, Err(DialError::Late { .. })), "{:?}", waits.err());
    // Some run into their limit while this goes on.
    let start = Instant::now();
    while let Err(error) = dialer.connect(&node.address()).await {
        assert!(start.elapsed() < 3 * OPENING_LIMIT, "{error}");
    }
}

#[tokio::test]
async fn messages_are_read_up_to_the_limit_of_the_wire() {
    let node = Node::start(None);
    let channel = within(Dialer::new(None, Lifecycle::new()).connect(&node.address())).await.unwrap();
    let asked = async |bytes: usize| {
        let mirror = Mirror { group: "g".repeat(bytes), ..Mirror::default() };
        let request = WindowRequest { mirrors: vec![mirror], ..WindowRequest::default() };
        within(ShardClient::new(channel.clone()).window(request)).await
    };
    asked(MAX_MESSAGE_BYTES - 64).await.unwrap();
    let refused = asked(MAX_MESSAGE_BYTES).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::OutOfRange, "{refused}");
    assert_eq!(node.double.seen().len(), 1);
    within(ask(&channel)).await.unwrap();
}
