//! What is sent again, and how often: upstream ends connections, refuses streams and falls silent, and each request is
//! carried out once or its sender is told that nobody knows.

use std::{
    collections::{HashMap, HashSet},
    sync::Mutex,
};

use futures_util::future::join_all;
use http::HeaderValue;
use weir_daemon::Lifecycle;

use super::*;
use crate::{
    Affinity, Upstream,
    forward::full,
    rewind::KEPT_BYTES,
    testing::{Act, Asked, FrameServer},
};

const ANY: Affinity = Affinity(0);

fn post(token: Option<&str>, body: impl Into<String>) -> Request<RequestBody> {
    let mut request = Request::post("/").body(full(body.into().into())).unwrap();
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
        request.headers_mut().insert(http::header::AUTHORIZATION, value);
    }
    request
}

async fn send(upstream: &Upstream, request: Request<RequestBody>) -> Result<StatusCode, ForwardError> {
    upstream.forward(request, ANY).await.map(|answer| answer.status())
}

fn created(asked: &Asked) -> Vec<Act> {
    vec![Act::Answer { stream: asked.stream, status: "201" }]
}

/// The bodies of the requests, in order of the alphabet.
fn bodies(asked: &[Asked], on: impl Fn(usize) -> bool) -> Vec<&str> {
    let mut bodies: Vec<_> =
        asked.iter().filter(|asked| on(asked.connection)).map(|asked| asked.body.as_str()).collect();
    bodies.sort_unstable();
    bodies
}

