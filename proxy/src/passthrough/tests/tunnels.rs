//! Upgrades: what opens a tunnel, what runs through it, and how it ends.

use std::time::Duration;

use http::{HeaderValue, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};
use weir_daemon::{Lifecycle, StopCause};

use super::scripted::{RawClient, Scripted, front, text, within};

const ASK: &str = concat!(
    "POST /api/v1/namespaces/a/pods/b/exec?command=sh&command=-c HTTP/1.1\r\nHost: weir\r\n",
    "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v5\r\n",
    "X-Stream-Protocol-Version: v4\r\nContent-Length: 0\r\n\r\n",
);

/// An upstream that upgrades and hands its end of the tunnel to the test.
async fn upgrading(life: &Lifecycle) -> (Scripted, mpsc::Receiver<OnUpgrade>) {
    let (tunnels, upgraded) = mpsc::channel(1);
    let upstream = Scripted::http1(life, move |mut request| {
        let tunnels = tunnels.clone();
        async move {
            let is_whole = request.headers()[header::UPGRADE] == "SPDY/3.1"
                && request.headers()[header::CONNECTION] == "Upgrade"
                && request.headers().get_all("x-stream-protocol-version").iter().eq(["v5", "v4"])
                && request.uri().query() == Some("command=sh&command=-c");
            if !is_whole {
                return Err(format!("{:?}", request.headers()).into());
            }
            tunnels.send(hyper::upgrade::on(&mut request)).await?;
            let mut response = Response::new(text(""));
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            let headers = response.headers_mut();
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
            headers.insert("x-stream-protocol-version", HeaderValue::from_static("v5"));
            Ok(response)
        }
    })
    .await;
    (upstream, upgraded)
}

/// Both ends of an open tunnel.
async fn tunnel(life: &Lifecycle) -> (RawClient, TokioIo<Upgraded>) {
    let (upstream, mut upgraded) = upgrading(life).await;
    let address = front(life, vec![upstream.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    client.write(ASK).await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    for line in ["connection: Upgrade", "upgrade: SPDY/3.1", "x-stream-protocol-version: v5"] {
        assert!(head.contains(&format!("{line}\r\n")), "{head}");
    }
    let far = within(upgraded.recv()).await.unwrap();
    (client, TokioIo::new(within(far).await.unwrap()))
}

async fn read(far: &mut TokioIo<Upgraded>, length: usize) -> String {
    let mut text = vec![0; length];
    within(far.read_exact(&mut text)).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_half_of_it_may_close() {
    let life = Lifecycle::new();
    let (mut client, mut far) = tunnel(&life).await;
    client.write("stdin").await;
    assert_eq!(read(&mut far, 5).await, "stdin");
    far.write_all(b"stdout").await.unwrap();
    assert_eq!(client.until("stdout").await, "stdout");

    client.close_write().await;
    let mut rest = String::new();
    within(far.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "", "the end of stdin has come through");
    far.write_all(b"still here").await.unwrap();
    assert_eq!(client.until("still here").await, "still here");
    far.shutdown().await.unwrap();
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn the_end_of_either_leg_ends_the_other() {
    let life = Lifecycle::new();
    let (mut client, far) = tunnel(&life).await;
    drop(far);
    assert_eq!(client.rest().await, "");

    let (client, mut far) = tunnel(&life).await;
    drop(client);
    let mut rest = String::new();
    let _ = within(far.read_to_string(&mut rest)).await;
    assert_eq!(rest, "");
}

#[tokio::test]
async fn stopping_the_process_ends_tunnels() {
    let life = Lifecycle::new();
    let upstream_life = Lifecycle::new();
    let (upstream, mut upgraded) = upgrading(&upstream_life).await;
    let front_life = Lifecycle::new();
    let (listener, address) = super::scripted::bind().await;
    let to = super::scripted::upstream(&life, vec![upstream.url.clone()]).await;
    super::scripted::serve(&front_life, listener, crate::passthrough::Passthrough::new(to, life.clone()));
    let mut client = RawClient::connect(address).await;
    client.write(ASK).await;
    client.head().await;
    let _far = within(upgraded.recv()).await.unwrap().await.unwrap();
    life.stop(StopCause::Asked);
    let stopped = life.stopped(Duration::from_secs(10)).await;
    assert!(stopped.left.is_empty(), "{:?}", stopped.left);
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn any_other_answer_than_101_is_a_plain_answer() {
    let life = Lifecycle::new();
    let refusing = Scripted::http1(&life, |_| async {
        let mut response = Response::new(text("no such pod"));
        *response.status_mut() = StatusCode::NOT_FOUND;
        Ok(response)
    })
    .await;
    let address = front(&life, vec![refusing.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    for _ in 0..2 {
        client.write(ASK).await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        assert_eq!(client.until("no such pod").await, "no such pod", "and the connection goes on");
    }
}

#[tokio::test]
async fn a_write_that_asks_for_an_upgrade_is_sent_once() {
    let life = Lifecycle::new();
    let (raw, mut heads) = Scripted::raw(&life, "").await;
    let address = front(&life, vec![raw.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    client.write(&ASK.replace("POST", "GET")).await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 502 ") && !head.contains("retry-after"), "{head}");
    assert!(within(heads.recv()).await.is_some());
    assert_eq!(raw.requests(), 1);
}
