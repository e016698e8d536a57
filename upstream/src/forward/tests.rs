//! Passing on: which instance, over which connection, how often, and what the sender of the request is told.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_daemon::Lifecycle;

use super::{Affinity, ForwardedBody, RequestBody, full};
use crate::{
    FailureKind, ForwardError, Upstream,
    testing::{Peer, Speaks, TestServer, bare, silence, text},
};

const ANY: Affinity = Affinity(0);

fn request(method: Method, path: &str) -> Request<RequestBody> {
    Request::builder().method(method).uri(path).body(RequestBody::default()).unwrap()
}

async fn read(response: Response<ForwardedBody>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Says its name.
async fn named(life: &Lifecycle, name: &'static str) -> TestServer {
    TestServer::start(life, Speaks::Plain, move |_| async move { Ok(text(name)) }).await
}

/// Reads each request and breaks the connection.
async fn breaking(life: &Lifecycle) -> (TestServer, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let server = TestServer::start(life, Speaks::Plain, move |request| {
        let counted = Arc::clone(&counted);
        async move {
            request.into_body().collect().await?;
            counted.fetch_add(1, Ordering::SeqCst);
            Err("broken on purpose".into())
        }
    })
    .await;
    (server, seen)
}

async fn closed_url() -> http::Uri {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap()).parse().unwrap()
}

async fn upstream_of(life: &Lifecycle, servers: &[&TestServer]) -> Upstream {
    bare(life, servers.iter().map(|server| server.url()).collect()).await
}

#[tokio::test]
async fn an_instance_that_takes_no_connection_is_passed_over_also_by_writes() {
    let life = Lifecycle::new();
    let good = named(&life, "good").await;
    let upstream = bare(&life, vec![closed_url().await, good.url()]).await;
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let answer = upstream.forward(request(method, "/"), ANY).await.unwrap();
        assert_eq!(read(answer).await, "good");
    }
    assert_eq!(upstream.order(ANY)[0].name(), good.address.to_string(), "the suspect comes last");
}

#[tokio::test]
async fn without_any_instance_the_request_was_not_sent_and_the_kind_is_told() {
    let life = Lifecycle::new();
    let upstream = bare(&life, vec![closed_url().await, closed_url().await]).await;
    let error = upstream.forward(request(Method::POST, "/"), ANY).await.unwrap_err();
    assert!(matches!(error, ForwardError::Unreachable(_)));
    assert_eq!(error.kind(), FailureKind::Connect);
    let error = upstream.upgrade(request(Method::POST, "/"), ANY).await.unwrap_err();
    assert!(matches!(error, ForwardError::Unreachable(_)));
}

#[tokio::test]
async fn a_lost_read_goes_to_another_instance_once() {
    let life = Lifecycle::new();
    let (bad, seen) = breaking(&life).await;
    let good = named(&life, "good").await;
    let upstream = upstream_of(&life, &[&bad, &good]).await;
    assert_eq!(read(upstream.forward(request(Method::GET, "/"), ANY).await.unwrap()).await, "good");
    assert_eq!(seen.load(Ordering::SeqCst), 1);

    let alone = upstream_of(&life, &[&bad]).await;
    let error = alone.forward(request(Method::HEAD, "/"), ANY).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Closed);
    assert_eq!(seen.load(Ordering::SeqCst), 3, "once more on the same instance, then no more");
}

#[tokio::test]
async fn a_lost_write_is_never_sent_again() {
    let life = Lifecycle::new();
    let (bad, seen) = breaking(&life).await;
    let good = named(&life, "good").await;
    let upstream = upstream_of(&life, &[&bad, &good]).await;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let error = upstream.forward(request(method, "/"), ANY).await.unwrap_err();
        assert!(matches!(error, ForwardError::Broken(_)));
    }
    let with_body = Request::get("/").body(full(Bytes::from_static(b"x"))).unwrap();
    assert!(upstream.forward(with_body, ANY).await.is_err(), "the body of a read is gone too");
    assert_eq!(seen.load(Ordering::SeqCst), 5);
    assert_eq!(good.connections(), 0);
}

#[tokio::test]
async fn requests_of_one_affinity_stay_on_one_instance() {
    let life = Lifecycle::new();
    let (one, two) = (named(&life, "one").await, named(&life, "two").await);
    let upstream = upstream_of(&life, &[&one, &two]).await;
    for (affinity, name) in [(0, "one"), (1, "two"), (2, "one"), (u64::MAX, "two")] {
        for _ in 0..2 {
            let answer = upstream.forward(request(Method::GET, "/"), Affinity(affinity)).await.unwrap();
            assert_eq!(read(answer).await, name);
        }
    }
}

