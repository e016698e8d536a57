//! A passthrough between real connections: what upstream sees, what the client gets, and how either end of it ends.

mod filter;
mod refusals;
mod scripted;
mod tunnels;
mod upgrades;

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use weir_daemon::Lifecycle;
use weir_upstream::{BoxError, RequestBody};

use self::scripted::{RawClient, Scripted, front, http2_client, text, within};
use super::{BEGUN, PassedBody, Passthrough};

fn data(text: &str) -> Frame<Bytes> {
    Frame::data(Bytes::copy_from_slice(text.as_bytes()))
}

fn trailers(value: &'static str) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static(value));
    Frame::trailers(trailers)
}

#[tokio::test]
async fn upstream_sees_the_request_byte_for_byte_without_what_is_not_its_business() {
    let life = Lifecycle::new();
    let (upstream, mut heads) = Scripted::raw(&life, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    client
        .write(concat!(
            "PATCH /api/v1/a%2Fb/..;x//c?b=%20&&a=+&a=%41&x=%zz HTTP/1.1\r\n",
            "Host: weir\r\nAccept: one\r\nUser-Agent: kubectl/v1\r\nAuthorization: Bearer of-client\r\n",
            "Impersonate-User: jane\r\nX-Remote-User: admin\r\nX_Remote_Group: system:masters\r\n",
            "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nAccept: two\r\nContent-Length: 0\r\n\r\n",
        ))
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 200 OK\r\n"));
    let head = within(heads.recv()).await.unwrap();
    let mut lines = head.trim_end().split("\r\n");
    assert_eq!(lines.next(), Some("PATCH /api/v1/a%2Fb/..;x//c?b=%20&&a=+&a=%41&x=%zz HTTP/1.1"));
    let (marks, mut lines): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("via: "));
    assert!(marks.len() == 1 && marks[0].starts_with("via: 1.1 weir-"), "{marks:?}");
    lines.sort_unstable();
    let host = format!("host: {}", upstream.url.authority().unwrap());
    assert_eq!(
        lines,
        [
            "accept: one",
            "accept: two",
            "authorization: Bearer of-client",
            "content-length: 0",
            &host,
            "impersonate-user: jane",
            "user-agent: kubectl/v1"
        ]
    );
}

#[tokio::test]
async fn the_answer_comes_as_it_is_with_a_word_on_who_gave_it() {
    let life = Lifecycle::new();
    let answer = concat!(
        "HTTP/1.1 409 Conflict\r\nWarning: 299 - \"one\"\r\nContent-Type: text/plain\r\nWarning: 299 - \"two\"\r\n",
        "Connection: close\r\nAudit-Id: 7\r\nWeir-Answered-By: somebody\r\nDate: then\r\nContent-Length: 2\r\n\r\nno",
    );
    let (upstream, _heads) = Scripted::raw(&life, answer).await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    client.write("GET / HTTP/1.1\r\nHost: weir\r\n\r\n").await;
    let head = client.head().await;
    let mut lines: Vec<_> = head.trim_end().split("\r\n").collect();
    assert_eq!(lines.remove(0), "HTTP/1.1 409 Conflict");
    lines.sort_by_key(|line| line.split(':').next());
    assert_eq!(
        lines,
        [
            "audit-id: 7",
            "content-length: 2",
            "content-type: text/plain",
            "date: then",
            "warning: 299 - \"one\"",
            "warning: 299 - \"two\"",
            "weir-answered-by: passed; not mirrored",
        ]
    );
    assert_eq!(client.until("no").await, "no");
}

