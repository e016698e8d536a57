//! What is not passed on, and what is said where upstream does not answer.

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use weir_daemon::Lifecycle;

use super::scripted::{RawClient, Scripted, bind, front, http2_client, serve, text, upstream, within};
use crate::passthrough::Passthrough;

/// One exchange over HTTP/1.1: head and body.
async fn ask(address: std::net::SocketAddr, request: &str) -> (String, String) {
    let mut client = RawClient::connect(address).await;
    client
        .write(&format!("{request} HTTP/1.1\r\nHost: weir\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
        .await;
    let head = client.head().await;
    (head, client.rest().await)
}

#[tokio::test]
async fn no_request_that_names_a_shard_selector_reaches_upstream() {
    let life = Lifecycle::new();
    let upstream = Scripted::http1(&life, |_| async { Ok(Response::new(text("everything"))) }).await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    for request in [
        "DELETE /api/v1/namespaces/a/pods?shardSelector=shardRange(object.metadata.uid,'0x0','0x1')",
        "DELETE /api/v1/namespaces/a/pods?shardSelector=",
        "DELETE /api/v1/namespaces/a/pods?a=b&shardSelector",
        "DELETE /api/v1/namespaces/a/pods?%73hardSelector=x",
        "DELETE /api/v1/namespaces/a/pods?shardSelector=%zz",
        "DELETE /api/v1/namespaces/a/pods?%73hardSelector=%zz",
        "DELETE /api/v1/namespaces/a/pods?shardSelector=a;b",
        "GET /api/v1/pods?shardSelector=x",
        "POST /api/v1/namespaces/a/pods?shardSelector=x",
    ] {
        let (head, body) = ask(address, request).await;
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{request}: {head}");
        assert!(body.contains(r#""reason":"BadRequest""#) && body.contains("shardSelector"), "{body}");
        assert!(head.contains("weir-answered-by: passed; "), "{head}");
    }
    assert_eq!(upstream.requests(), 0);
    let (head, _) = ask(address, "DELETE /api/v1/namespaces/a/pods?labelSelector=a%3Db").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn without_an_upstream_clients_are_asked_to_come_back() {
    let life = Lifecycle::new();
    let (listener, closed) = bind().await;
    drop(listener);
    let address = front(&life, vec![format!("http://{closed}").parse().unwrap()]).await;
    for method in ["GET", "POST"] {
        let (head, body) = ask(address, &format!("{method} /api/v1/pods")).await;
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert!(head.contains("retry-after: 1\r\n") && head.contains("content-type: application/json\r\n"));
        let status: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["reason"], "ServiceUnavailable");
        assert_eq!(status["code"], 503);
    }
}

#[tokio::test]
async fn a_refusal_comes_in_the_encoding_that_the_client_takes() {
    let life = Lifecycle::new();
    let (listener, closed) = bind().await;
    drop(listener);
    let address = front(&life, vec![format!("http://{closed}").parse().unwrap()]).await;
    let refused = async |accept: &str| {
        let mut client = RawClient::connect(address).await;
        let request =
            format!("GET / HTTP/1.1\r\nHost: weir\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
        client.write(&request).await;
        (client.head().await, client.rest().await)
    };
    let (head, body) = refused("application/vnd.kubernetes.protobuf").await;
    assert!(head.contains("content-type: application/vnd.kubernetes.protobuf\r\n"), "{head}");
    assert!(body.starts_with("k8s\0"), "{body:?}");
    let (head, body) = refused("application/yaml").await;
    assert!(head.contains("content-type: application/yaml\r\n"), "{head}");
    assert!(body.contains("reason: ServiceUnavailable\n"), "{body}");
}

#[tokio::test]
async fn a_lost_write_is_not_answered_in_a_way_that_repeats_it() {
    let life = Lifecycle::new();
    let upstream = Scripted::http1(&life, |request| async {
        request.into_body().collect().await?;
        Err("broken on purpose".into())
    })
    .await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let (head, body) = ask(address, "POST /api/v1/namespaces/a/pods").await;
    assert!(head.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{head}");
    assert!(!head.contains("retry-after"), "{head}");
    assert!(body.contains("may have been carried out"), "{body}");
    assert_eq!(upstream.requests(), 1);

    let (head, _) = ask(address, "GET /api/v1/pods").await;
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("retry-after: 1\r\n"), "{head}");
}

#[tokio::test]
async fn a_request_that_comes_back_is_refused() {
    let life = Lifecycle::new();
    let (listener, address) = bind().await;
    let itself = upstream(&life, vec![format!("http://{address}").parse().unwrap()]).await;
    serve(&life, listener, Passthrough::new(itself, life.clone()));
    let (head, body) = ask(address, "GET /api/v1/pods").await;
    assert!(head.starts_with("HTTP/1.1 508 Loop Detected\r\n"), "{head}");
    assert!(body.contains(r#""reason":"LoopDetected""#), "{body}");
}

#[tokio::test]
async fn connect_is_refused_on_both_protocols() {
    let life = Lifecycle::new();
    let upstream = Scripted::http1(&life, |_| async { Ok(Response::new(text(""))) }).await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let (head, _) = ask(address, "CONNECT kubernetes:443").await;
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    let mut client = http2_client(&life, address).await;
    let request = Request::connect("kubernetes:443").body(text("")).unwrap();
    assert_eq!(within(client.send_request(request)).await.unwrap().status(), 405);
    assert_eq!(upstream.requests(), 0);
}

#[tokio::test]
async fn headers_that_leave_no_room_for_weirs_own_are_refused() {
    let life = Lifecycle::new();
    let upstream = Scripted::http2(&life, |_| async { Ok(Response::new(text("x"))) }).await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let mut client = http2_client(&life, address).await;
    let name = |number: usize| HeaderName::try_from(format!("h{number:x}")).unwrap();
    // As many as the map holds, as few as it has room left for.
    for (count, code) in [(24_570, 431), (100, 200)] {
        let mut request = Request::get("http://weir/").body(text("")).unwrap();
        let headers = (0..count).map(|number| (name(number), HeaderValue::from_static("")));
        request.headers_mut().extend(headers.collect::<HeaderMap>());
        let answer = within(client.send_request(request)).await.unwrap();
        assert_eq!(answer.status(), code, "{count}");
    }
    assert_eq!(upstream.requests(), 1);
    assert!(!life.is_stopping(), "nothing panicked");
}
