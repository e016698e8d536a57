//! The simulated upstream of `weir dev`, and the files by which weir finds it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use http::Uri;
use weir_core::{GroupVersionResource, Status};
use weir_daemon::Lifecycle;
use weir_daemon::tls::ServerTls;
use weir_sim::{Handle, Listen, Node, Op, ResourceInfo, Scope, Sim, object};
use weir_upstream::{Origin, Upstream, UpstreamOptions};

use crate::fault::Fault;

/// Who the simulated apiserver lets do everything.
pub(super) const TOKEN: &str = "admin";

/// The simulated upstream, and the files by which weir finds it.
pub(super) struct Cluster {
    handles: Vec<Handle>,
    pub(super) directory: PathBuf,
}

// === impl Cluster ===

impl Cluster {
    /// Starts the instances and writes down how to reach them.
    pub(super) async fn start(sim: &Sim, instances: u8) -> Result<Self, Fault> {
        let tls = ServerTls::self_made().map_err(|error| Fault::failed("make a certificate", error))?;
        let mut handles = Vec::new();
        for index in 0..usize::from(instances) {
            let listen = Listen { listener: None, tls: Some(tls.config.clone()) };
            let handle = sim.serve(index, listen).await;
            handles.push(handle.map_err(|error| Fault::failed("start the simulated apiserver", error))?);
        }
        let directory = std::env::temp_dir().join(format!("weir-dev-{}", std::process::id()));
        let address = handles[0].addr();
        let files = write_files(&directory, address, tls.ca_pem.as_deref().unwrap_or_default());
        files.map_err(|error| Fault::failed("write the kubeconfig of the simulated cluster", error))?;
        Ok(Self { handles, directory })
    }

    pub(super) async fn upstream(&self, lifecycle: &Lifecycle) -> Result<Upstream, Fault> {
        let origin = Origin::Kubeconfig { path: Some(self.directory.join("kubeconfig")), context: None };
        let urls = self.urls().into_iter().map(|url| url.parse::<Uri>());
        let urls = urls.collect::<Result<_, _>>();
        let urls = urls.map_err(|error| Fault::failed("name the simulated apiservers", error))?;
        let loaded = Upstream::load(UpstreamOptions { origin, urls }, lifecycle).await;
        loaded.map_err(|error| Fault::failed("reach the simulated apiserver", error))
    }

    /// Where the instances are.
    pub(super) fn urls(&self) -> Vec<String> {
        self.handles.iter().map(|handle| format!("https://{}", handle.addr())).collect()
    }

    /// The kubeconfig of weir's own identity there.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    pub(super) async fn stop(self) {
        for handle in self.handles {
            handle.shutdown().await;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            tracing::debug!(%error, "left files of the simulated cluster behind");
        }
    }
}

/// Defines the custom resource that the churn writes. Upstream says by its definition that a resource is a custom one and
/// which of its fields can be selected; without it the kind passes for a built-in one, whose bytes differ.
pub(super) fn define_gauges(cluster: &mut weir_sim::Cluster) -> Result<(), Status> {
    let definitions = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let info = ResourceInfo::built_in(definitions, "CustomResourceDefinition", Scope::Cluster);
    let resource = cluster.register(info);
    let gauges = weir_sim::gauges();
    let fields = gauges.selectable.iter().map(|path| object([("jsonPath", Node::from(format!(".{path}")))]));
    let fields = Node::Array(fields.collect());
    let version = object([
        ("name", Node::from(&*gauges.gvr.version)),
        ("served", Node::from(true)),
        ("storage", Node::from(true)),
        ("selectableFields", fields),
    ]);
    let spec = object([
        ("group", Node::from(&*gauges.gvr.group)),
        (
            "names",
            object([("kind", Node::from(&*gauges.kind)), ("plural", Node::from(&*gauges.gvr.resource))]),
        ),
        ("scope", Node::from("Namespaced")),
        ("versions", Node::Array(vec![version])),
    ]);
    let metadata = object([("name", Node::from(gauges.gvr.group_resource().to_string()))]);
    let body = object([("metadata", metadata), ("spec", spec)]);
    cluster.apply(Op::Create { resource, namespace: None, body }).map(drop)
}

fn write_files(directory: &Path, address: SocketAddr, ca_pem: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let ca = directory.join("ca.crt");
    std::fs::File::create(&ca)?.write_all(ca_pem.as_bytes())?;
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: sim\n\
         clusters: [{{name: sim, cluster: {{server: \"https://{address}\", certificate-authority: {ca:?}}}}}]\n\
         users: [{{name: sim, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: sim, context: {{cluster: sim, user: sim}}}}]\n"
    );
    std::fs::File::create(directory.join("kubeconfig"))?.write_all(kubeconfig.as_bytes())
}
