//! Every kind of user that a kubeconfig can name, judged by what a server saw.

use bytes::Bytes;
use http::{Request, header};
use serde_json::json;
use weir_daemon::Lifecycle;

use crate::{
    Affinity, FailureKind, LoadError, Origin, RequestBody, Role, Upstream, UpstreamOptions,
    testing::{Peer, Speaks, TestFile, TestServer, infallible, kubeconfig, text},
};

/// Answers with what identifies the caller.
async fn mirror(life: &Lifecycle, speaks: Speaks) -> TestServer {
    TestServer::start(life, speaks, |request| async move {
        let header = |name: &str| {
            let values = request.headers().get_all(name).iter();
            values.map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(",")
        };
        let peer = request.extensions().get::<Peer>().unwrap();
        Ok(text(format!(
            "{}|{}|{}|{}",
            header("authorization"),
            header("impersonate-user"),
            header("impersonate-group"),
            peer.has_certificate
        )))
    })
    .await
}

async fn seen(upstream: &Upstream) -> String {
    let connection = upstream.instances()[0].connect(Role::Feed).await.unwrap();
    let response = connection.send(Request::new(Bytes::new())).await.unwrap();
    read(response.into_body()).await
}

async fn seen_forwarded(upstream: &Upstream) -> String {
    let body = http_body_util::Empty::new();
    let request = Request::new(RequestBody::new(http_body_util::BodyExt::map_err(body, infallible)));
    read(upstream.forward(request, Affinity(0)).await.unwrap().into_body()).await
}

async fn read<B>(body: B) -> String
where
    B: hyper::body::Body<Data = Bytes>,
    B::Error: std::fmt::Debug,
{
    let bytes = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn every_kind_of_user_is_shown_to_upstream_and_none_on_what_is_passed_on() {
    let life = Lifecycle::new();
    let server = mirror(&life, Speaks::Http2).await;
    let plugin = r#"echo '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"made"}}'"#;
    let token_file = TestFile::new("from-file\n");
    let cases = [
        (json!({}), "|||false"),
        (json!({"token": "abc"}), "Bearer abc|||false"),
        (json!({"token": "old", "tokenFile": token_file.path}), "Bearer from-file|||false"),
        (json!({"username": "bob", "password": "secret"}), "Basic Ym9iOnNlY3JldA==|||false"),
        (
            json!({"exec": {
                "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", plugin],
                "interactiveMode": "Never",
            }}),
            "Bearer made|||false",
        ),
        (json!({"token": "abc", "as": "jane", "as-groups": ["a", "b"]}), "Bearer abc|jane|a,b|false"),
    ];
    for (user, expected) in cases {
        let upstream = server.upstream(&life, &user).await;
        assert_eq!(seen(&upstream).await, expected, "{user}");
        assert_eq!(seen_forwarded(&upstream).await, "|||false", "{user}");
        assert!(!upstream.has_client_certificate());
    }
}

#[tokio::test]
async fn a_client_certificate_is_shown_on_own_connections_only() {
    let life = Lifecycle::new();
    for speaks in [Speaks::Http2, Speaks::Http1] {
        let server = mirror(&life, speaks).await;
        let certificate = TestFile::new(&server.authority.client_pem);
        let key = TestFile::new(&server.authority.client_key_pem);
        let user = json!({"client-certificate": certificate.path, "client-key": key.path});
        let upstream = server.upstream(&life, &user).await;
        assert!(upstream.has_client_certificate());
        assert_eq!(seen(&upstream).await, "|||true");
        assert_eq!(seen_forwarded(&upstream).await, "|||false");
        let refused = upstream.export_kubeconfig("https://127.0.0.1:1", None).unwrap_err();
        assert!(refused.to_string().contains("client certificate"));
    }
}

#[tokio::test]
async fn on_a_401_credentials_are_read_again_and_the_request_is_sent_once_more() {
    let life = Lifecycle::new();
    let server = TestServer::start(&life, Speaks::Http2, |request| async move {
        let mut response = text("in");
        if request.headers()[header::AUTHORIZATION] != "Bearer new" {
            *response.status_mut() = http::StatusCode::UNAUTHORIZED;
        }
        Ok(response)
    })
    .await;
    let token = TestFile::new("old");
    let file = TestFile::new(&server.kubeconfig(&json!({"tokenFile": token.path})));
    let origin = Origin::Kubeconfig { path: Some(file.path.clone()), context: None };
    let upstream = Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, &life).await.unwrap();
    let connection = upstream.instances()[0].connect(Role::Feed).await.unwrap();

    std::fs::write(&token.path, "new").unwrap();
    let response = connection.send(Request::new(Bytes::new())).await.unwrap();
    assert_eq!(response.status(), 200);

    std::fs::write(&token.path, "newer").unwrap();
    assert_eq!(
        connection.send(Request::new(Bytes::new())).await.unwrap().status(),
        200,
        "no needless reading"
    );
}

