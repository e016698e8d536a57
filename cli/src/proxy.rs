//! `weir proxy`: the process that clients speak to. It holds no objects: lists and watches are merged of what the shard nodes
//! say, and everything else is passed through.

use std::sync::Arc;

use clap::Args;
use weir_daemon::peer::{Caller, Dialer, PeerTls};
use weir_proxy::metrics::PeerMetrics;
use weir_proxy::mirror::registry::Backing;
use weir_proxy::peers::Peers;

use crate::arguments::{NodesArguments, PeerArguments, UpstreamArguments};
use crate::fault::Fault;
use crate::process::{ListenArguments, Process, say_ready};

/// Arguments of `weir proxy`.
#[derive(Debug, Args)]
pub(crate) struct ProxyArguments {
    #[command(flatten)]
    nodes: NodesArguments,
    #[command(flatten)]
    peers: PeerArguments,
    #[command(flatten)]
    upstream: UpstreamArguments,
    #[command(flatten)]
    listen: ListenArguments,
}

/// Serves until told to stop.
pub(crate) async fn proxy(arguments: ProxyArguments) -> Result<(), Fault> {
    let ProxyArguments { nodes, peers, upstream, listen } = arguments;
    let process = Process::begin("proxy", &listen.common)?;
    let tls = peers.tls(&process)?;
    if let Some(role) = tls.as_ref().map(PeerTls::role)
        && role != Caller::Proxy
    {
        return Err(Fault::Usage(format!("--peer-cert: the certificate is that of {role}, not of a proxy")));
    }
    let members = nodes.members(&process.lifecycle)?;
    let upstream = upstream.load(&process.lifecycle).await?;
    let dialer = Dialer::new(tls, process.lifecycle.clone());
    let peers = Arc::new(Peers::new(dialer, process.lifecycle.clone(), members.shards()));
    peers.report(&process.readiness);
    let metrics = Box::new(PeerMetrics(peers.clone()));
    process.metrics.with_registry(|registry| registry.register_collector(metrics));
    let (run, stop) = (peers.clone().run(members), process.lifecycle.token().clone());
    process.lifecycle.spawn_critical("nodes", async move {
        // Whether it was told or ended by itself, the lifecycle knows.
        let _ = stop.run_until_cancelled(run).await;
    });
    let backing = Backing::Nodes(peers);
    if let Some(address) = process.start(listen.serve(&process, (upstream, backing))).await? {
        say_ready(address);
    }
    process.run().await
}
