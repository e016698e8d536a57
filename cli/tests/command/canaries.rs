//! What nobody must find in logs, metrics, audit events, errors or on a disk: tokens, keys, and what is in objects. Processes
//! are run at the most talkative level with values that occur nowhere else, and everything that they leave is searched.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use rustix::process::Signal;
use weir_daemon::tls::ServerTls;
use weir_daemon::{Lifecycle, StopCause};
use weir_sim::{Handle, Listen, Node, Op, Right, Sim, SimConfig, User};
use weir_upstream::{Origin, Role, Upstream, UpstreamOptions};

use crate::dev::{LIMIT, Running};

/// Weir's own token, those of clients, and what is in objects.
const OWN: &str = "canary-own-token";
const READER: &str = "canary-reader-token";
const UNKNOWN: &str = "canary-unknown-token";
const KEPT: &str = "canary-kept-body";
const WRITTEN: &str = "canary-written-body";

/// An apiserver in this process, and the kubeconfig of weir's own identity there.
struct Cluster {
    _handle: Handle,
    url: String,
    directory: PathBuf,
}

// === impl Cluster ===

impl Cluster {
    async fn start(name: &str) -> Self {
        let reader = Right::new(&["get", "list", "watch", "create"], "", &["configmaps", "secrets"]);
        let users = vec![
            (OWN.to_owned(), User::admin("weir")),
            (READER.to_owned(), User::named("reader").may(reader)),
        ];
        let sim = Sim::new(SimConfig { users, ..SimConfig::default() });
        for resource in ["configmaps", "secrets"] {
            let resource = sim.resource(resource).unwrap();
            let body = format!(r#"{{"metadata":{{"name":"kept"}},"data":{{"value":"{KEPT}"}}}}"#);
            let body = Node::parse(body.as_bytes()).unwrap();
            sim.apply(Op::Create { resource, namespace: Some("default".to_owned()), body }).unwrap();
        }
        let tls = ServerTls::self_made().unwrap();
        let listen = Listen { listener: None, tls: Some(Arc::clone(&tls.config)) };
        let handle = sim.serve(0, listen).await.unwrap();
        let directory = std::env::temp_dir().join(format!("weir-canaries-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("ca.crt"), tls.ca_pem.unwrap()).unwrap();
        let url = format!("https://{}", handle.addr());
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: \"{url}\", certificate-authority: {:?}}}}}]\n\
             users: [{{name: u, user: {{token: {OWN}}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n",
            directory.join("ca.crt")
        );
        std::fs::write(directory.join("kubeconfig"), kubeconfig).unwrap();
        Self { _handle: handle, url, directory }
    }

    fn kubeconfig(&self) -> String {
        self.directory.join("kubeconfig").display().to_string()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

/// A client of a process with a token of its own.
struct Client {
    weir: Upstream,
    lifecycle: Lifecycle,
}

// === impl Client ===

impl Client {
    async fn of(running: &Running, token: &str) -> Self {
        let text = std::fs::read_to_string(running.directory.join("kubeconfig")).unwrap();
        let path = running.directory.join(format!("kubeconfig-{token}"));
        std::fs::write(&path, text.replace(OWN, token)).unwrap();
        let (lifecycle, origin) = (Lifecycle::new(), Origin::Kubeconfig { path: Some(path), context: None });
        let weir = Upstream::load(UpstreamOptions { origin, urls: Vec::new() }, &lifecycle).await.unwrap();
        Self { weir, lifecycle }
    }

    /// The code of an answer, and its body.
    async fn ask(&self, method: Method, path: &str, body: &str) -> (u16, String) {
        let connection = self.weir.instances()[0].connect(Role::Feed).await.unwrap();
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(Bytes::from(body.to_owned())).unwrap();
        let answer = tokio::time::timeout(LIMIT, connection.send(request)).await.unwrap().unwrap();
        let code = answer.status().as_u16();
        let body = tokio::time::timeout(LIMIT, answer.into_body().collect()).await.unwrap();
        (code, String::from_utf8_lossy(&body.unwrap().to_bytes()).into_owned())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.lifecycle.stop(StopCause::Asked);
    }
}

/// What clients do who may, and who may not, and what goes wrong. Only those who may see what is in an object.
async fn visit(running: &Running) {
    let reader = Client::of(running, READER).await;
    for resource in ["configmaps", "secrets"] {
        let all = format!("/api/v1/namespaces/default/{resource}");
        for path in [
            format!("{all}?resourceVersion=0"),
            format!("{all}?watch=1&resourceVersion=0&timeoutSeconds=1"),
            format!("{all}/kept"),
        ] {
            let (code, body) = reader.ask(Method::GET, &path, "").await;
            assert!(code == 200 && body.contains(KEPT), "{path}: {code} {body}");
        }
        let made = format!(r#"{{"metadata":{{"name":"made"}},"data":{{"value":"{WRITTEN}"}}}}"#);
        assert_eq!(reader.ask(Method::POST, &all, &made).await.0, 201);
    }
    for path in
        ["/api/v1/configmaps?limit=no", "/api/v1/pods", "/nope", "/api/v1/configmaps?shardSelector=no"]
    {
        let (code, body) = reader.ask(Method::GET, path, "").await;
        assert!(code >= 400 && !body.contains("canary"), "{path}: {code} {body}");
    }
    let unknown = Client::of(running, UNKNOWN).await;
    let (code, body) = unknown.ask(Method::GET, "/api/v1/secrets?resourceVersion=0", "").await;
    assert!(code == 401 && !body.contains("canary"), "{code} {body}");
}

/// Every file below a directory but kubeconfigs, which are there to hold a token.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            files(&path, found);
        } else if !name.contains("kubeconfig") {
            found.push(path);
        }
    }
}

/// Nothing that a process has left holds any of these.
fn search(running: &Running, canaries: &[String]) {
    let mut found = Vec::new();
    files(&running.directory, &mut found);
    assert!(found.iter().any(|path| path.ends_with("log")), "{found:?}");
    for path in found.iter().filter(|path| path.extension().is_none_or(|end| end != "key")) {
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        for canary in canaries {
            let line = text.lines().find(|line| line.contains(canary.as_str()));
            assert!(line.is_none(), "{canary} in {}: {line:?}", path.display());
        }
    }
}

/// Every token and body, and the keys in files below a directory.
fn canaries(running: &Running) -> Vec<String> {
    let mut canaries: Vec<_> = [OWN, READER, UNKNOWN, KEPT, WRITTEN].map(str::to_owned).into();
    let mut found = Vec::new();
    files(&running.directory, &mut found);
    for key in found.iter().filter(|path| path.extension().is_some_and(|end| end == "key")) {
        let text = std::fs::read_to_string(key).unwrap();
        canaries.extend(text.lines().filter(|line| line.len() > 32).map(|line| line[8..40].to_owned()));
    }
    canaries
}

fn metrics(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: weir\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn log(running: &Running) -> String {
    std::fs::read_to_string(running.directory.join("log")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_process_leaves_nothing_of_what_it_holds() {
    let cluster = Cluster::start("serve").await;
    let (kubeconfig, audit) = (cluster.kubeconfig(), cluster.directory.join("audit.log"));
    let more = [
        "--kubeconfig",
        &kubeconfig,
        "--mirror",
        "configmaps,secrets",
        "--drain",
        "1s",
        "--admin",
        "127.0.0.1:0",
        "--audit",
        "*",
        "--audit-log-path",
        audit.to_str().unwrap(),
    ];
    let mut running = Running::run("serve", "canaries", &more);
    let operators = running.line();
    running.ready();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", running.child.id())).unwrap();
    let cores = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(cores.split_ascii_whitespace().nth(4), Some("0"), "{cores}");
    visit(&running).await;
    let told = metrics(operators.strip_prefix("admin: http://").unwrap().trim_end());
    assert!(told.contains("weir_decisions_total") && !told.contains("canary"), "{told}");
    running.tell(Signal::TERM);
    running.ended();
    let log = log(&running);
    assert!(log.contains("TRACE"), "the log is as talkative as it can be");
    search(&running, &canaries(&running));
    let events = std::fs::read_to_string(audit).unwrap();
    assert!(events.lines().count() >= 4 && !events.contains("canary"), "{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_and_proxies_leave_nothing_of_what_they_hold_and_say() {
    let cluster = Cluster::start("processes").await;
    let kubeconfig = cluster.kubeconfig();
    let more = [
        "--kubeconfig",
        &kubeconfig,
        "--upstream",
        &cluster.url,
        "--mirror",
        "configmaps,secrets",
        "--drain",
        "1s",
        "--shards",
        "1",
        "--replicas",
        "1",
        "--proxies",
        "1",
    ];
    let mut running = Running::run("dev", "canaries-processes", &more);
    while !running.line().starts_with("ready: ") {}
    let canaries = canaries(&running);
    assert!(canaries.len() > 5, "the keys of the processes are among them");
    visit(&running).await;
    search(&running, &canaries);
    running.tell(Signal::TERM);
    running.ended();
    assert!(log(&running).contains("TRACE"));
    search(&running, &canaries);
}
