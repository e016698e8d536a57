//! Which requests share connections and room, and which do not.

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use weir_daemon::Lifecycle;

use super::*;
use crate::{
    Affinity, ForwardError, Upstream,
    forward::ForwardedBody,
    testing::{Peer, Speaks, TestBody, TestServer, bare, text},
};

const BEARER: &str = "Bearer x";

/// More than all windows of a connection.
const UNREAD: usize = 1 << 20;

fn request(method: Method, path: &str) -> Request<RequestBody> {
    let request = Request::builder().method(method).uri(path).header("authorization", BEARER);
    request.body(RequestBody::default()).unwrap()
}

async fn send(upstream: &Upstream, method: Method, path: &str) -> Response<ForwardedBody> {
    upstream.forward(request(method, path), Affinity(0)).await.unwrap()
}

#[tokio::test]
async fn a_full_instance_is_not_asked_and_is_not_suspected_for_it() {
    let life = Lifecycle::new();
    let server = TestServer::start(&life, Speaks::Plain, |_| async { Ok(text("x")) }).await;
    let upstream = bare(&life, vec![server.url()]).await;
    let instance = Arc::clone(&upstream.instances()[0]);
    let room = &instance.pool.reads.room;
    let all = Arc::clone(room).acquire_many_owned(u32::try_from(MAX_READS).unwrap()).await.unwrap();
    let error = upstream.forward(request(Method::GET, "/"), Affinity(0)).await.unwrap_err();
    assert!(matches!(error, ForwardError::Unreachable(ConnectError::Full { .. })), "{error}");
    assert!(!instance.is_suspect());
    let stranger = upstream.forward(Request::new(RequestBody::default()), Affinity(0)).await;
    assert!(stranger.is_ok(), "they have room of their own");
    send(&upstream, Method::POST, "/").await;
    send(&upstream, Method::GET, "/?watch=1").await;
    drop(all);
    let answer = send(&upstream, Method::GET, "/").await;
    assert_eq!(room.available_permits(), MAX_READS - 1, "held while the answer is");
    drop(answer);
    assert_eq!(room.available_permits(), MAX_READS);
}

/// Says over which connection it was asked.
async fn telling(life: &Lifecycle) -> TestServer {
    TestServer::start(life, Speaks::Http2, |request| async move {
        let Peer { connection, .. } = *request.extensions().get().unwrap();
        Ok(text(connection.to_string()))
    })
    .await
}

#[tokio::test]
async fn each_kind_of_request_has_a_connection_of_its_own_and_keeps_it() {
    let life = Lifecycle::new();
    let server = telling(&life).await;
    let upstream = server.upstream(&life, &serde_json::json!({})).await;
    let kinds = [
        (Method::POST, "/api/v1/pods"),
        (Method::GET, "/api/v1/pods"),
        (Method::GET, "/api/v1/pods?watch=1"),
        (Method::DELETE, "/api/v1/pods/a"),
        (Method::GET, "/api/v1/namespaces/a/pods/b/log?follow=1"),
    ];
    let mut taken = Vec::new();
    for (method, path) in kinds.clone().into_iter().chain(kinds) {
        let body = send(&upstream, method, path).await.into_body().collect().await.unwrap();
        taken.push(String::from_utf8(body.to_bytes().to_vec()).unwrap());
    }
    assert_eq!(taken, ["0", "1", "2", "0", "2", "0", "1", "2", "0", "2"]);
    let asked = upstream.review(&HeaderValue::from_static(BEARER), Bytes::new(), Affinity(0)).await.unwrap();
    assert_eq!(asked.body, "3");
}

/// Answers reads with more than anybody takes, and writes with a word.
async fn pouring(life: &Lifecycle) -> TestServer {
    TestServer::start(life, Speaks::Http2, |request| async move {
        let body: TestBody = match *request.method() {
            Method::GET => {
                Full::new(Bytes::from(vec![b' '; UNREAD])).map_err(|never| match never {}).boxed_unsync()
            }
            _ => return Ok(text("written")),
        };
        Ok(Response::new(body))
    })
    .await
}

#[tokio::test]
async fn ug07_a_write_is_answered_beside_answers_that_nobody_reads() {
    let life = Lifecycle::new();
    let server = pouring(&life).await;
    let upstream = server.upstream(&life, &serde_json::json!({})).await;
    let mut unread = Vec::new();
    for number in 0..200 {
        let path = if number % 2 == 0 { "/api/v1/namespaces/a/pods/b/log?follow=1" } else { "/api/v1/pods" };
        unread.push(send(&upstream, Method::GET, path).await);
    }
    for _ in 0..100 {
        let written = send(&upstream, Method::POST, "/api/v1/pods").await.into_body().collect();
        let written = tokio::time::timeout(Duration::from_secs(20), written).await.expect("an answer");
        assert_eq!(written.unwrap().to_bytes(), "written");
    }
    assert_eq!(server.connections(), 5, "two for each kind that nobody reads, and one for writes");
    drop(unread);
}
