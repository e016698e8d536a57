//! `weir shard`: a node that holds one shard of every mirror, as one of its replicas, and reads upstream for those mirrors of
//! which it is the feed.

use std::net::SocketAddr;

use clap::Args;
use weir_core::{SlotSet, WindowBounds};
use weir_daemon::members::NodeAddress;
use weir_daemon::peer::{Caller, Dialer, PeerPort, PeerServer};
use weir_shard_node::host::{Host, HostMetrics, HostParts};
use weir_shard_node::memory::Admission;
use weir_shard_node::remote::FollowLimits;
use weir_shard_node::rpc::ShardService;
use weir_shard_node::rpc::feed::FeedService;
use weir_shard_node::rpc::metrics::Metrics;
use weir_shard_node::rpc::mirrors::Mirrors;

use crate::arguments::{CommonArguments, FeedArguments, NodesArguments, PeerArguments, UpstreamArguments};
use crate::fault::Fault;
use crate::memory;
use crate::process::{Process, say};

/// Arguments of `weir shard`.
#[derive(Debug, Args)]
pub(crate) struct ShardArguments {
    /// Which shard of how many this node holds: 0/4 is the first of four.
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    shard: (usize, usize),
    /// Where proxies and other nodes connect. Without certificates only addresses of this machine.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// How the others know this node, in the words in which they find it; without it, the address listened on.
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<NodeAddress>,
    #[command(flatten)]
    nodes: NodesArguments,
    #[command(flatten)]
    peers: PeerArguments,
    #[command(flatten)]
    upstream: UpstreamArguments,
    #[command(flatten)]
    feeds: FeedArguments,
    #[command(flatten)]
    common: CommonArguments,
}

/// Serves until told to stop.
pub(crate) async fn shard(arguments: ShardArguments) -> Result<(), Fault> {
    let ShardArguments { shard: (index, count), listen, advertise, nodes, peers, .. } = arguments;
    let ShardArguments { upstream, feeds, common, .. } = arguments;
    let process = Process::begin("shard", &common)?;
    let lifecycle = process.lifecycle.clone();
    let tls = peers.tls(&process)?;
    if let Some(role) = tls.as_ref().map(weir_daemon::peer::PeerTls::role)
        && role != (Caller::Shard { index, count })
    {
        return Err(Fault::Usage(format!(
            "--peer-cert: the certificate is that of {role}, not of shard {index}/{count}"
        )));
    }
    let members = nodes.members(&lifecycle)?;
    if members.shards() != count {
        let shards = members.shards();
        return Err(Fault::Usage(format!("--shard: {index}/{count}, but the nodes hold {shards} shards")));
    }
    let port = PeerPort::bind(listen, tls.clone()).map_err(|error| Fault::usage("--listen", error))?;
    let address = port.local_address();
    let upstream = upstream.load(&lifecycle).await?;
    let metrics = (HostMetrics::default(), Metrics::default());
    process.metrics.with_registry(|registry| {
        metrics.0.register(registry);
        metrics.1.register(registry);
    });
    let host = Host::new(HostParts {
        upstream,
        lifecycle: lifecycle.clone(),
        members,
        dialer: Dialer::new(tls, lifecycle.clone()),
        own: advertise.unwrap_or_else(|| address.into()),
        slots: SlotSet::of_shard(index, count),
        bounds: WindowBounds::default(),
        policy: common.policy(),
        idle: common.idle,
        limits: FollowLimits::default(),
        metrics: metrics.0,
        tick: feeds.tick,
    });
    // A node refuses nothing: what is new comes from proxies, and is nothing that it would hold.
    memory::keep(&process, (host.clone(), host.started()), common.memory_limit, &Admission::default());
    let feed = FeedService::new(host.feeds().clone(), lifecycle.clone());
    let service = ShardService::new(Mirrors::of(host.clone()), lifecycle.clone(), metrics.1);
    let server = PeerServer::new(feed, service, lifecycle.clone());
    lifecycle.spawn_critical("peers", server.run(port));
    let start = async {
        host.start().await;
        Ok(())
    };
    if process.start(start).await?.is_some() {
        process.readiness.started();
        say(&format!("ready: {address}"));
    }
    process.run().await
}

fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let parsed =
        text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
    match parsed {
        Some((index, count)) if index < count && count <= 256 => Ok((index, count)),
        _ => Err("a shard is I/N, with I less than N and N at most 256".to_owned()),
    }
}