#[tokio::test]
async fn the_trust_of_the_kubeconfig_is_kept_on_both_ways() {
    let life = Lifecycle::new();
    let server = mirror(&life, Speaks::Http2).await;
    let load = async |cluster: serde_json::Value| {
        let file = TestFile::new(&kubeconfig(&cluster, &json!({})));
        let origin = Origin::Kubeconfig { path: Some(file.path.clone()), context: None };
        Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, &life).await.unwrap()
    };
    let ca = TestFile::new(&server.authority.ca_pem);
    let other_ca = TestFile::new(&crate::testing::Authority::new(&[]).ca_pem);
    let url = server.url().to_string();

    let trusted = load(json!({"server": url, "certificate-authority": ca.path})).await;
    assert_eq!(seen(&trusted).await, "|||false");
    let skipped = load(json!({"server": url, "insecure-skip-tls-verify": true})).await;
    assert_eq!(
        (seen(&skipped).await.as_str(), seen_forwarded(&skipped).await.as_str()),
        ("|||false", "|||false")
    );
    for wrong in [
        json!({"server": url, "certificate-authority": other_ca.path}),
        json!({"server": url, "certificate-authority": ca.path, "tls-server-name": "other.example"}),
    ] {
        let wrong = load(wrong).await;
        let error = wrong.instances()[0].connect(Role::Feed).await.unwrap_err();
        assert_eq!(error.kind(), FailureKind::Tls, "{error}");
        let request = Request::new(RequestBody::default());
        assert_eq!(wrong.forward(request, Affinity(0)).await.unwrap_err().kind(), FailureKind::Tls);
    }
}

#[tokio::test]
async fn what_cannot_be_honoured_is_refused_with_a_clear_sentence() {
    let life = Lifecycle::new();
    let cases = [
        (
            json!({"server": "https://127.0.0.1:1", "proxy-url": "http://127.0.0.1:2"}),
            json!({}),
            "the kubeconfig names a proxy-url, which weir does not support: name the apiserver with --upstream",
        ),
        (
            json!({"server": "https://127.0.0.1:1"}),
            json!({"tokenFile": "/nonexistent/token"}),
            "cannot read the token file /nonexistent/token",
        ),
        (
            json!({"server": "https://127.0.0.1:1"}),
            json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nonexistent/plugin"}}),
            "cannot use the credentials of the kubeconfig",
        ),
        (
            json!({"server": "127.0.0.1:1"}),
            json!({}),
            "127.0.0.1:1 is no upstream: an upstream is written https://HOST[:PORT][/PATH]",
        ),
    ];
    for (cluster, user, expected) in cases {
        let file = TestFile::new(&kubeconfig(&cluster, &user));
        let origin = Origin::Kubeconfig { path: Some(file.path.clone()), context: None };
        let options = UpstreamOptions { origin, urls: Vec::new() };
        assert_eq!(Upstream::load(options, &life).await.unwrap_err().to_string(), expected);
    }
    let origin = Origin::Kubeconfig { path: Some("/nonexistent/config".into()), context: None };
    let error = Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, &life).await.unwrap_err();
    assert!(matches!(error, LoadError::Kubeconfig { .. }));
    assert_eq!(error.to_string(), "cannot use the kubeconfig /nonexistent/config");
}

#[tokio::test]
async fn an_exported_kubeconfig_leads_the_same_user_to_another_server() {
    let life = Lifecycle::new();
    let server = mirror(&life, Speaks::Http2).await;
    let upstream = server.upstream(&life, &json!({"token": "abc"})).await;
    let text = upstream.export_kubeconfig(&server.url().to_string(), Some(&server.authority.ca_pem)).unwrap();
    let file = TestFile::new(&text);
    let origin = Origin::Kubeconfig { path: Some(file.path.clone()), context: Some("weir".to_owned()) };
    let again = Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, &life).await.unwrap();
    assert_eq!(seen(&again).await, "Bearer abc|||false");
}
