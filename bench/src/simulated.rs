//! A simulated apiserver with a collection of config maps, and the files by which weir finds it, from this process or from
//! another one. It is upstream in every measurement that has one, so its own work is to be kept out of the figures.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use http::Uri;
use weir_core::{GroupVersionResource, ResourceVersion};
use weir_daemon::Lifecycle;
use weir_daemon::tls::ServerTls;
use weir_sim::{ClusterConfig, Handle, Listen, Node, Op, ResourceId, Sim, SimConfig, StoreKey};
use weir_upstream::{Origin as Found, Upstream, UpstreamOptions};

/// The token of the one user that the simulated apiserver knows.
pub const TOKEN: &str = "admin";
/// Where all objects are.
const NAMESPACE: &str = "default";

/// What the collection looks like.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    /// How many objects.
    pub objects: usize,
    /// Bytes of data of each.
    pub data_bytes: usize,
}

/// Upstream.
pub struct Simulated {
    /// What holds the objects.
    pub sim: Sim,
    /// How it is found.
    pub origin: Origin,
    /// A place for further files.
    pub files: Files,
    resource: ResourceId,
    _handle: Handle,
}

/// How upstream is found.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The kubeconfig of weir's own identity.
    pub kubeconfig: PathBuf,
    /// The one instance.
    pub url: String,
}

/// A directory that goes with the process.
pub struct Files(PathBuf);

/// What is mirrored.
pub fn resource() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "configmaps")
}

/// The name of an object.
pub fn name(number: usize) -> String {
    format!("map-{number:06}")
}

// === impl Simulated ===

impl Simulated {
    /// Fills upstream, lets it listen, and writes a kubeconfig that leads there.
    pub async fn start(collection: Collection) -> Result<Self> {
        let (sim, resource) = filled(collection)?;
        let (tls, files) = (ServerTls::self_made()?, Files::new()?);
        let handle = sim.serve(0, Listen { listener: None, tls: Some(tls.config) }).await?;
        let url = format!("https://{}", handle.addr());
        let ca_file = files.write("upstream-ca.pem", &tls.ca_pem.context("a CA of its own")?)?;
        let kubeconfig = files.write("kubeconfig", &kubeconfig(&url, &ca_file))?;
        Ok(Self { sim, origin: Origin { kubeconfig, url }, files, resource, _handle: handle })
    }

    /// Changes one object.
    pub fn write(&self, number: usize, value: u64) -> Result<ResourceVersion> {
        let patch = format!(r#"{{"metadata":{{"annotations":{{"example.com/round":"{value}"}}}}}}"#);
        let key = StoreKey::new(Some(NAMESPACE), &name(number));
        let written =
            self.sim.apply(Op::Patch { resource: self.resource, key, patch: Node::parse(patch.as_bytes())? });
        let written = written.map_err(|status| anyhow::anyhow!("patch: {status:?}"))?;
        Ok(written.event.context("a patch that changed nothing")?.rv)
    }
}

// === impl Origin ===

impl Origin {
    /// Connections to it, of one process.
    pub async fn reach(&self, lifecycle: &Lifecycle) -> Result<Upstream> {
        let origin = Found::Kubeconfig { path: Some(self.kubeconfig.clone()), context: None };
        let urls = vec![self.url.parse::<Uri>()?];
        Ok(Upstream::load(UpstreamOptions { origin, urls }, lifecycle).await?)
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

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// Writes one.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
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

fn kubeconfig(url: &str, ca_file: &Path) -> String {
    let ca_file = ca_file.display();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: bench\n\
         clusters: [{{name: bench, cluster: {{server: \"{url}\", certificate-authority: \"{ca_file}\"}}}}]\n\
         users: [{{name: bench, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]\n"
    )
}
