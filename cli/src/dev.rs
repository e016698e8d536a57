//! `weir dev`: the same as `weir serve`, in front of the embedded simulated apiserver with a cluster that keeps changing.
//! Everything between weir and it is real: TLS, HTTP/2, tokens, access reviews.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use weir_core::{GroupVersionResource, Status};
use weir_daemon::Lifecycle;
use weir_daemon::tls::ServerTls;
use weir_sim::{
    Churn, ChurnShape, ClusterConfig, Handle, Listen, Node, Op, ResourceInfo, Scope, Sim, SimConfig, object,
};
use weir_upstream::{Origin, Upstream, UpstreamOptions};

use crate::fault::Fault;
use crate::process::{ListenArguments, Process, say_ready};
use crate::serve::here;

/// Events that the simulated cluster keeps: some minutes of its changes.
const KEPT_EVENTS: usize = 50_000;
/// Who the simulated apiserver lets do everything.
const TOKEN: &str = "admin";

/// Arguments of `weir dev`.
#[derive(Debug, Args)]
pub(crate) struct DevArguments {
    /// What the simulated cluster holds and how it changes repeats under a seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How many apiservers there are, each with a watch cache at its own progress.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=9))]
    instances: u8,
    /// How many changes a second the cluster sees.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    changes: u32,
    /// How many pods there are; nodes and other objects in proportion.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pods: usize,
    /// Into how many shards each mirror is cut.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: u16,
    #[command(flatten)]
    listen: ListenArguments,
}

/// The simulated upstream, and the files by which weir finds it.
struct Cluster {
    handles: Vec<Handle>,
    directory: PathBuf,
}

/// Serves until told to stop.
pub(crate) async fn dev(arguments: DevArguments) -> Result<(), Fault> {
    let process = Process::begin("dev", &arguments.listen.common)?;
    let sim = arguments.simulation();
    sim.with(define_gauges)
        .map_err(|status| Fault::failed("define the custom resource", anyhow!(status.message)))?;
    let churn = sim.with(|cluster| Churn::fill(cluster, arguments.seed, arguments.shape()));
    let cluster = Cluster::start(&sim, arguments.instances).await?;
    let upstream = cluster.upstream(&process.lifecycle).await?;
    let written = match &arguments.listen.write_kubeconfig {
        Some(path) => path.clone(),
        None => cluster.directory.join("weir.kubeconfig"),
    };
    let listen = ListenArguments { write_kubeconfig: Some(written.clone()), ..arguments.listen };
    let address = listen.serve(&process, (upstream, here(arguments.shards))).await?;
    let changes = sim.run_churn(churn, Duration::from_secs(1) / arguments.changes);
    say_ready(address);
    say_commands(address, &written);
    let ended = process.run().await;
    changes.stop().await;
    cluster.stop().await;
    ended
}

// === impl DevArguments ===

impl DevArguments {
    fn simulation(&self) -> Sim {
        Sim::new(SimConfig {
            cluster: ClusterConfig {
                seed: self.seed,
                instances: usize::from(self.instances),
                kept_events: Some(KEPT_EVENTS),
                ..ClusterConfig::default()
            },
            ..SimConfig::default()
        })
    }

    fn shape(&self) -> ChurnShape {
        ChurnShape {
            nodes: self.pods.div_ceil(20),
            namespaces: 3,
            pods: self.pods,
            config_maps: self.pods.div_ceil(4),
            gauges: self.pods.div_ceil(5),
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// Starts the instances and writes down how to reach them.
    async fn start(sim: &Sim, instances: u8) -> Result<Self, Fault> {
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

    async fn upstream(&self, lifecycle: &Lifecycle) -> Result<Upstream, Fault> {
        let origin = Origin::Kubeconfig { path: Some(self.directory.join("kubeconfig")), context: None };
        let urls = self.handles.iter().map(|handle| format!("https://{}", handle.addr()).parse());
        let urls = urls
            .collect::<Result<_, _>>()
            .map_err(|error: http::uri::InvalidUri| Fault::failed("name the simulated apiservers", error))?;
        let loaded = Upstream::load(UpstreamOptions { origin, urls }, lifecycle).await;
        loaded.map_err(|error| Fault::failed("reach the simulated apiserver", error))
    }

    async fn stop(self) {
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
fn define_gauges(cluster: &mut weir_sim::Cluster) -> Result<(), Status> {
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

/// Three things to try, in another terminal.
#[expect(clippy::print_stdout, reason = "what the command is for")]
fn say_commands(address: SocketAddr, kubeconfig: &Path) {
    let curl = format!("curl -sk -H 'Authorization: Bearer {TOKEN}'");
    println!("\nin another terminal:\n");
    println!("  kubectl --kubeconfig {} get pods -A --watch", kubeconfig.display());
    println!("  {curl} -i 'https://{address}/api/v1/pods?resourceVersion=0&limit=1' | head -c 600");
    println!(
        "  {curl} \"https://{address}/apis/metering.weir.test/v1/gauges?resourceVersion=0&\
         shardSelector=shardRange(object.metadata.uid,'0x0','0x8000000000000000')\" | head -c 600\n"
    );
}