#[tokio::test]
async fn pf03_signs_of_overload_and_names_of_requests_arrive_once_each_and_nothing_is_tried_again() {
    let life = Lifecycle::new();
    let answer = concat!(
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nX-Kubernetes-PF-FlowSchema-UID: f-1\r\n",
        "X-Kubernetes-PF-PriorityLevel-UID: p-1\r\nWarning: 299 - \"one\"\r\nWarning: 299 - \"two\"\r\n",
        "Audit-ID: of-client\r\nContent-Length: 4\r\n\r\nbusy",
    );
    for method in ["GET", "POST"] {
        let (upstream, mut heads) = Scripted::raw(&life, answer).await;
        let address = front(&life, vec![upstream.url.clone()]).await;
        let mut client = RawClient::connect(address).await;
        let request = format!(
            "{method} /api/v1/namespaces/a/pods?dryRun=All HTTP/1.1\r\nHost: weir\r\nAudit-ID: of-client\r\nContent-Length: 0\r\n\r\n"
        );
        client.write(&request).await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{head}");
        let of = |name: &str| head.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>();
        assert_eq!(of("retry-after: "), ["retry-after: 7"]);
        assert_eq!(of("x-kubernetes-pf-flowschema-uid: "), ["x-kubernetes-pf-flowschema-uid: f-1"]);
        assert_eq!(of("x-kubernetes-pf-prioritylevel-uid: "), ["x-kubernetes-pf-prioritylevel-uid: p-1"]);
        assert_eq!(of("warning: "), ["warning: 299 - \"one\"", "warning: 299 - \"two\""]);
        assert_eq!(of("audit-id: "), ["audit-id: of-client"]);
        assert_eq!(client.until("busy").await, "busy");
        let seen = within(heads.recv()).await.unwrap();
        assert_eq!(seen.lines().filter(|line| *line == "audit-id: of-client").count(), 1, "{seen}");
        assert_eq!(upstream.requests(), 1);
    }
}

async fn echo(request: Request<Incoming>) -> Result<Response<RequestBody>, BoxError> {
    let mut response = Response::new(request.into_body().map_err(Into::into).boxed_unsync());
    response.headers_mut().insert(header::TRAILER, HeaderValue::from_static("x-sum"));
    Ok(response)
}

#[tokio::test]
async fn bodies_stream_both_ways_at_once_and_trailers_follow() {
    let life = Lifecycle::new();
    for upstream in [Scripted::http1(&life, echo).await, Scripted::http2(&life, echo).await] {
        let address = front(&life, vec![upstream.url.clone()]).await;
        let mut client = http2_client(&life, address).await;
        let (feeder, body) = scripted::fed();
        let mut request = Request::post("http://weir/").body(body).unwrap();
        request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
        request.headers_mut().insert(header::TRAILER, HeaderValue::from_static("x-sum"));
        let mut answer = within(client.send_request(request)).await.unwrap().into_body();
        for part in ["one", "two", "three"] {
            feeder.send(Ok(data(part))).await.unwrap();
            let frame = within(answer.frame()).await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), part, "it comes back before the next is sent");
        }
        feeder.send(Ok(trailers("9"))).await.unwrap();
        drop(feeder);
        let frame = within(answer.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_trailers().unwrap()["x-sum"], "9");
        assert!(within(answer.frame()).await.is_none());
    }
}

#[tokio::test]
async fn a_watch_is_flushed_event_by_event_to_an_http1_client() {
    let life = Lifecycle::new();
    let (feeder, body) = scripted::fed();
    let body = Mutex::new(Some(body));
    let body = Arc::new(body);
    let upstream = Scripted::http2(&life, move |_| {
        let body = body.lock().unwrap().take().unwrap();
        async move { Ok(Response::new(body)) }
    })
    .await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    client.write("GET /?watch=1 HTTP/1.1\r\nHost: weir\r\n\r\n").await;
    let head = client.head().await;
    assert!(head.contains("transfer-encoding: chunked"), "the head comes before any event: {head}");
    feeder.send(Ok(data("event\n"))).await.unwrap();
    assert_eq!(client.until("event\n\r\n").await, "6\r\nevent\n\r\n");
    feeder.send(Ok(data("next\n"))).await.unwrap();
    assert_eq!(client.until("next\n\r\n").await, "5\r\nnext\n\r\n");
    drop(feeder);
    assert_eq!(client.until("0\r\n\r\n").await, "0\r\n\r\n", "a clean end ends cleanly");
}

#[tokio::test]
async fn a_broken_answer_breaks_the_clients_stream() {
    let life = Lifecycle::new();
    for cut in [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst",
    ] {
        let (upstream, _heads) = Scripted::raw(&life, cut).await;
        let address = front(&life, vec![upstream.url.clone()]).await;
        let mut client = RawClient::connect(address).await;
        client.write("GET / HTTP/1.1\r\nHost: weir\r\n\r\n").await;
        let answer = client.rest().await;
        assert!(answer.contains("first") && !answer.contains("0\r\n\r\n"), "{answer}");

        let mut client = http2_client(&life, address).await;
        let answer = within(client.send_request(Request::get("http://weir/").body(text("")).unwrap())).await;
        let mut body = answer.unwrap().into_body();
        assert_eq!(within(body.frame()).await.unwrap().unwrap().into_data().unwrap(), "first");
        assert!(within(body.frame()).await.unwrap().is_err());
    }
}

