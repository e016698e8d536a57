//! What reaches upstream of requests of verified users, over which connections, and what does not go out at all.

use std::sync::{Arc, Mutex};

use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use weir_daemon::{Lifecycle, followed::Reloads};

use super::*;
use crate::{
    BoxError, ConnectError,
    testing::{Peer, Speaks, TestBody, TestFile, TestServer, text},
};

/// What a server was asked: over which connection, what, and whose it took it for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    peer: Peer,
    path: String,
    user: String,
    headers: HeaderMap,
}

type Lines = Arc<Mutex<Vec<Line>>>;

/// Believes the headers of whoever shows a certificate, if it believes any.
#[derive(Clone)]
struct Double {
    lines: Lines,
    believes: bool,
}

// === impl Double ===

impl Double {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<TestBody>, BoxError> {
        let peer: Peer = *request.extensions().get().unwrap();
        let path = request.uri().path().to_owned();
        let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let shown = match peer.has_certificate {
            true if self.believes => header("x-remote-user"),
            true => Some("front-proxy".to_owned()),
            false => header("authorization"),
        };
        let user = shown.unwrap_or_default();
        let headers = request.headers().clone();
        let review = json!({ "status": { "userInfo": { "username": user } } });
        self.lines.lock().unwrap().push(Line { peer, path: path.clone(), user, headers });
        let _ = request.into_body().collect().await;
        if path.ends_with("/selfsubjectreviews") {
            let mut response = text(review.to_string());
            *response.status_mut() = StatusCode::CREATED;
            return Ok(response);
        }
        Ok(text("answer"))
    }
}

/// Upstream as a front proxy sees it, with what it was asked.
struct Fixture {
    upstream: Upstream,
    lines: Lines,
    _life: Lifecycle,
    _server: TestServer,
}

// === impl Fixture ===

impl Fixture {
    async fn new(speaks: Speaks, believes: bool) -> Self {
        let (life, lines) = (Lifecycle::new(), Lines::default());
        let double = Double { lines: lines.clone(), believes };
        let server = TestServer::start(&life, speaks, move |request| double.clone().answer(request)).await;
        let upstream = server.upstream(&life, &json!({ "token": "of-weir" })).await;
        let (certificate, key) =
            (TestFile::new(&server.authority.client_pem), TestFile::new(&server.authority.client_key_pem));
        let files = FrontProxyFiles {
            certificate: certificate.path.clone(),
            key: key.path.clone(),
            headers: RequestHeaders::default(),
        };
        upstream.be_front_proxy(files, &life, &Reloads::default()).unwrap();
        Self { upstream, lines, _life: life, _server: server }
    }

    /// What was asked beside the question who somebody is.
    fn asked(&self) -> Vec<Line> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|line| !line.path.ends_with("/selfsubjectreviews")).cloned().collect()
    }
}

fn bob() -> RemoteUser {
    RemoteUser::new("bob").unwrap().in_groups(["devs"]).unwrap()
}

fn request(path: &str) -> Request<RequestBody> {
    let request = Request::builder().uri(path).header("authorization", "Bearer of-bob");
    request.header("x-remote-group", "system:masters").body(RequestBody::default()).unwrap()
}

#[tokio::test]
async fn a_verified_user_goes_over_connections_of_the_front_proxy_and_nobody_else_does() {
    for speaks in [Speaks::Http2, Speaks::Http1] {
        let fixture = Fixture::new(speaks, true).await;
        for _ in 0..3 {
            let answer = fixture.upstream.forward_as(&bob(), request("/as-bob"), Affinity(0)).await.unwrap();
            answer.into_body().collect().await.unwrap();
            let answer = fixture.upstream.forward(request("/by-token"), Affinity(0)).await.unwrap();
            answer.into_body().collect().await.unwrap();
        }
        for line in fixture.asked() {
            let is_fronted = line.path == "/as-bob";
            assert_eq!(line.peer.has_certificate, is_fronted, "{line:?}");
            assert_eq!(line.user, if is_fronted { "bob" } else { "Bearer of-bob" });
            if is_fronted {
                assert_eq!(line.headers.get_all("x-remote-group").iter().collect::<Vec<_>>(), ["devs"]);
                assert!(!line.headers.contains_key("authorization"));
            }
        }
        assert_eq!(fixture.asked().len(), 6);
        let lines = fixture.lines.lock().unwrap();
        let proofs: Vec<_> = lines.iter().filter(|line| line.path.ends_with("/selfsubjectreviews")).collect();
        assert_eq!(proofs.len(), 1, "one for the connection that was kept: {proofs:?}");
        assert!(proofs[0].user.starts_with("weir:nobody:"));
    }
}

