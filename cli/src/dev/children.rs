//! The processes that `weir dev` starts: shard nodes and proxies on loopback, with certificates of a CA made for this run. What
//! dies is started again, at the same address; when `weir dev` ends, in whatever way, they end too, since each of them reads
//! a pipe that it holds.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tracing::{info, warn};
use weir_daemon::Lifecycle;
use weir_daemon::peer::certs;

use crate::process::say;

/// Outside of the ports that systems give to outgoing connections, so that a child that died finds its own free.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
/// How long a child that died stays dead.
const RESTART_AFTER: Duration = Duration::from_millis(200);
/// How long a child may take to end.
const END_LIMIT: Duration = Duration::from_secs(45);

/// How many processes there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Shards of the space.
    pub(crate) shards: u16,
    /// Nodes for each of them.
    pub(crate) replicas: u16,
    /// Processes that clients speak to.
    pub(crate) proxies: u16,
}

/// What all children are told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Where certificates are written.
    pub(crate) directory: PathBuf,
    /// The first proxy's address; port 0 takes a free one.
    pub(crate) listen: SocketAddr,
    /// The kubeconfig for clients of the first proxy; the others' have `.1`, `.2`, … behind the name.
    pub(crate) written: PathBuf,
    /// What every child is told besides: upstream, mirrors, logging.
    pub(crate) common: Vec<String>,
    /// What every shard node is told besides.
    pub(crate) of_shards: Vec<String>,
    /// What every proxy is told besides.
    pub(crate) of_proxies: Vec<String>,
}

/// One child, as it is started again and again.
#[derive(Debug)]
struct Spec {
    /// What it is, as it is shown.
    name: String,
    listen: String,
    admin: SocketAddr,
    arguments: Vec<String>,
    ready: watch::Sender<bool>,
}

/// The children.
#[derive(Debug)]
pub(crate) struct Children {
    specs: Vec<Arc<Spec>>,
    /// Where the first proxy listens.
    pub(crate) address: SocketAddr,
}

// === impl Children ===

impl Children {
    /// Starts all of them; they are tasks of `lifecycle`.
    pub(crate) fn start(shape: Shape, told: &Told, lifecycle: &Lifecycle) -> anyhow::Result<Self> {
        let certificates = told.directory.join("certs");
        certs::write_trial(&certificates, usize::from(shape.shards)).context("make certificates")?;
        let nodes = (0..shape.replicas).flat_map(|_| 0..shape.shards);
        let nodes: Vec<(u16, SocketAddr)> =
            nodes.map(|shard| Ok((shard, free_address()?))).collect::<anyhow::Result<_>>()?;
        let mut named = Vec::new();
        for (shard, address) in &nodes {
            named.extend(["--node".to_owned(), format!("{shard}/{}={address}", shape.shards)]);
        }
        let mut specs = Vec::new();
        for (shard, address) in nodes {
            let shard_of = format!("{shard}/{}", shape.shards);
            let first = ["shard", "--shard", &shard_of, "--listen", &address.to_string()].map(str::to_owned);
            let certificate = format!("shard-{shard}");
            let peers = peers(&certificates, &certificate);
            let arguments = [first.to_vec(), named.clone(), peers, told.of_shards.clone()].concat();
            specs.push(told.spec(format!("shard {shard_of}"), address.to_string(), arguments)?);
        }
        let mut first = None;
        for proxy in 0..shape.proxies {
            let address = match (proxy, told.listen.port()) {
                (0, port) if port != 0 => told.listen,
                _ => free_address()?,
            };
            first = first.or(Some(address));
            let written = told.kubeconfig(proxy).display().to_string();
            let arguments = ["proxy", "--listen", &address.to_string(), "--write-kubeconfig", &written];
            let arguments = arguments.map(str::to_owned).to_vec();
            let peers = peers(&certificates, "proxy");
            let arguments = [arguments, named.clone(), peers, told.of_proxies.clone()].concat();
            specs.push(told.spec("proxy".to_owned(), format!("https://{address}"), arguments)?);
        }
        let specs: Vec<Arc<Spec>> = specs.into_iter().map(Arc::new).collect();
        for spec in &specs {
            let (spec, stop) = (spec.clone(), lifecycle.clone());
            lifecycle.spawn(format!("child {}", spec.name), async move { spec.keep(&stop).await });
        }
        Ok(Self { specs, address: first.context("there is no proxy")? })
    }

