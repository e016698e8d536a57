//! The whole of weir as `weir serve` builds it, in front of a simulated apiserver: TLS and HTTP/2 on both sides, over
//! loopback, in this process. Clients belong into another process, or their memory would be counted as weir's.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::Uri;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use weir_core::policy::MirrorPolicy;
use weir_core::{GroupResource, GroupVersionResource, ResourceVersion, WindowBounds};
use weir_daemon::tls::ServerTls;
use weir_daemon::{Lifecycle, Listener, SocketOptions};
use weir_proxy::auth::Authorizer;
use weir_proxy::drain::Drain;
use weir_proxy::http::answer::Proxy;
use weir_proxy::http::server::Server;
use weir_proxy::mirror::Mirror;
use weir_proxy::mirror::registry::{Backing, Mirrors, State};
use weir_proxy::passthrough::Passthrough;
use weir_sim::{ClusterConfig, Handle, Listen, Node, Op, ResourceId, Sim, SimConfig, StoreKey};
use weir_upstream::{Origin, Upstream, UpstreamOptions};

/// The token of the one user that the simulated apiserver knows.
pub const TOKEN: &str = "admin";
/// Where all objects are.
const NAMESPACE: &str = "default";
/// weir's default.
const SHARDS: usize = 4;
/// Loading takes a second or two; beyond this something is wrong.
const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// weir over a collection of config maps.
pub struct Served {
    /// Upstream.
    pub sim: Sim,
    /// The mirror of the config maps.
    pub mirror: Arc<Mirror>,
    /// Where clients connect.
    pub address: SocketAddr,
    /// The CA that clients trust.
    pub ca_file: PathBuf,
    /// Its tasks.
    pub lifecycle: Lifecycle,
    resource: ResourceId,
    _upstream: Handle,
    _files: Files,
}

/// What the collection looks like.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    /// How many objects.
    pub objects: usize,
    /// Bytes of data of each.
    pub data_bytes: usize,
}

/// A directory that goes with the process.
struct Files(PathBuf);

// === impl Served ===

impl Served {
    /// Fills upstream, starts weir in front of it and waits for the mirror.
    pub async fn start(collection: Collection) -> Result<Self> {
        let lifecycle = Lifecycle::new();
        let (sim, resource) = filled(collection)?;
        let files = Files::new()?;
        let (handle, upstream) = upstream(&sim, &files, &lifecycle).await?;
        let policy = MirrorPolicy { named: [GroupResource::parse("configmaps")].into() };
        let backing = Backing::Local { shards: SHARDS, bounds: WindowBounds::default() };
        let mirrors = Arc::new(Mirrors::new(upstream.clone(), lifecycle.clone(), (policy, backing)));
        tokio::time::timeout(LOAD_LIMIT, mirrors.start_named()).await.context("load the mirror")??;
        let state = mirrors.state(&GroupVersionResource::new("", "v1", "configmaps")).context("no mirror")?;
        let State::Ready(mirror) = state.borrow().clone() else { bail!("the mirror is not ready") };
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), SocketOptions::default())?;
        let (address, tls) = (listener.local_address(), ServerTls::self_made()?);
        let ca_file = files.write("weir-ca.pem", &tls.ca_pem.context("a CA of its own")?)?;
        let passthrough = Passthrough::new(upstream.clone(), lifecycle.clone());
        let proxy = Proxy::new(mirrors, Authorizer::new(upstream), passthrough, Drain::new());
        let server = Server::new(Arc::new(proxy), TlsAcceptor::from(tls.config), lifecycle.clone());
        lifecycle.spawn_critical("listener", server.run(listener));
        Ok(Self { sim, mirror, address, ca_file, lifecycle, resource, _upstream: handle, _files: files })
    }

    /// Changes one object at upstream.
    pub fn write(&self, number: usize, value: u64) -> Result<ResourceVersion> {
        let patch = format!(r#"{{"metadata":{{"annotations":{{"example.com/round":"{value}"}}}}}}"#);
        let key = StoreKey::new(Some(NAMESPACE), &name(number));
        let written =
            self.sim.apply(Op::Patch { resource: self.resource, key, patch: Node::parse(patch.as_bytes())? });
        let written = written.map_err(|status| anyhow::anyhow!("patch: {status:?}"))?;
        Ok(written.event.context("a patch that changed nothing")?.rv)
    }

    /// How long it takes from a write at upstream until all shards have it, in microseconds.
    pub async fn ingest(&self, number: usize, value: u64) -> Result<u64> {
        let mut frontier = self.mirror.fanout().frontier();
        let begun = Instant::now();
        let rv = self.write(number, value)?;
        let reached = frontier.wait_for(|frontier| *frontier >= rv);
        tokio::time::timeout(LOAD_LIMIT, reached).await.context("the write never came")??;
        Ok(begun.elapsed().as_micros() as u64)
    }
}

// === impl Collection ===

impl Collection {
    fn object(self, number: usize) -> String {
        let data = "x".repeat(self.data_bytes);
        format!(r#"{{"metadata":{{"name":"{}"}},"data":{{"text":"{data}"}}}}"#, name(number))
    }
}

// === impl Files ===

impl Files {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("weir-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self(path))
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What is left lies in the system's directory for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn name(number: usize) -> String {
    format!("map-{number:06}")
}

/// An upstream that holds the collection.
fn filled(collection: Collection) -> Result<(Sim, ResourceId)> {
    let cluster = ClusterConfig { instances: 1, ..ClusterConfig::default() };
    let sim = Sim::new(SimConfig { cluster, ..SimConfig::default() });
    let resource = sim.resource("configmaps").context("upstream has no config maps")?;
    for number in 0..collection.objects {
        let body = Node::parse(collection.object(number).as_bytes())?;
        let create = Op::Create { resource, namespace: Some(NAMESPACE.to_owned()), body };
        sim.apply(create).map_err(|status| anyhow::anyhow!("create: {status:?}"))?;
    }
    Ok((sim, resource))
}

/// Lets upstream listen, and reads a kubeconfig that leads there.
async fn upstream(sim: &Sim, files: &Files, lifecycle: &Lifecycle) -> Result<(Handle, Upstream)> {
    let tls = ServerTls::self_made()?;
    let handle = sim.serve(0, Listen { listener: None, tls: Some(tls.config) }).await?;
    let url = format!("https://{}", handle.addr());
    let ca_file = files.write("upstream-ca.pem", &tls.ca_pem.context("a CA of its own")?)?;
    let path = files.write("kubeconfig", &kubeconfig(&url, &ca_file))?;
    let origin = Origin::Kubeconfig { path: Some(path), context: None };
    let urls = vec![url.parse::<Uri>()?];
    Ok((handle, Upstream::load(UpstreamOptions { origin, urls }, lifecycle).await?))
}

fn kubeconfig(url: &str, ca_file: &Path) -> String {
    let ca_file = ca_file.display();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: bench\n\
         clusters: [{{name: bench, cluster: {{server: \"{url}\", certificate-authority: \"{ca_file}\"}}}}]\n\
         users: [{{name: bench, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]\n"
    )
}
