//! What of a request for an upgrade reaches upstream, and what an answer other than the one that was asked for leaves behind.

use weir_daemon::Lifecycle;

use super::scripted::{RawClient, Scripted, front, within};

const UPGRADED: &str = concat!(
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n",
    "X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n",
);

const OPENED: &str = concat!(
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n",
);

/// An exec that asks for an upgrade with these lines.
fn exec(lines: &str) -> String {
    format!("GET /api/v1/namespaces/a/pods/b/exec?command=sh HTTP/1.1\r\nHost: weir\r\n{lines}\r\n")
}

/// The head that upstream gets of a request with these lines, and the head of the answer to it.
async fn sent(lines: &str, answer: &'static str) -> (String, String) {
    let life = Lifecycle::new();
    let (upstream, mut heads) = Scripted::raw(&life, answer).await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    client.write(&exec(lines)).await;
    let answer = client.head().await;
    (within(heads.recv()).await.unwrap(), answer)
}

/// The values of a header in their order.
fn values<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[tokio::test]
async fn ug02_repeated_protocol_headers_reach_upstream_line_by_line() {
    let four = ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"];
    let lines: String = four.iter().map(|one| format!("X-Stream-Protocol-Version: {one}\r\n")).collect();
    let (seen, answer) =
        sent(&format!("Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n{lines}"), UPGRADED).await;
    assert_eq!(values(&seen, "x-stream-protocol-version"), four, "{seen}");
    assert_eq!(values(&answer, "x-stream-protocol-version"), ["v4.channel.k8s.io"], "{answer}");

    let list = "v5.channel.k8s.io,v4.channel.k8s.io ,  v3.channel.k8s.io";
    let lines = format!(
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {list}\r\n\
         Sec-WebSocket-Protocol: channel.k8s.io\r\nSec-WebSocket-Extensions: permessage-deflate; x=\"a,b\"\r\n"
    );
    let (seen, answer) = sent(&lines, OPENED).await;
    assert_eq!(values(&seen, "sec-websocket-protocol"), [list, "channel.k8s.io"], "{seen}");
    assert_eq!(values(&seen, "sec-websocket-extensions"), [r#"permessage-deflate; x="a,b""#]);
    assert_eq!(values(&answer, "sec-websocket-accept"), ["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]);
}

#[tokio::test]
async fn ug03_an_upgrade_is_made_anew_on_the_way_and_nothing_else_of_the_connection_goes_on() {
    for lines in [
        "connection: keep-alive, Upgrade\r\nupgrade: SPDY/3.1\r\n",
        "CONNECTION: upgrade\r\nUPGRADE: spdy/3.1\r\n",
        "Connection: X-Hop\r\nConnection: UPGRADE\r\nUpgrade: SPDY/3.1\r\nX-Hop: 1\r\n",
    ] {
        let lines = format!("{lines}Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nTE: gzip\r\n");
        let (seen, answer) = sent(&lines, UPGRADED).await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert_eq!(values(&seen, "connection"), ["Upgrade"], "{seen}");
        assert!(values(&seen, "upgrade")[0].eq_ignore_ascii_case("SPDY/3.1"), "{seen}");
        for name in ["keep-alive", "proxy-connection", "te", "x-hop"] {
            assert_eq!(values(&seen, name), [""; 0], "{seen}");
        }
        assert_eq!(values(&answer, "upgrade"), ["SPDY/3.1"]);
    }
}

#[tokio::test]
async fn au03_behind_a_refused_upgrade_no_byte_goes_the_same_way() {
    let refused = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno";
    let life = Lifecycle::new();
    let (upstream, mut seen) = Scripted::recording(&life, refused).await;
    let address = front(&life, vec![upstream.url.clone()]).await;
    let mut client = RawClient::connect(address).await;
    let asked = exec("Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nAuthorization: Bearer one\r\n");
    let next = "GET /api/v1/secrets HTTP/1.1\r\nHost: weir\r\nX-Remote-User: admin\r\nAuthorization: Bearer two\r\n\r\n";
    // At once, as if the tunnel were open.
    client.write(&format!("{asked}{next}")).await;
    assert!(client.head().await.starts_with("HTTP/1.1 403 Forbidden\r\n"));
    assert_eq!(client.until("no").await, "no");
    let (head, rest) = within(seen.recv()).await.unwrap();
    assert!(head.contains("/exec?") && head.contains("authorization: Bearer one"), "{head}");
    assert_eq!(rest, "", "the connection ends with the refusal");

    assert!(client.head().await.starts_with("HTTP/1.1 403 Forbidden\r\n"), "it was a request like any other");
    assert_eq!(upstream.requests(), 2, "on a connection of its own");
}

#[tokio::test]
async fn au03_only_what_upstream_speaks_is_asked_for_and_only_what_was_asked_for_is_opened() {
    let plain = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    for other in ["h2c", "TLS/1.0", "websocket, h2c", "tcp"] {
        let (seen, answer) = sent(&format!("Connection: Upgrade\r\nUpgrade: {other}\r\n"), plain).await;
        assert_eq!((values(&seen, "upgrade"), values(&seen, "connection")), (vec![], vec![]), "{seen}");
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    let (_, answer) = sent("Connection: Upgrade\r\nUpgrade: websocket\r\n", UPGRADED).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

/// weir passes every upgrade on, so that upstream judges the token, and takes it out of what it chooses from.
#[tokio::test]
async fn au15_a_token_among_the_protocols_of_a_websocket_goes_to_upstream_as_it_is() {
    let token = "base64url.bearer.authorization.k8s.io.b2YtY2xpZW50";
    for protocols in [
        format!("Sec-WebSocket-Protocol: {token}, v4.channel.k8s.io\r\n"),
        format!("Sec-WebSocket-Protocol: v4.channel.k8s.io\r\nSec-WebSocket-Protocol: {token}\r\n"),
        format!("Sec-WebSocket-Protocol: {token},{token}\r\n"),
        "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.*\r\n".to_owned(),
    ] {
        let lines = format!("Connection: Upgrade\r\nUpgrade: websocket\r\n{protocols}");
        let (seen, answer) = sent(&lines, OPENED).await;
        let given: Vec<_> = protocols.lines().filter_map(|line| Some(line.split_once(": ")?.1)).collect();
        assert_eq!(values(&seen, "sec-websocket-protocol"), given, "{seen}");
        assert_eq!(values(&seen, "authorization"), [""; 0], "weir makes no credential of it");
        assert_eq!(values(&answer, "sec-websocket-protocol"), ["v4.channel.k8s.io"], "{answer}");
        assert!(!answer.contains(token));
    }
}
