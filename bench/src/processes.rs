//! Shard nodes and proxies as `weir shard` and `weir proxy` build them: mTLS, HTTP/2 and the sessions between them, feeds that
//! read upstream. A process may hold several of them, each with connections of its own; what is counted of a process is then
//! counted of all.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use weir_core::policy::MirrorPolicy;
use weir_core::{GroupResource, SlotSet, WindowBounds, rendezvous};
use weir_daemon::Lifecycle;
use weir_daemon::members::{Members, StaticNode};
use weir_daemon::peer::certs::PeerCa;
use weir_daemon::peer::{Dialer, PeerFiles, PeerPort, PeerServer, PeerTls};
use weir_proxy::mirror::Mirror;
use weir_proxy::mirror::registry::{Backing, Mirrors, State};
use weir_proxy::peers::Peers;
use weir_shard_node::host::{Host, HostMetrics, HostParts, IDLE_LIMIT};
use weir_shard_node::remote::FollowLimits;
use weir_shard_node::rpc::ShardService;
use weir_shard_node::rpc::feed::FeedService;
use weir_shard_node::rpc::metrics::Metrics;

use crate::simulated::{Files, Origin, resource};

/// What all processes of a measurement are told.
#[derive(Clone, Debug)]
pub struct Common {
    /// Upstream.
    pub origin: Origin,
    /// Where the certificates are.
    pub certificates: PathBuf,
}

/// Which shard of how many.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Counted from 0.
    pub index: usize,
    /// How many there are.
    pub count: usize,
}

/// A shard node.
pub struct ShardNode {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its mirrors.
    pub host: Arc<Host>,
}

/// A proxy without its listener for clients.
pub struct ProxyNode {
    /// The nodes that it sees.
    pub peers: Arc<Peers>,
    /// The mirror of the collection.
    pub mirror: Arc<Mirror>,
}

// === impl Common ===

impl Common {
    /// Makes certificates for a proxy and for the shards of each of these numbers, all of one CA.
    pub fn new(origin: Origin, files: &Files, counts: &[usize]) -> Result<Self> {
        let (ca, certificates) = (PeerCa::generate()?, files.directory().to_owned());
        files.write("peer-ca.crt", ca.pem())?;
        ca.proxy()?.write(&certificates, "proxy")?;
        for count in counts.iter().copied() {
            for index in 0..count {
                ca.shard(index, count)?.write(&certificates, &Place { index, count }.name())?;
            }
        }
        Ok(Self { origin, certificates })
    }

    /// In words, for another process.
    pub fn arguments(&self) -> Vec<String> {
        let Self { origin: Origin { kubeconfig, url }, certificates } = self;
        vec![kubeconfig.display().to_string(), url.clone(), certificates.display().to_string()]
    }

    /// Reads what [`Common::arguments`] wrote, and returns what follows it.
    pub fn read(arguments: &[String]) -> Result<(Self, &[String])> {
        let [kubeconfig, url, certificates, rest @ ..] = arguments else {
            bail!("KUBECONFIG URL CERTIFICATES are missing")
        };
        let origin = Origin { kubeconfig: kubeconfig.into(), url: url.clone() };
        Ok((Self { origin, certificates: certificates.into() }, rest))
    }

    /// The dialer of a proxy.
    pub fn proxy_dialer(&self, lifecycle: &Lifecycle) -> Result<Dialer> {
        Ok(Dialer::new(Some(self.tls("proxy")?), lifecycle.clone()))
    }

    fn tls(&self, name: &str) -> Result<PeerTls> {
        let file = |name: String| self.certificates.join(name);
        let (certificate, key) = (file(format!("{name}.crt")), file(format!("{name}.key")));
        Ok(PeerTls::from_files(PeerFiles { ca: file("peer-ca.crt".to_owned()), certificate, key })?)
    }
}

// === impl Place ===