#[tokio::test]
async fn streams_fill_a_connection_up_to_the_limit_and_then_the_next() {
    let life = Lifecycle::new();
    let server = TestServer::start(&life, Speaks::Http2, |request| async move {
        let peer = *request.extensions().get::<Peer>().unwrap();
        let mut response = silence();
        response.headers_mut().insert("connection-number", peer.connection.into());
        Ok(response)
    })
    .await;
    let upstream = server.upstream(&life, &json!({})).await;
    let mut watches = Vec::new();
    for _ in 0..crate::pool::kept::MAX_STREAMS + 1 {
        watches.push(upstream.forward(request(Method::GET, "/"), ANY).await.unwrap());
    }
    let number = |response: &Response<ForwardedBody>| response.headers()["connection-number"].clone();
    assert_eq!(number(&watches[0]), "0");
    assert_eq!(number(watches.last().unwrap()), "1");
    assert_eq!(server.connections(), 2);
    drop(watches.remove(0));
    let next = upstream.forward(request(Method::GET, "/"), ANY).await.unwrap();
    assert_eq!(number(&next), "0", "a place is free again");
}

#[tokio::test]
async fn a_burst_shares_the_connection_that_its_first_request_opens() {
    let life = Lifecycle::new();
    let server = TestServer::start(&life, Speaks::Http2, |_| async move { Ok(text("x")) }).await;
    let upstream = server.upstream(&life, &json!({})).await;
    let burst = (0..20).map(|_| upstream.forward(request(Method::GET, "/"), ANY));
    for answer in futures_util::future::join_all(burst).await {
        assert_eq!(read(answer.unwrap()).await, "x");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_http1_connection_is_used_again_after_its_answer_was_read() {
    let life = Lifecycle::new();
    let server = named(&life, "x").await;
    let upstream = upstream_of(&life, &[&server]).await;
    for _ in 0..50 {
        read(upstream.forward(request(Method::GET, "/"), ANY).await.unwrap()).await;
    }
    assert!(server.connections() < 50, "{} connections for 50 requests", server.connections());
}

#[tokio::test]
async fn a_review_is_asked_with_the_callers_header_and_its_answer_read() {
    let life = Lifecycle::new();
    let server = TestServer::start(&life, Speaks::Http2, |request| async move {
        let (parts, body) = request.into_parts();
        let header = |name| parts.headers[name].to_str().unwrap().to_owned();
        let body = body.collect().await?.to_bytes();
        let mut response = text(format!(
            "{} {} {} {} {}",
            parts.method,
            parts.uri.path(),
            header(header::AUTHORIZATION),
            header(header::USER_AGENT),
            String::from_utf8_lossy(&body)
        ));
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    })
    .await;
    let upstream = server.upstream(&life, &json!({"token": "weirs-own"})).await;
    let caller = HeaderValue::from_static("bearer callers");
    let answer = upstream.review(&caller, Bytes::from_static(b"{}"), ANY).await.unwrap();
    assert_eq!(answer.status, StatusCode::CREATED);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        answer.body,
        format!(
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews bearer callers weir/{version} (review) {{}}"
        )
    );
}

#[tokio::test]
async fn a_review_may_be_asked_twice_and_is_bounded_in_time() {
    let life = Lifecycle::new();
    let (bad, seen) = breaking(&life).await;
    let good = named(&life, "good").await;
    let upstream = upstream_of(&life, &[&bad, &good]).await;
    let caller = HeaderValue::from_static("Bearer x");
    let answer = upstream.review(&caller, Bytes::from_static(b"{}"), ANY).await.unwrap();
    assert_eq!((answer.body.as_ref(), seen.load(Ordering::SeqCst)), (&b"good"[..], 1));

    let silent = TestServer::start(&life, Speaks::Plain, |_| async move { Ok(silence()) }).await;
    let upstream = upstream_of(&life, &[&silent]).await;
    // The connection exists before time is paused, so only the silence is waited for.
    let watch = upstream.forward(request(Method::GET, "/"), ANY).await.unwrap();
    tokio::time::pause();
    let error = upstream.review(&caller, Bytes::new(), ANY).await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::Timeout);
    drop(watch);
}

#[tokio::test]
async fn an_upgrade_has_its_own_http1_connection_and_only_a_101_is_one() {
    let life = Lifecycle::new();
    let spawner = life.clone();
    let server = TestServer::start(&life, Speaks::Http2, move |mut request| {
        let spawner = spawner.clone();
        async move {
            assert_eq!(request.version(), http::Version::HTTP_11);
            if request.uri().path() == "/no" {
                let mut refused = text("no upgrade");
                *refused.status_mut() = StatusCode::FORBIDDEN;
                return Ok(refused);
            }
            let upgraded = hyper::upgrade::on(&mut request);
            spawner.spawn("echo", async move {
                let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded.await.unwrap()));
                tokio::io::copy(&mut read, &mut write).await.unwrap();
                write.shutdown().await.unwrap();
            });
            let mut response = text("");
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("echo"));
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            Ok(response)
        }
    })
    .await;
    let upstream = server.upstream(&life, &json!({})).await;
    let ask = |path: &str| {
        let mut request = request(Method::GET, path);
        request.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("echo"));
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        request
    };
    let refused = upstream.upgrade(ask("/no"), ANY).await.unwrap();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    assert_eq!(read(refused).await, "no upgrade");

    let mut response = upstream.upgrade(ask("/yes"), ANY).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut tunnel = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    tunnel.write_all(b"hello").await.unwrap();
    tunnel.shutdown().await.unwrap();
    let mut echoed = String::new();
    tunnel.read_to_string(&mut echoed).await.unwrap();
    assert_eq!(echoed, "hello", "half-closed, and the other half still carries");
}