    /// Waits until every child has said that it can answer.
    pub(crate) async fn ready(&self) {
        for spec in &self.specs {
            // The sender lives in the spec.
            let _ = spec.ready.subscribe().wait_for(|ready| *ready).await;
        }
    }
}

// === impl Told ===

impl Told {
    fn spec(&self, name: String, listen: String, mut arguments: Vec<String>) -> anyhow::Result<Spec> {
        let admin = free_address()?;
        arguments.extend(["--admin".to_owned(), admin.to_string(), "--until-stdin-ends".to_owned()]);
        arguments.extend(self.common.clone());
        Ok(Spec { name, listen, admin, arguments, ready: watch::Sender::new(false) })
    }

    fn kubeconfig(&self, proxy: u16) -> PathBuf {
        let mut name = self.written.clone().into_os_string();
        if proxy > 0 {
            name.push(format!(".{proxy}"));
        }
        name.into()
    }
}

// === impl Spec ===

impl Spec {
    /// Keeps the child running until the process stops, and then waits for its end.
    async fn keep(&self, lifecycle: &Lifecycle) {
        let stop = lifecycle.token();
        while !stop.is_cancelled() {
            match self.spawn() {
                Ok(child) => self.attend(child, lifecycle).await,
                Err(error) => warn!(child = %self.name, %error, "cannot start a child"),
            }
            // Told to stop or not: the loop looks.
            let _ = stop.run_until_cancelled(tokio::time::sleep(RESTART_AFTER)).await;
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        command.spawn()
    }

    /// Follows one life of the child.
    async fn attend(&self, mut child: Child, lifecycle: &Lifecycle) {
        let Self { name, listen, admin, .. } = self;
        say(&format!("child: {name} pid {} listen {listen} admin {admin}", child.id().unwrap_or_default()));
        // The pipe that ends the child when this process ends.
        let stdin = child.stdin.take();
        let lines = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
        let told = async {
            let Some(mut lines) = lines else { return };
            while let Ok(Some(line)) = lines.next_line().await {
                if line.starts_with("ready: ") {
                    self.ready.send_replace(true);
                }
            }
        };
        let ended = async { tokio::join!(child.wait(), told).0 };
        if let Some(ended) = lifecycle.token().run_until_cancelled(ended).await {
            warn!(child = %name, ?ended, "a child has ended, starting it again");
            self.ready.send_replace(false);
            return;
        }
        drop(stdin);
        match tokio::time::timeout(END_LIMIT, child.wait()).await {
            Ok(ended) => info!(child = %name, ?ended, "child ended"),
            Err(_) => warn!(child = %name, "a child does not end, killing it"),
        }
    }
}

fn peers(certificates: &Path, name: &str) -> Vec<String> {
    let file = |name: &str| certificates.join(name).display().to_string();
    let (certificate, key) = (file(&format!("{name}.crt")), file(&format!("{name}.key")));
    [
        ["--peer-ca".to_owned(), file("ca.crt")],
        ["--peer-cert".to_owned(), certificate],
        ["--peer-key".to_owned(), key],
    ]
    .concat()
}

/// An address of loopback that nobody listens on.
fn free_address() -> anyhow::Result<SocketAddr> {
    for _ in 0..1_000 {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, rand::random_range(PORTS)));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    anyhow::bail!("no free port between {} and {}", PORTS.start, PORTS.end)
}
