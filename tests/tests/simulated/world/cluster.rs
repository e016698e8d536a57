//! The simulated cluster as weir finds it: instances behind TLS, the kubeconfig, the definition of the custom resource.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_core::GroupVersionResource;
use weir_daemon::clients::{ClientTls, ListenerCertificate};
use weir_sim::{Cluster, Handle, Listen, Node, Op, ResourceInfo, Scope, Sim};

use super::{ADMIN, Pki};
use crate::client::Server;

/// One instance; its handle is gone when it has died.
pub(super) struct Instance {
    pub(super) handle: Mutex<Option<Handle>>,
    pub(super) server: Server,
}

/// A directory that is removed with its value.
pub(super) struct Directory(pub(super) PathBuf);

/// The definition of the custom resource, by which weir knows that it is one and which of its fields are selectable.
pub(super) fn define_gauges(cluster: &mut Cluster) {
    let definitions = GroupVersionResource::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let resource =
        cluster.register(ResourceInfo::built_in(definitions, "CustomResourceDefinition", Scope::Cluster));
    let gauges = r#"{"metadata":{"name":"gauges.metering.weir.test"},"spec":{"group":"metering.weir.test",
        "versions":[{"name":"v1","served":true,"selectableFields":[{"jsonPath":".spec.unit"}]}]}}"#;
    let body = Node::parse(gauges.as_bytes()).unwrap();
    cluster.apply(Op::Create { resource, namespace: None, body }).unwrap();
}

/// The instances of the simulation, and the kubeconfig by which weir finds them.
pub(super) async fn serve(sim: &Sim, (directory, pki): (&Directory, &Pki)) -> Vec<Instance> {
    let tls = ClientTls::new(ListenerCertificate::Loopback, Some(pki.proxy_ca())).unwrap();
    let ca_pem = tls.ca_pem().unwrap().to_owned();
    sim.with_users(|users| users.trust_front_proxy(&pki.front));
    let mut instances = Vec::new();
    for index in 0..sim.read(Cluster::instances) {
        let listen = Listen { listener: None, tls: Some(tls.config()) };
        let handle = sim.serve(index, listen).await.unwrap();
        let server = Server::new(handle.addr(), &ca_pem);
        instances.push(Instance { handle: Mutex::new(Some(handle)), server });
    }
    directory.write_kubeconfig(&instances[0].server, &ca_pem);
    instances
}

// === impl Directory ===

impl Directory {
    pub(super) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-world-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write_kubeconfig(&self, server: &Server, ca_pem: &str) {
        let ca = self.0.join("ca.crt");
        std::fs::write(&ca, ca_pem).unwrap();
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: sim\n\
             clusters: [{{name: sim, cluster: {{server: \"https://{}\", certificate-authority: {ca:?}}}}}]\n\
             users: [{{name: sim, user: {{token: {ADMIN}}}}}]\n\
             contexts: [{{name: sim, context: {{cluster: sim, user: sim}}}}]\n",
            server.address
        );
        std::fs::write(self.0.join("kubeconfig"), kubeconfig).unwrap();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}
