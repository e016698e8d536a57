//! A connection against a small server: which socket, which headers, which end.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use tokio::net::TcpListener;
use weir_daemon::Lifecycle;

use super::{Connection, Protocol, Role, SourceId};
use crate::{
    FailureKind,
    testing::{Peer, Speaks, TestServer, bare, silence, text},
};

async fn server(life: &Lifecycle, speaks: Speaks) -> TestServer {
    TestServer::start(life, speaks, |request| async move {
        if request.uri().path() == "/silent" {
            return Ok(silence());
        }
        let agent = request.headers()[header::USER_AGENT].to_str().unwrap();
        let host = request.uri().authority().map_or_else(
            || request.headers()[header::HOST].to_str().unwrap().to_owned(),
            ToString::to_string,
        );
        let peer = request.extensions().get::<Peer>().unwrap();
        Ok(text(format!("{} {} {} {}", request.uri().path(), agent, host, peer.connection)))
    })
    .await
}

async fn get(connection: &Connection, path: &str) -> Response<Incoming> {
    connection.send(Request::get(path).body(Bytes::new()).unwrap()).await.unwrap()
}

async fn read(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn id(response: &Response<Incoming>) -> SourceId {
    *response.extensions().get::<SourceId>().unwrap()
}

#[tokio::test]
async fn on_http2_all_requests_share_the_connection_and_its_id() {
    let life = Lifecycle::new();
    let server = server(&life, Speaks::Http2).await;
    let upstream = server.upstream(&life, &json!({})).await;
    let connection = upstream.instances()[0].connect(Role::Feed).await.unwrap();
    assert_eq!((connection.protocol(), connection.role()), (Protocol::Http2, Role::Feed));
    let silent = get(&connection, "/silent").await;
    let answer = get(&connection, "/a%2Fb?x=%20").await;
    assert_eq!((id(&silent), id(&answer)), (connection.id(), connection.id()));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(read(answer).await, format!("/a%2Fb weir/{version} (feed) {} 0", server.address));
    assert_eq!(server.connections(), 1);
    let other = upstream.instances()[0].connect(Role::Proof).await.unwrap();
    assert_ne!(other.id(), connection.id());
    assert!(read(get(&other, "/").await).await.contains("(proof)"));
}

#[tokio::test]
async fn on_http1_a_request_beside_a_watch_has_a_connection_and_an_id_of_its_own() {
    let life = Lifecycle::new();
    for speaks in [Speaks::Http1, Speaks::Plain] {
        let server = server(&life, speaks).await;
        let upstream = server.upstream(&life, &json!({})).await;
        let connection = upstream.instances()[0].connect(Role::Feed).await.unwrap();
        assert_eq!(connection.protocol(), Protocol::Http1);
        let silent = get(&connection, "/silent").await;
        assert_eq!(id(&silent), connection.id());
        let first = get(&connection, "/").await;
        let second_id = id(&first);
        assert_ne!(second_id, connection.id());
        assert!(read(first).await.ends_with(" 1"));
        let again = loop {
            let again = get(&connection, "/").await;
            if id(&again) == second_id {
                break again;
            }
            // The connection becomes ready a moment after its answer was read; until then another one is opened.
            read(again).await;
        };
        assert!(read(again).await.ends_with(" 1"), "the idle connection is used again");
        assert!(!connection.is_closed());
    }
}

#[tokio::test]
async fn a_base_path_stands_in_front_of_every_path() {
    let life = Lifecycle::new();
    let server = server(&life, Speaks::Plain).await;
    let upstream = bare(&life, vec![format!("{}k8s/", server.url()).parse().unwrap()]).await;
    let connection = upstream.instances()[0].connect(Role::Feed).await.unwrap();
    assert!(read(get(&connection, "/api?x").await).await.starts_with("/k8s/api "));
}

#[tokio::test]
async fn refused_silent_and_untrusted_instances_are_told_apart() {
    let life = Lifecycle::new();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let upstream = bare(&life, vec![format!("http://{address}").parse().unwrap()]).await;
    let instance = &upstream.instances()[0];
    assert!(!instance.is_suspect());
    assert_eq!(instance.connect(Role::Feed).await.unwrap_err().kind(), FailureKind::Connect);
    assert!(instance.is_suspect());

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", silent.local_addr().unwrap()).parse().unwrap();
    let upstream = bare(&life, vec![url]).await;
    tokio::time::pause();
    assert_eq!(upstream.instances()[0].connect(Role::Feed).await.unwrap_err().kind(), FailureKind::Timeout);
}

#[tokio::test]
async fn a_peer_that_answers_no_pings_is_dead_within_45_seconds() {
    let life = Lifecycle::new();
    let server = server(&life, Speaks::Http2).await;
    let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relayed = relay.local_addr().unwrap();
    let (freeze, frozen) = tokio::sync::oneshot::channel::<()>();
    let target = server.address;
    life.spawn("relay", async move {
        let (mut near, _) = relay.accept().await.unwrap();
        let mut far = tokio::net::TcpStream::connect(target).await.unwrap();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            _ = frozen => std::future::pending().await,
        }
    });
    let file = crate::testing::TestFile::new(&server.kubeconfig(&json!({})));
    let origin = crate::Origin::Kubeconfig { path: Some(file.path.clone()), context: None };
    let urls = vec![format!("https://{relayed}").parse().unwrap()];
    let options = crate::UpstreamOptions { origin, urls };
    let upstream = crate::Upstream::load(options, &life).await.unwrap();
    let connection = upstream.instances()[0].connect(Role::Feed).await.unwrap();
    let mut body = get(&connection, "/silent").await.into_body();

    freeze.send(()).unwrap();
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    assert!(body.frame().await.unwrap().is_err());
    assert!(start.elapsed() <= Duration::from_secs(45), "{:?}", start.elapsed());
    while !connection.is_closed() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_connection_ends_its_tasks_and_stopping_ends_the_pools() {
    let life = Lifecycle::new();
    let server_life = Lifecycle::new();
    let server = server(&server_life, Speaks::Http2).await;
    let upstream = server.upstream(&life, &json!({})).await;
    let connection = upstream.instances()[0].connect(Role::Feed).await.unwrap();
    read(get(&connection, "/").await).await;
    let forwarded = upstream
        .forward(Request::get("/silent").body(crate::RequestBody::default()).unwrap(), crate::Affinity(0));
    drop(forwarded.await.unwrap());
    drop(connection);
    life.stop(weir_daemon::StopCause::Asked);
    let stopped = life.stopped(Duration::from_secs(30)).await;
    assert!(stopped.left.is_empty(), "{:?}", stopped.left);
}
