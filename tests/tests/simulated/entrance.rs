//! Connections of clients before their first request: what those cost others who never come so far, and where the rest waits.

use std::pin::pin;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::client::{LIMIT, Protocol};
use crate::truth::Choice;
use crate::world::World;

/// A client that begins a handshake and never goes on, and comes again when it is sent away.
async fn never_ends(address: std::net::SocketAddr, first_bytes: &[u8]) {
    loop {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // It may be sent away at any time.
        let _ = stream.write_all(first_bytes).await;
        let _ = stream.read(&mut [0]).await;
    }
}

/// The value of a metric of the server.
fn metric(world: &World, name: &str) -> u64 {
    world.metric(&format!("weir_{name}")) as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handshakes_that_never_end_delay_neither_open_streams_nor_newcomers() {
    const HANDSHAKES: usize = 16;
    let world = World::with(181, |settings| {
        settings.entrance.handshakes = HANDSHAKES;
        settings.entrance.hurried = Duration::from_millis(100);
    })
    .await;
    let maps = world.collection("configmaps");
    let watch = Choice::all(&maps).path(&format!("watch=1&resourceVersion={}", world.head()));
    let mut stream = world.client.watch(&watch).await.mirrored();
    let address = world.client.address();
    // Nothing, the beginning of a ClientHello, and something else.
    for first_bytes in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/1.1\r\n"] {
        for _ in 0..2 * HANDSHAKES {
            let stop = world.tasks.token().clone();
            world.tasks.spawn("storm", async move {
                stop.run_until_cancelled(never_ends(address, first_bytes)).await;
            });
        }
    }
    let gave_way = r#"client_handshakes_failed_total{reason="hurried"}"#;
    world.until("the storm is there", || metric(&world, gave_way) > HANDSHAKES as u64).await;
    for round in 0..3 {
        let began = Instant::now();
        let written = world.create("team-0", &format!("written-{round}"));
        assert_eq!(stream.change().await.version.rv, written);
        let list = world.client.alone().get(&Choice::all(&maps).path("resourceVersion=0")).await.mirrored();
        assert!(maps.items(&list).0.at() >= written);
        // A handshake may take 10 s; the storm of 96 gives way in six steps of 0.1 s.
        assert!(began.elapsed() < Duration::from_secs(10), "round {round}: {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_one_too_many_waits_until_another_has_gone() {
    let world = World::with(182, |settings| settings.entrance.connections = 3).await;
    let maps = world.collection("configmaps");
    let list = Choice::all(&maps).path("resourceVersion=0");
    let others = [0; 3].map(|_| world.client.alone());
    for other in &others {
        other.get(&list).await.mirrored();
    }
    let late = world.client.alone();
    let mut asked = pin!(late.get(&list));
    let full = world.until("a place is waited for", || metric(&world, "client_connections_full_total") == 1);
    tokio::select! {
        biased;
        _ = asked.as_mut() => panic!("there is no place"),
        () = full => {}
    }
    others[0].get(&list).await.mirrored();
    assert_eq!(metric(&world, "client_connections"), 3);
    others[1].vanish();
    timeout(LIMIT, asked).await.expect("there is a place").mirrored();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_asks_is_sent_away_and_one_that_waits_for_events_is_not() {
    let world = World::with(183, |settings| settings.heads_within = Duration::from_millis(300)).await;
    let maps = world.collection("configmaps");
    let watch = Choice::all(&maps).path(&format!("watch=1&resourceVersion={}", world.head()));
    let mut streams = Vec::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        streams.push(world.client.speaking(protocol).watch(&watch).await.mirrored());
    }
    for (protocol, first_bytes) in [
        (Protocol::Http1, &b""[..]),
        (Protocol::Http1, b"GET /api HTTP/1.1\r\nHost: weir\r\n"),
        (Protocol::Http2, b""),
        (Protocol::Http2, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ] {
        let mut stream = world.client.connect(protocol).await;
        stream.write_all(first_bytes).await.unwrap();
        let ended = async { while stream.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {} };
        timeout(LIMIT, ended).await.unwrap_or_else(|_| panic!("{protocol:?} {first_bytes:?}"));
    }
    // One that lives, answers pings, and asks for nothing.
    let io = TokioIo::new(world.client.connect(Protocol::Http2).await);
    let executor = weir_daemon::TaskExecutor::new(world.tasks.clone(), "silent client");
    let (_sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, http_body_util::Empty<bytes::Bytes>>(executor, io)
            .await
            .unwrap();
    let _ = timeout(LIMIT, connection).await.expect("it is sent away");
    let written = world.create("team-0", "written");
    for stream in &mut streams {
        assert_eq!(stream.change().await.version.rv, written);
    }
}
