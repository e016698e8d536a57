//! SIGTERM under load: `weir dev` says that it is not ready, ends watches one after the other where their clients can go on,
//! lets a list finish, and takes a second signal at its word.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use rustix::process::Signal;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weir_daemon::{Lifecycle, StopCause};
use weir_upstream::{Connection, Origin, Role, Upstream, UpstreamOptions};

use crate::dev::{LIMIT, Running};

/// Clients of a process, as its kubeconfig says.
struct Clients {
    weir: Upstream,
    lifecycle: Lifecycle,
}

/// What a watch was sent, to its end.
struct Watched {
    path: &'static str,
    lines: Vec<Value>,
    ended: Instant,
}

// === impl Clients ===

impl Clients {
    async fn of(running: &Running) -> Self {
        let lifecycle = Lifecycle::new();
        let origin = Origin::Kubeconfig { path: Some(running.directory.join("kubeconfig")), context: None };
        let weir = Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, &lifecycle).await.unwrap();
        Self { weir, lifecycle }
    }

    async fn connect(&self) -> Option<Connection> {
        self.weir.instances()[0].connect(Role::Feed).await.ok()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.lifecycle.stop(StopCause::Asked);
    }
}

/// The body of an answer, which `by` has given.
async fn ask(connection: &Connection, path: &str, by: &str) -> Incoming {
    let answer = connection.send(Request::get(path).body(Bytes::new()).unwrap()).await.unwrap();
    let answered = answer.headers()["weir-answered-by"].to_str().unwrap();
    assert!(answer.status() == 200 && answered.starts_with(by), "{path}: {} {answered}", answer.status());
    answer.into_body()
}

async fn json(body: Incoming) -> Value {
    serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap()
}

/// Reads a watch to its end, which has to be a clean one, and says when the first event is there.
async fn watch(mut body: Incoming, path: &'static str, first: mpsc::Sender<()>) -> Watched {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        text.extend_from_slice(frame.unwrap().data_ref().unwrap());
        let _ = first.try_send(());
    }
    assert_eq!(text.last(), Some(&b'\n'), "{path}: an event is cut");
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    Watched { path, lines, ended: Instant::now() }
}

/// Code and body of an answer on the admin port.
fn admin(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: weir\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}: not in time");
        tick.tick().await;
    }
}

fn revision(event: &Value) -> u64 {
    event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

const PODS: &str = "/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=";
const PODS_WITHOUT: &str = "/api/v1/pods?watch=1&resourceVersion=";
const PASSED: &str = "/apis/metering.weir.test/v1/gauges?watch=1&resourceVersion=";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_end_one_after_the_other_where_their_clients_can_go_on() {
    let more = ["--pods", "40", "--mirror", "pods", "--changes", "50", "--drain", "5s"];
    let mut running = Running::start("drain", &more);
    running.ready();
    let clients = Clients::of(&running).await;
    let connection = clients.connect().await.unwrap();
    let list = json(ask(&connection, "/api/v1/pods?resourceVersion=0", "mirror").await).await;
    let at = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watches = JoinSet::new();
    for (path, count, by) in [(PODS, 40, "mirror"), (PODS_WITHOUT, 5, "mirror"), (PASSED, 5, "passed; ")] {
        for _ in 0..count {
            let body = ask(&connection, &format!("{path}{at}"), by).await;
            let (first, mut has_first) = mpsc::channel(1);
            watches.spawn(watch(body, path, first));
            tokio::time::timeout(LIMIT, has_first.recv()).await.unwrap().unwrap();
        }
    }
    running.tell(Signal::TERM);
    let watched = tokio::time::timeout(LIMIT, watches.join_all()).await.unwrap();
    for Watched { path, lines, .. } in &watched {
        assert!(lines.is_sorted_by_key(revision), "{path}");
        let bookmarks = lines.iter().filter(|event| event["type"] == "BOOKMARK").count();
        let is_last = lines.last().unwrap()["type"] == "BOOKMARK";
        assert_eq!((bookmarks > 0, is_last), (*path == PODS, *path == PODS), "{path}: {bookmarks} bookmarks");
        assert!(lines.iter().all(|event| event["type"] != "ERROR"), "{path}");
    }
    // All 40 within one of 4.5 seconds, or within a second by chance: 1 in 10^24.
    let ends = || watched.iter().filter(|watched| watched.path == PODS).map(|watched| watched.ended);
    let spread = ends().max().unwrap() - ends().min().unwrap();
    assert!(spread > Duration::from_secs(1), "all ended within {spread:?}");
    drop((connection, clients));
    let (status, _) = running.ended();
    let log = std::fs::read_to_string(running.directory.join("log")).unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("draining") && !log.contains("did not stop in time"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_drains_is_alive_and_not_ready_and_a_second_signal_ends_it_at_once() {
    let more = ["--pods", "40", "--mirror", "pods", "--drain", "1h", "--admin", "127.0.0.1:0"];
    let mut running = Running::start("second", &more);
    let line = running.line();
    let operators = line.strip_prefix("admin: http://").unwrap().trim_end();
    running.ready();
    assert_eq!(admin(operators, "/readyz").0, 200);
    let clients = Clients::of(&running).await;
    let connection = clients.connect().await.unwrap();
    let _watch = ask(&connection, "/api/v1/pods?watch=1&resourceVersion=0", "mirror").await;
    running.tell(Signal::TERM);
    until("not ready", async || admin(operators, "/readyz") == (503, "not draining\n".to_owned())).await;
    assert_eq!(admin(operators, "/livez").0, 200);
    let list = || Request::get("/api/v1/pods?resourceVersion=0").body(Bytes::new()).unwrap();
    until("the old connection takes no request", async || connection.send(list()).await.is_err()).await;
    let other = clients.connect().await.expect("whoever has not noticed yet is let in");
    assert!(json(ask(&other, "/api/v1/pods?resourceVersion=0", "mirror").await).await["items"].is_array());
    assert!(running.child.try_wait().unwrap().is_none());
    running.tell(Signal::TERM);
    let (status, _) = running.ended();
    let log = std::fs::read_to_string(running.directory.join("log")).unwrap();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("told again"), "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_in_flight_finishes_while_nobody_is_let_in_any_more() {
    const DRAIN: Duration = Duration::from_secs(30);
    let more = ["--pods", "3000", "--mirror", "pods", "--changes", "1", "--drain", "30s"];
    let mut running = Running::start("list", &more);
    let address = running.ready();
    let clients = Clients::of(&running).await;
    let connection = clients.connect().await.unwrap();
    // More than the client and the sockets between hold unread.
    let body = ask(&connection, "/api/v1/pods?resourceVersion=0", "mirror").await;
    running.tell(Signal::TERM);
    let told = Instant::now();
    until("nobody is let in", async || TcpStream::connect(&address).is_err()).await;
    assert!(running.child.try_wait().unwrap().is_none(), "it waits for the list");
    let body = body.collect().await.unwrap().to_bytes();
    assert!(body.len() > 4 << 20, "{} bytes are no long list", body.len());
    let list: Value = serde_json::from_slice(&body).unwrap();
    assert!(list["items"].as_array().unwrap().len() > 2_000);
    let (status, _) = running.ended();
    assert_eq!(status.code(), Some(0));
    assert!(told.elapsed() < DRAIN, "nobody else was there, and it went on for {:?}", told.elapsed());
}