#[tokio::test]
async fn an_upstream_that_takes_the_certificate_for_a_users_is_sent_nothing() {
    for speaks in [Speaks::Http2, Speaks::Http1] {
        let fixture = Fixture::new(speaks, false).await;
        let refused = fixture.upstream.forward_as(&bob(), request("/as-bob"), Affinity(0)).await.unwrap_err();
        let is_unproved = |error: &ForwardError| {
            matches!(error, ForwardError::Unreachable(ConnectError::NotFrontProxy { .. }))
        };
        assert!(is_unproved(&refused), "{refused:?}");
        let refused = fixture.upstream.upgrade_as(&bob(), request("/exec"), Affinity(0)).await.unwrap_err();
        assert!(is_unproved(&refused), "{refused:?}");
        assert_eq!(fixture.asked(), []);
        fixture.upstream.forward(request("/by-token"), Affinity(0)).await.unwrap();
    }
}

#[tokio::test]
async fn an_upgrade_has_a_connection_of_its_own_that_is_proved_first() {
    let fixture = Fixture::new(Speaks::Http2, true).await;
    let answer = fixture.upstream.upgrade_as(&bob(), request("/exec"), Affinity(0)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let lines = fixture.lines.lock().unwrap();
    let [proof, exec] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((proof.peer, exec.user.as_str()), (exec.peer, "bob"));
    assert!(proof.path.ends_with("/selfsubjectreviews") && exec.peer.has_certificate);
}

#[tokio::test]
async fn who_is_no_front_proxy_passes_no_verified_user_on() {
    let (life, lines) = (Lifecycle::new(), Lines::default());
    let double = Double { lines: lines.clone(), believes: true };
    let server = TestServer::start(&life, Speaks::Http2, move |request| double.clone().answer(request)).await;
    let upstream = server.upstream(&life, &json!({ "token": "of-weir" })).await;
    assert!(!upstream.is_front_proxy());
    upstream.forward_as(&bob(), request("/as-bob"), Affinity(0)).await.unwrap_err();
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_review_about_somebody_is_asked_with_weirs_own_credential() {
    let fixture = Fixture::new(Speaks::Http2, true).await;
    let answer = fixture.upstream.review_subject("{}".into(), Affinity(0)).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"answer"[..]));
    let asked = fixture.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].path, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
    assert_eq!((asked[0].user.as_str(), asked[0].peer.has_certificate), ("Bearer of-weir", false));
}

#[test]
fn a_request_without_a_user_ends_the_process_before_it_is_sent_as_the_front_proxy() {
    let names = RequestHeaders::default();
    let check = |whose: Whose, headers: &HeaderMap| {
        std::panic::catch_unwind(|| whose.check(headers, Some(&names))).is_ok()
    };
    let mut headers = HeaderMap::new();
    assert!(check(Whose::Callers, &headers) && check(Whose::Own, &headers));
    assert!(!check(Whose::Front, &headers));
    headers.insert("x-remote-user", http::HeaderValue::from_static(""));
    assert!(!check(Whose::Front, &headers));
    headers.insert("x-remote-user", http::HeaderValue::from_static("bob"));
    assert!(check(Whose::Front, &headers));
    assert!(std::panic::catch_unwind(|| Whose::Front.check(&headers, None)).is_err());
}