impl Place {
    /// A port where a node of this shard is reached.
    pub fn bind(self, common: &Common) -> Result<PeerPort> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok(PeerPort::bind(any, Some(common.tls(&self.name())?))?)
    }

    /// A port beside which the node at `feed` is the first choice for the feed of the collection.
    pub fn bind_behind(self, common: &Common, feed: SocketAddr) -> Result<PeerPort> {
        let feed = feed.to_string();
        loop {
            let port = self.bind(common)?;
            let own = port.local_address().to_string();
            if rendezvous::order([own.as_str(), feed.as_str()], &resource())[0] == feed {
                return Ok(port);
            }
        }
    }

    fn name(self) -> String {
        let Self { index, count } = self;
        format!("shard-{index}-of-{count}")
    }
}

// === impl ShardNode ===

impl ShardNode {
    /// Starts a node that sees these nodes, itself among them, and waits until it holds the collection.
    pub async fn start(
        common: &Common,
        (place, port): (Place, PeerPort),
        nodes: &[SocketAddr],
        lifecycle: &Lifecycle,
    ) -> Result<Self> {
        let (address, metrics) = (port.local_address(), Metrics::default());
        let tls = common.tls(&place.name())?;
        let host = Host::new(HostParts {
            upstream: common.origin.reach(lifecycle).await?,
            lifecycle: lifecycle.clone(),
            members: members(nodes)?,
            dialer: Dialer::new(Some(tls), lifecycle.clone()),
            own: address.into(),
            slots: SlotSet::of_shard(place.index, place.count),
            bounds: WindowBounds::default(),
            policy: policy(),
            idle: IDLE_LIMIT,
            limits: FollowLimits::default(),
            metrics: HostMetrics::default(),
            tick: None,
        });
        let feed = FeedService::new(host.feeds().clone(), lifecycle.clone());
        let service = ShardService::new(
            weir_shard_node::rpc::mirrors::Mirrors::of(host.clone()),
            lifecycle.clone(),
            metrics,
        );
        let server = PeerServer::new(feed, service, lifecycle.clone());
        lifecycle.spawn_critical(format!("peers of {address}"), server.run(port));
        host.start().await;
        Ok(Self { address, host })
    }

    /// Objects that it holds now.
    pub fn objects(&self) -> Result<usize> {
        let hosted = self.host.hosted(&resource()).context("the collection is not mirrored")?;
        Ok(hosted.cell.holdings().live_objects)
    }
}

// === impl ProxyNode ===

impl ProxyNode {
    /// Starts a proxy over these nodes, which hold so many shards, and waits until its mirror answers.
    pub async fn start(
        common: &Common,
        (shards, nodes): (usize, &[SocketAddr]),
        lifecycle: &Lifecycle,
    ) -> Result<Self> {
        let peers = Arc::new(Peers::new(common.proxy_dialer(lifecycle)?, lifecycle.clone(), shards));
        let (run, stop) = (peers.clone().run(members(nodes)?), lifecycle.token().clone());
        lifecycle.spawn_critical("nodes", async move {
            // Whether it was told or ended by itself, the lifecycle knows.
            let _ = stop.run_until_cancelled(run).await;
        });
        let upstream = common.origin.reach(lifecycle).await?;
        let backing = Backing::Nodes(peers.clone());
        let mirrors = Arc::new(Mirrors::new(upstream, lifecycle.clone(), (policy(), backing)));
        mirrors.start_named().await?;
        let state = mirrors.state(&resource()).context("no mirror")?;
        let State::Ready(mirror) = state.borrow().clone() else { bail!("the mirror is not ready") };
        Ok(Self { peers, mirror })
    }

    /// How often nodes were heard so far.
    pub fn heard(&self) -> u64 {
        self.peers.all().iter().map(|peer| peer.beats()).sum()
    }
}

/// Which nodes there are. Which shard each holds, it says itself.
fn members(nodes: &[SocketAddr]) -> Result<Members> {
    let node = |address: &SocketAddr| StaticNode { index: 0, count: 1, address: (*address).into() };
    Ok(Members::fixed(nodes.iter().map(node).collect())?)
}

fn policy() -> MirrorPolicy {
    MirrorPolicy { named: [GroupResource::parse("configmaps")].into() }
}