#[tokio::test]
async fn writes_beyond_the_last_stream_of_a_goaway_are_sent_once_more_and_the_others_are_not() {
    let life = Lifecycle::new();
    let server = FrameServer::start(&life, |asked| match (asked.connection, asked.stream) {
        (0, 5) => vec![Act::GoAway { last: 1 }, Act::Answer { stream: 1, status: "201" }],
        (0, _) => Vec::new(),
        _ => created(asked),
    })
    .await;
    let upstream = server.upstream(&life).await;
    let all = ["a", "b", "c"].map(|body| send(&upstream, post(Some("good"), body)));
    for answer in join_all(all).await {
        assert_eq!(answer.unwrap(), StatusCode::CREATED);
    }
    let asked = server.asked();
    assert_eq!(bodies(&asked, |connection| connection == 0), ["a", "b", "c"]);
    let first = asked.iter().find(|asked| asked.stream == 1 && asked.connection == 0).unwrap();
    let again = bodies(&asked, |connection| connection > 0);
    assert_eq!(again.len(), 2);
    assert!(!again.contains(&first.body.as_str()), "it was carried out");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_write_that_upstream_took_is_not_sent_again_when_the_connection_breaks() {
    let life = Lifecycle::new();
    let server =
        FrameServer::start(&life, |asked| vec![Act::GoAway { last: asked.stream }, Act::Break]).await;
    let upstream = server.upstream(&life).await;
    let error = send(&upstream, post(Some("good"), "a")).await.unwrap_err();
    assert!(matches!(error, ForwardError::Broken(_)), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_body_beyond_the_bound_is_not_sent_again_and_one_within_is() {
    let life = Lifecycle::new();
    let server = FrameServer::start(&life, |asked| match (asked.connection, asked.body.len()) {
        (0, _) => vec![Act::GoAway { last: 0 }],
        (_, ..=KEPT_BYTES) => created(asked),
        _ => vec![Act::Refuse { stream: asked.stream }],
    })
    .await;
    let upstream = server.upstream(&life).await;
    let most = "x".repeat(KEPT_BYTES);
    assert_eq!(send(&upstream, post(Some("good"), most.clone())).await.unwrap(), StatusCode::CREATED);
    assert!(server.asked().iter().all(|asked| asked.body == most));
    let error = send(&upstream, post(Some("good"), most + "x")).await.unwrap_err();
    assert!(matches!(error, ForwardError::Broken(_)), "{error}");
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn a_refused_stream_is_sent_again_a_few_times() {
    let life = Lifecycle::new();
    let server = FrameServer::start(&life, |asked| match (asked.body.as_str(), asked.connection) {
        ("twice", 2..) => created(asked),
        _ => vec![Act::Refuse { stream: asked.stream }],
    })
    .await;
    let upstream = server.upstream(&life).await;
    assert_eq!(send(&upstream, post(Some("good"), "twice")).await.unwrap(), StatusCode::CREATED);
    assert_eq!(server.asked().len(), 3);
    let error = send(&upstream, post(Some("good"), "always")).await.unwrap_err();
    assert!(matches!(error, ForwardError::Unreachable(ConnectError::Refused { .. })), "{error}");
    assert_eq!(server.asked().len(), 3 + 1 + MAX_REFUSALS);
}

/// Answers strangers as kube-apiserver does: 401, and the end of the connection for all that it has not read yet.
fn guarded(asked: &Asked) -> Vec<Act> {
    if asked.body.starts_with("good") {
        return created(asked);
    }
    let last = asked.stream;
    vec![Act::GoAway { last }, Act::Answer { stream: last, status: "401" }]
}

#[tokio::test]
async fn strangers_have_connections_of_their_own() {
    let life = Lifecycle::new();
    let server = FrameServer::start(&life, guarded).await;
    let upstream = server.upstream(&life).await;
    for (token, body, connection) in [
        (Some("good"), "good 0", 0),
        (None, "bad", 1),
        (Some("good"), "good 1", 0),
        // Nobody knows the wrong token yet, so it ends the connection of the others, which they are not told of.
        (Some("wrong"), "bad", 0),
        (Some("wrong"), "bad", 2),
        (Some("good"), "good 2", 3),
        (None, "bad", 4),
        (Some("good"), "good 3", 3),
    ] {
        send(&upstream, post(token, body)).await.unwrap();
        assert_eq!(server.asked().last().unwrap().connection, connection, "{token:?} {body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_cost_others_nothing() {
    const WRITES: usize = 200;
    let life = Lifecycle::new();
    // The answer to a new wrong token waits until a request of others is under way behind it, which is then not read.
    let waiting = Mutex::new(HashMap::new());
    let carried_out = Arc::new(Mutex::new(Vec::new()));
    let carry_out = Arc::clone(&carried_out);
    let script = Arc::new(move |asked: &Asked| {
        let mut waiting = waiting.lock().unwrap();
        if let Some(last) = waiting.remove(&asked.connection) {
            let mut acts = vec![Act::GoAway { last }, Act::Answer { stream: last, status: "401" }];
            if asked.stream < last {
                // Its head came before, only its end came after: it counts as read, and is answered.
                carry_out.lock().unwrap().push(asked.body.clone());
                acts.extend(guarded(asked));
            }
            return acts;
        }
        if asked.body == "new" {
            waiting.insert(asked.connection, asked.stream);
            return Vec::new();
        }
        carry_out.lock().unwrap().push(asked.body.clone());
        guarded(asked)
    });
    let server = FrameServer::start(&life, move |asked| script(asked)).await;
    let upstream = server.upstream(&life).await;
    let strangers = async {
        for number in 0_usize.. {
            let wrong = format!("wrong {number}");
            for (token, body) in [(None, "bad"), (Some("wrong"), "bad"), (Some(wrong.as_str()), "new")] {
                assert_eq!(send(&upstream, post(token, body)).await.unwrap(), StatusCode::UNAUTHORIZED);
            }
        }
    };
    let callers = join_all((0..4).map(|caller| {
        let upstream = &upstream;
        async move {
            for number in 0..WRITES / 4 {
                let body = format!("good {caller} {number}");
                let status = send(upstream, post(Some("good"), body.clone())).await.unwrap();
                assert_eq!(status, StatusCode::CREATED, "{body}");
                let good = HeaderValue::from_static("Bearer good");
                let answer = upstream.review(&good, "good review".into(), ANY).await.unwrap();
                assert_eq!(answer.status, StatusCode::CREATED);
            }
        }
    }));
    tokio::select! {
        () = strangers => unreachable!("strangers never tire"),
        _ = callers => {}
    }
    let mut writes = std::mem::take(&mut *carried_out.lock().unwrap());
    writes.retain(|body| body.starts_with("good ") && body != "good review");
    assert_eq!((writes.len(), writes.iter().collect::<HashSet<_>>().len()), (WRITES, WRITES), "once each");
    assert!(
        server.connections() > 3,
        "{} connections: none of the shared ones was ended",
        server.connections()
    );
}

#[tokio::test]
async fn a_read_on_a_connection_that_ends_and_stays_silent_is_repeated_and_a_write_is_not() {
    let life = Lifecycle::new();
    let server = FrameServer::start(&life, |asked| match (asked.connection, asked.stream) {
        (0, 1) => Vec::new(),
        (0, 3) => vec![Act::GoAway { last: 3 }],
        _ => created(asked),
    })
    .await;
    let upstream = server.upstream(&life).await;
    // Strangers share connections whatever they ask for.
    let read = async { upstream.forward(Request::new(RequestBody::default()), ANY).await };
    let write = async { send(&upstream, post(None, "taken")).await };
    // Tells that the connection is closing.
    let later = async {
        while server.asked().len() < 2 {
            tokio::task::yield_now().await;
        }
        send(&upstream, post(None, "later")).await
    };
    tokio::select! {
        biased;
        (read, later) = async { tokio::join!(read, later) } => {
            assert_eq!((read.unwrap().status(), later.unwrap()), (StatusCode::CREATED, StatusCode::CREATED));
        }
        answer = write => unreachable!("nobody answers it: {answer:?}"),
    }
    let asked = server.asked();
    assert_eq!(bodies(&asked, |_| true), ["", "", "later", "taken"]);
}

#[tokio::test]
async fn a_review_without_an_answer_is_asked_again_over_another_connection() {
    let life = Lifecycle::new();
    let server = FrameServer::start(&life, |asked| match asked.connection {
        0 => Vec::new(),
        _ => created(asked),
    })
    .await;
    let upstream = server.upstream(&life).await;
    let good = HeaderValue::from_static("Bearer good");
    let answer = upstream.review(&good, "review".into(), ANY).await.unwrap();
    assert_eq!((answer.status, server.connections()), (StatusCode::CREATED, 2));
}
