//! The whole of weir as `weir serve` builds it, in front of a simulated apiserver: TLS and HTTP/2 on both sides, over
//! loopback, in this process. Clients belong into another process, or their memory would be counted as weir's.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::Instant;
use weir_core::policy::MirrorPolicy;
use weir_core::{GroupResource, ResourceVersion, WindowBounds};
use weir_daemon::Lifecycle;
use weir_daemon::clients::{ClientPort, ClientTls, ListenerCertificate};
use weir_proxy::auth::Authorizer;
use weir_proxy::drain::Drain;
use weir_proxy::http::answer::Proxy;
use weir_proxy::http::server::Server;
use weir_proxy::mirror::Mirror;
use weir_proxy::mirror::registry::{Backing, Mirrors, State};
use weir_proxy::passthrough::Passthrough;
use weir_sim::Sim;

pub use crate::simulated::{Collection, TOKEN};
use crate::simulated::{Simulated, resource};

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
    simulated: Simulated,
}

// === impl Served ===

impl Served {
    /// Fills upstream, starts weir in front of it and waits for the mirror.
    pub async fn start(collection: Collection) -> Result<Self> {
        let lifecycle = Lifecycle::new();
        let simulated = Simulated::start(collection).await?;
        let upstream = simulated.origin.reach(&lifecycle).await?;
        let policy = MirrorPolicy { named: [GroupResource::parse("configmaps")].into() };
        let backing = Backing::Local { shards: SHARDS, bounds: WindowBounds::default(), tick: None };
        let mirrors = Arc::new(Mirrors::new(upstream.clone(), lifecycle.clone(), (policy, backing)));
        tokio::time::timeout(LOAD_LIMIT, mirrors.start_named()).await.context("load the mirror")??;
        let state = mirrors.state(&resource()).context("no mirror")?;
        let State::Ready(mirror) = state.borrow().clone() else { bail!("the mirror is not ready") };
        let tls = ClientTls::new(ListenerCertificate::Loopback, None)?;
        let port = ClientPort::bind((Ipv4Addr::LOCALHOST, 0).into(), tls.clone())?;
        let address = port.local_address();
        let ca_file = simulated.files.write("weir-ca.pem", tls.ca_pem().context("a CA of its own")?)?;
        let passthrough = Passthrough::new(upstream.clone(), lifecycle.clone());
        let proxy = Proxy::new(mirrors, Authorizer::new(upstream), passthrough, Drain::new());
        let server = Server::new(Arc::new(proxy), lifecycle.clone());
        lifecycle.spawn_critical("listener", server.run(port));
        let sim = simulated.sim.clone();
        Ok(Self { sim, mirror, address, ca_file, lifecycle, simulated })
    }

    /// Changes one object at upstream.
    pub fn write(&self, number: usize, value: u64) -> Result<ResourceVersion> {
        self.simulated.write(number, value)
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