/// Reads config maps for a client of an upstream whose first answer is fed by the test, and the later ones whole.
async fn read_from(life: &Lifecycle, first: RequestBody) -> (Scripted, PassedBody) {
    let first = Arc::new(Mutex::new(Some(first)));
    let upstream = Scripted::http2(life, move |_| {
        let body = first.lock().unwrap().take().unwrap_or_else(|| text("whole"));
        async move { Ok(Response::new(body)) }
    })
    .await;
    let urls = vec![upstream.url.clone()];
    let passthrough = Passthrough::new(scripted::upstream(life, urls).await, life.clone());
    let client = Request::get("/").body(()).unwrap().into_parts().0;
    let answer = within(passthrough.read_for(&client, "/api/v1/configmaps")).await.unwrap();
    (upstream, answer.into_body())
}

#[tokio::test]
async fn an_answer_in_a_mirrors_place_is_asked_for_again_until_its_first_mebibyte_is_here() {
    let life = Lifecycle::new();
    let (feeder, first) = scripted::fed();
    feeder.send(Ok(data("first"))).await.unwrap();
    feeder.send(Err("it breaks".into())).await.unwrap();
    let (upstream, body) = read_from(&life, first).await;
    assert_eq!(within(body.collect()).await.unwrap().to_bytes(), "whole");
    assert_eq!(upstream.requests(), 2);

    let (feeder, first) = scripted::fed();
    feeder.send(Ok(data(&"x".repeat(BEGUN)))).await.unwrap();
    let (upstream, body) = read_from(&life, first).await;
    feeder.send(Err("it breaks".into())).await.unwrap();
    assert!(within(body.collect()).await.is_err(), "what was begun breaks visibly");
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn an_answer_in_a_mirrors_place_that_comes_slowly_is_passed_on_as_it_comes() {
    let life = Lifecycle::new();
    let (feeder, first) = scripted::fed();
    feeder.send(Ok(data("first, "))).await.unwrap();
    let (upstream, body) = read_from(&life, first).await;
    feeder.send(Ok(data("then more"))).await.unwrap();
    drop(feeder);
    assert_eq!(within(body.collect()).await.unwrap().to_bytes(), "first, then more");
    assert_eq!(upstream.requests(), 1);
}

#[tokio::test]
async fn upstream_stops_when_the_client_goes() {
    let life = Lifecycle::new();
    let (feeder, body) = scripted::fed();
    let body = Arc::new(Mutex::new(Some(body)));
    let upstream = Scripted::http2(&life, move |_| {
        let body = body.lock().unwrap().take().unwrap();
        async move { Ok(Response::new(body)) }
    })
    .await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    client.write("GET /log?follow=1 HTTP/1.1\r\nHost: weir\r\n\r\n").await;
    client.head().await;
    drop(client);
    within(feeder.closed()).await;
}

#[tokio::test]
async fn a_client_that_waits_for_leave_to_send_gets_it() {
    let life = Lifecycle::new();
    for upstream in [Scripted::http1(&life, echo).await, Scripted::http2(&life, echo).await] {
        let address = front(&life, vec![upstream.url.clone()]).await;
        let mut client = RawClient::connect(address).await;
        client
            .write("POST / HTTP/1.1\r\nHost: weir\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
            .await;
        assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
        client.write("body").await;
        assert!(client.head().await.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(client.until("body").await.ends_with("body"));
    }
}

#[tokio::test]
async fn an_answer_to_head_says_the_length_of_what_it_does_not_send() {
    let life = Lifecycle::new();
    let handler = |_| async {
        let mut response = Response::new(text(""));
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from_static("1234"));
        Ok(response)
    };
    for upstream in [Scripted::http1(&life, handler).await, Scripted::http2(&life, handler).await] {
        let address = front(&life, vec![upstream.url.clone()]).await;
        let mut client = RawClient::connect(address).await;
        for _ in 0..2 {
            client.write("HEAD / HTTP/1.1\r\nHost: weir\r\n\r\n").await;
            let head = client.head().await;
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            assert!(head.contains("content-length: 1234\r\n"), "{head}");
        }
    }
}
