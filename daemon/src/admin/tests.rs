//! The endpoint over real sockets, and the limits of a connection over pipes and paused time.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

use super::{Admin, AdminError, AdminPort, State, metrics::Metrics, serve};
use crate::{Lifecycle, Readiness, StopCause};

/// For what takes no time when all is well.
const DEADLINE: Duration = Duration::from_secs(20);

struct Running {
    admin: Admin,
    readiness: Readiness,
    lifecycle: Lifecycle,
}

fn start() -> Running {
    let lifecycle = Lifecycle::new();
    let readiness = Readiness::new();
    let port = AdminPort::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let metrics = Metrics::new("test", &lifecycle);
    let admin = Admin::start(port, readiness.clone(), metrics, &lifecycle);
    Running { admin, readiness, lifecycle }
}

fn state() -> State {
    State { readiness: Readiness::new(), metrics: Metrics::new("test", &Lifecycle::new()) }
}

/// The whole answer to a request without a body.
async fn ask(address: SocketAddr, request: &str) -> String {
    let asking = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{request} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    timeout(DEADLINE, asking).await.expect("an answer, and the end of the connection")
}

/// Status and body of the answer.
async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let answer = ask(address, &format!("GET {path}")).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn only_loopback_is_bound_unless_said_otherwise() {
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let refused = AdminPort::bind(everywhere).unwrap_err();
    assert!(matches!(refused, AdminError::NotLoopback(_)), "{refused}");
    assert_ne!(AdminPort::bind_anywhere(everywhere).unwrap().local_address().port(), 0);
}

#[tokio::test]
async fn a_process_that_starts_lives_and_is_not_ready() {
    let Running { admin, readiness, lifecycle: _lifecycle } = start();
    let address = admin.local_address();
    let pods = readiness.condition("mirror pods");
    let nodes = readiness.condition("mirror nodes");
    nodes.set(true);
    assert_eq!(get(address, "/livez").await, (200, "ok".into()));
    assert_eq!(get(address, "/readyz").await, (503, "started\nmirror pods\n".into()));
    let verbose = "[-]started failed\n[-]mirror pods failed\n[+]mirror nodes ok\nreadyz check failed\n";
    assert_eq!(get(address, "/readyz?verbose").await, (503, verbose.into()));
    readiness.started();
    pods.set(true);
    assert_eq!(get(address, "/readyz").await, (200, "ok".into()));
    assert_eq!(get(address, "/readyz?verboser=1").await, (200, "ok".into()));
    let verbose = "[+]started ok\n[+]mirror pods ok\n[+]mirror nodes ok\nreadyz check passed\n";
    assert_eq!(get(address, "/readyz?a=b&verbose=true").await, (200, verbose.into()));
}

#[tokio::test]
async fn metrics_are_openmetrics() {
    let Running { admin, readiness: _readiness, lifecycle: _lifecycle } = start();
    let answer = ask(admin.local_address(), "GET /metrics").await;
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{head}"
    );
    // The one task is the endpoint's own, in the life of the process.
    assert!(page.contains("weir_tasks 1\n") && page.ends_with("# EOF\n"), "{page}");
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let Running { admin, readiness: _readiness, lifecycle: _lifecycle } = start();
    let address = admin.local_address();
    for path in ["/", "/livez/", "/LIVEZ", "/readyz/mirror", "/healthz"] {
        assert_eq!(get(address, path).await, (404, "not found\n".into()), "{path}");
    }
    let refused = ask(address, "POST /livez").await;
    assert!(refused.starts_with("HTTP/1.1 405 ") && refused.contains("allow: GET, HEAD\r\n"), "{refused}");
    let head = ask(address, "HEAD /livez").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("content-length: 2\r\n"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn it_answers_while_the_process_drains_and_ends_last() {
    let Running { admin, readiness, lifecycle } = start();
    let address = admin.local_address();
    readiness.started();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    lifecycle.spawn("drain", async { finished.await.unwrap() });
    lifecycle.stop(StopCause::Asked);
    let mut ready = readiness.changed();
    timeout(DEADLINE, ready.wait_for(|ready| !ready)).await.unwrap().unwrap();
    assert_eq!(get(address, "/readyz").await, (503, "not draining\n".into()));
    assert_eq!(get(address, "/livez").await, (200, "ok".into()));
    finish.send(()).unwrap();
    let stopped = lifecycle.stopped(DEADLINE).await;
    assert!(stopped.left.is_empty() && stopped.cause == StopCause::Asked, "{stopped:?}");
    assert_eq!(get(address, "/livez").await, (200, "ok".into()), "everything else is out");
    admin.end().await;
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn its_fault_is_the_fault_of_the_process() {
    let Running { admin, readiness: _readiness, lifecycle } = start();
    admin.own.spawn("admin connection", async { panic!("on purpose") });
    let stopped = lifecycle.stopped(DEADLINE).await;
    assert_eq!(stopped.cause, StopCause::Ended { task: "admin".into() });
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_a_place() {
    let Running { admin, readiness: _readiness, lifecycle: _lifecycle } = start();
    let address = admin.local_address();
    let mut silent = Vec::new();
    for _ in 0..serve::CONNECTIONS {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let mut waiting = Box::pin(get(address, "/livez"));
    // As many tasks as connections: all places are taken. Then nothing can be read on the next one.
    let full = async {
        while admin.own.len() < serve::CONNECTIONS + 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("answered over the limit: {answer:?}"),
        full = timeout(DEADLINE, full) => full.unwrap(),
    }
    assert_eq!(admin.own.len(), serve::CONNECTIONS + 1);
    silent.pop();
    assert_eq!(waiting.await, (200, "ok".into()));
}

/// What one connection answers to these bytes, when it ends, and after how long.
async fn converse(bytes: &[u8]) -> (String, Duration) {
    let (mut peer, io) = tokio::io::duplex(64 << 10);
    let start = Instant::now();
    let client = async {
        // The connection may end before it has read all.
        let _ = peer.write_all(bytes).await;
        let mut answer = String::new();
        let _ = peer.read_to_string(&mut answer).await;
        answer
    };
    let ((), answer) = tokio::join!(serve::connection(io, state()), client);
    (answer, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_end_is_not_waited_for() {
    for head in ["", "GET /livez HTTP/1.1\r\nhost:"] {
        let (answer, took) = converse(head.as_bytes()).await;
        assert_eq!((answer.as_str(), took), ("", serve::LIMITS.time), "{head:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_large_is_refused() {
    let long = format!("GET /livez HTTP/1.1\r\nlong: {}\r\n\r\n", "x".repeat(serve::LIMITS.head_bytes));
    let many = format!("GET /livez HTTP/1.1\r\n{}\r\n", "many: x\r\n".repeat(serve::LIMITS.headers + 1));
    for head in [long, many] {
        let (answer, _) = converse(head.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_not_waited_for() {
    // The page of metrics is larger than the pipe.
    let (mut peer, io) = tokio::io::duplex(64);
    let start = Instant::now();
    let connection = tokio::join!(serve::connection(io, state()), never_reads(&mut peer));
    assert_eq!((connection.0, start.elapsed()), ((), serve::LIMITS.time));
}

async fn never_reads(peer: &mut (impl AsyncWrite + Unpin)) {
    peer.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
}
