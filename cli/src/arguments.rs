//! Options that several commands share, as written, and what they make. What is wrong with them is said in one sentence.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::Uri;
use weir_core::GroupResource;
use weir_core::policy::MirrorPolicy;
use weir_daemon::Lifecycle;
use weir_daemon::members::{Members, NodeAddress, StaticNode, SystemResolver};
use weir_daemon::peer::{PeerFiles, PeerTls};
use weir_daemon::telemetry::{self, LogFormat};
use weir_shard_node::feed::tick::TickNamespace;
use weir_upstream::{Origin, Upstream, UpstreamOptions};

use crate::duration;
use crate::fault::Fault;
use crate::memory;
use crate::process::Process;

/// How upstream is reached.
#[derive(Debug, Args)]
pub(crate) struct UpstreamArguments {
    /// The kubeconfig of weir's own identity, which must be allowed to list and watch what is mirrored. Without it,
    /// $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE", conflicts_with = "in_cluster")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Another context of the kubeconfig than the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Use the service account of the pod.
    #[arg(long)]
    in_cluster: bool,
    /// One instance of kube-apiserver; repeat it for each. Without it, the addresses of the kubeconfig's server.
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Vec<Uri>,
}

/// Which shard nodes there are.
#[derive(Debug, Args)]
#[group(required = true)]
pub(crate) struct NodesArguments {
    /// A shard node: the shard that it holds, and where it is; repeat it for each. 0/4=10.0.0.7:7443 is a replica of the
    /// first of four shards.
    #[arg(long, value_name = "I/N=HOST:PORT", conflicts_with = "nodes_dns")]
    node: Vec<StaticNode>,
    /// A name whose addresses are the shard nodes, as of a headless Service; looked up again every 5 s.
    #[arg(long, value_name = "NAME:PORT", requires = "shards")]
    nodes_dns: Option<NodeAddress>,
    /// In how many shards the space is cut, where the nodes are found by a name.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
}

/// How mirrors are read.
#[derive(Debug, Args)]
pub(crate) struct FeedArguments {
    /// Prove quiet mirrors fresh by ticks: while a request waits, the object weir-tick of the kind in this namespace is patched, at
    /// most five times a second. For each kind that is to have ticks, create one and allow weir's identity to patch it.
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) tick: Option<TickNamespace>,
}

/// How weir's own processes know each other.
#[derive(Debug, Args)]
pub(crate) struct PeerArguments {
    /// The CA of weir's own processes, in PEM. Without certificates only addresses of this machine are listened on.
    #[arg(long, value_name = "FILE", requires_all = ["peer_cert", "peer_key"])]
    peer_ca: Option<PathBuf>,
    /// The certificate of this process, in PEM; `weir certs` makes some for a trial.
    #[arg(long, value_name = "FILE", requires_all = ["peer_ca", "peer_key"])]
    peer_cert: Option<PathBuf>,
    /// Its private key in PEM.
    #[arg(long, value_name = "FILE", requires_all = ["peer_ca", "peer_cert"])]
    peer_key: Option<PathBuf>,
}

/// What every process takes.
#[derive(Debug, Args)]
pub(crate) struct CommonArguments {
    /// Resources to mirror, ready before weir says so: pods,deployments.apps. Without it, resources are mirrored as they are
    /// watched, except events, leases and secrets.
    #[arg(long, value_name = "RESOURCE,…", value_delimiter = ',')]
    pub(crate) mirror: Vec<String>,
    /// How long a mirror goes on that nobody uses. Those that --mirror names never end.
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = duration::parse)]
    pub(crate) idle: Duration,
    /// How much mirrors may hold: 2Gi, 512Mi. Beyond, windows are cut, unused mirrors end, and at last new lists and watches are
    /// refused. Without it, 80 % of what the container may take, if it has a limit.
    #[arg(long, value_name = "BYTES", value_parser = memory::parse)]
    pub(crate) memory_limit: Option<u64>,
    /// Where /livez, /readyz and /metrics are answered, over plain HTTP; they tell no secrets.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) admin: Option<SocketAddr>,
    /// Leave core dumps and debuggers as the system has them. Without it a crash leaves no image of the process, whose memory
    /// holds tokens and objects, and nobody but root may attach to it.
    #[arg(long)]
    pub(crate) core_dumps: bool,
    /// Log as JSON.
    #[arg(long)]
    pub(crate) log_json: bool,
    /// End when the standard input does: so a process ends with the one that started it.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_ends: bool,
}

// === impl UpstreamArguments ===

impl UpstreamArguments {
    /// Finds upstream.
    pub(crate) async fn load(self, lifecycle: &Lifecycle) -> Result<Upstream, Fault> {
        let Self { kubeconfig, context, in_cluster, upstream } = self;
        let origin =
            if in_cluster { Origin::InCluster } else { Origin::Kubeconfig { path: kubeconfig, context } };
        let loaded = Upstream::load(UpstreamOptions { origin, urls: upstream }, lifecycle).await;
        loaded.map_err(|error| Fault::usage("--kubeconfig, --upstream", error))
    }
}

// === impl NodesArguments ===

impl NodesArguments {
    /// Follows who there is.
    pub(crate) fn members(self, lifecycle: &Lifecycle) -> Result<Members, Fault> {
        let Self { node, nodes_dns, shards } = self;
        match (nodes_dns, shards) {
            (Some(name), Some(shards)) => {
                Ok(Members::dns(name, usize::from(shards), SystemResolver, lifecycle))
            }
            _ => Members::fixed(node).map_err(|error| Fault::usage("--node", error)),
        }
    }
}

// === impl PeerArguments ===

impl PeerArguments {
    /// The certificates, followed as the files change; `None` without them.
    pub(crate) fn tls(self, process: &Process) -> Result<Option<PeerTls>, Fault> {
        let Self { peer_ca: Some(ca), peer_cert: Some(certificate), peer_key: Some(key) } = self else {
            return Ok(None);
        };
        let tls = PeerTls::from_files(PeerFiles { ca, certificate, key });
        let tls = tls.map_err(|error| Fault::usage("--peer-ca, --peer-cert, --peer-key", error))?;
        tls.follow(&process.lifecycle, &process.reloads);
        Ok(Some(tls))
    }
}

// === impl CommonArguments ===

impl CommonArguments {
    /// Starts logging.
    pub(crate) fn start_logging(&self) -> Result<(), Fault> {
        let format = if self.log_json { LogFormat::Json } else { LogFormat::Text };
        telemetry::start(format, None).map_err(|error| Fault::usage("logging", error))
    }

    /// What is mirrored.
    pub(crate) fn policy(&self) -> MirrorPolicy {
        let named = self.mirror.iter().filter(|name| !name.is_empty());
        MirrorPolicy { named: named.map(|name| GroupResource::parse(name)).collect() }
    }
}
