//! `weir serve`: proxy and shards in one process, in front of a real cluster.

use std::path::PathBuf;

use clap::Args;
use http::Uri;
use weir_daemon::Lifecycle;
use weir_upstream::{Origin, Upstream, UpstreamOptions};

use crate::fault::Fault;
use crate::process::{ListenArguments, say_ready};

/// Arguments of `weir serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The kubeconfig of weir's own identity, which must be allowed to list and watch what is mirrored. Without it,
    /// $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE", conflicts_with = "in_cluster")]
    kubeconfig: Option<PathBuf>,
    /// Another context of the kubeconfig than the current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Use the service account of the pod.
    #[arg(long)]
    in_cluster: bool,
    /// One instance of kube-apiserver; repeat it for each. Without it, the addresses of the kubeconfig's server.
    #[arg(long, value_name = "URL")]
    upstream: Vec<Uri>,
    #[command(flatten)]
    listen: ListenArguments,
}

/// Serves until told to stop.
pub(crate) async fn serve(arguments: ServeArguments) -> Result<(), Fault> {
    let ServeArguments { kubeconfig, context, in_cluster, upstream, listen } = arguments;
    listen.start_logging()?;
    let lifecycle = Lifecycle::new();
    let origin =
        if in_cluster { Origin::InCluster } else { Origin::Kubeconfig { path: kubeconfig, context } };
    let loaded = Upstream::load(UpstreamOptions { origin, urls: upstream }, &lifecycle).await;
    let upstream = loaded.map_err(|error| Fault::usage("--kubeconfig, --upstream", error))?;
    let serving = listen.serve(upstream, lifecycle).await?;
    say_ready(serving.address);
    serving.run().await
}
