//! `weir dev`: weir to try things on, in front of the embedded simulated apiserver with a cluster that keeps changing, or of a
//! real one. In one process as `weir serve`, or as shard nodes and proxies in processes of their own. Everything between
//! weir and upstream, and between weir's processes, is real: TLS, HTTP/2, tokens, access reviews.

mod children;
mod simulated;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use http::Uri;
use weir_sim::{Churn, ChurnHandle, ChurnShape, ClusterConfig, Sim, SimConfig};

use self::children::{Children, Shape, Told};
use self::simulated::{Cluster, TOKEN, define_gauges};
use crate::arguments::FeedArguments;
use crate::fault::Fault;
use crate::process::{ListenArguments, Process, say_ready};
use crate::serve::here;

/// Events that the simulated cluster keeps: some minutes of its changes.
const KEPT_EVENTS: usize = 50_000;

/// The kinds of a simulated cluster.
const SIMULATED: [&str; 4] = ["pods", "nodes", "configmaps", "gauges.metering.weir.test"];

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
    /// In front of the cluster of this kubeconfig instead of a simulated one.
    #[arg(long, value_name = "FILE", requires = "proxies")]
    kubeconfig: Option<PathBuf>,
    /// One instance of that cluster's kube-apiserver; repeat it for each.
    #[arg(long, value_name = "URL", requires = "kubeconfig")]
    upstream: Vec<Uri>,
    /// Into how many shards each mirror is cut.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: u16,
    /// Processes of their own for shards: so many nodes for each.
    #[arg(long, value_name = "N", requires = "proxies", value_parser = clap::value_parser!(u16).range(1..=9))]
    replicas: Option<u16>,
    /// And so many proxies. The first listens where --listen says; each writes a kubeconfig, FILE, FILE.1, …
    #[arg(long, value_name = "N", requires = "replicas", value_parser = clap::value_parser!(u16).range(1..=9))]
    proxies: Option<u16>,
    #[command(flatten)]
    feeds: FeedArguments,
    #[command(flatten)]
    listen: ListenArguments,
}

/// The upstream that weir is in front of.
enum Front {
    /// A simulated one, with what keeps it changing.
    Simulated(Cluster, ChurnHandle),
    /// A real one.
    Real,
}

/// Serves until told to stop.
pub(crate) async fn dev(mut arguments: DevArguments) -> Result<(), Fault> {
    arguments.mirror_the_simulated();
    let process = Process::begin("dev", &arguments.listen.common)?;
    let front = match &arguments.kubeconfig {
        Some(_) => Front::Real,
        None => arguments.simulate().await?,
    };
    let directory = std::env::temp_dir().join(format!("weir-dev-{}", std::process::id()));
    let written = match &arguments.listen.write_kubeconfig {
        Some(path) => path.clone(),
        None => directory.join("weir.kubeconfig"),
    };
    let address = match (&front, arguments.processes()) {
        (_, Some(_)) if arguments.listen.audit.has_sink() => {
            return Err(Fault::Usage("--audit-…: not with --proxies, which would share one".to_owned()));
        }
        (_, Some(shape)) => {
            let told = arguments.told((&directory, &written), &front);
            let children = Children::start(shape, &told, &process.lifecycle);
            let children = children.map_err(|error| Fault::failed("start the processes", error))?;
            let ready = async {
                children.ready().await;
                Ok(())
            };
            // Told to stop while they start: they are told too.
            if process.start(ready).await?.is_some() {
                process.readiness.started();
            }
            children.address
        }
        (Front::Simulated(cluster, _), None) => {
            let upstream = cluster.upstream(&process.lifecycle).await?;
            let listen = ListenArguments { write_kubeconfig: Some(written.clone()), ..arguments.listen };
            let serve = listen.serve(&process, (upstream, here(arguments.shards, arguments.feeds.tick)));
            process.start(serve).await?.unwrap_or(listen.listen)
        }
        (Front::Real, None) => {
            return Err(Fault::Usage("--kubeconfig: needs --replicas and --proxies".to_owned()));
        }
    };
    if !process.lifecycle.is_stopping() {
        say_ready(address);
        say_commands(address, &written, &front);
    }
    let ended = process.run().await;
    if let Front::Simulated(cluster, changes) = front {
        changes.stop().await;
        cluster.stop().await;
    }
    if let Err(error) = std::fs::remove_dir_all(&directory) {
        tracing::debug!(%error, "left files behind");
    }
    ended
}

// === impl DevArguments ===

impl DevArguments {
    /// What a simulated cluster has is mirrored from the beginning, so that the first command of a new user shows it; a lone
    /// list would be passed through.
    fn mirror_the_simulated(&mut self) {
        let mirror = &mut self.listen.common.mirror;
        if self.kubeconfig.is_none() && mirror.is_empty() {
            *mirror = SIMULATED.map(str::to_owned).into();
        }
    }

    /// Starts a simulated cluster.
    async fn simulate(&self) -> Result<Front, Fault> {
        let sim = self.simulation();
        sim.with(define_gauges)
            .map_err(|status| Fault::failed("define the custom resource", anyhow!(status.message)))?;
        let churn = sim.with(|cluster| Churn::fill(cluster, self.seed, self.shape()));
        let cluster = Cluster::start(&sim, self.instances).await?;
        let changes = sim.run_churn(churn, Duration::from_secs(1) / self.changes);
        Ok(Front::Simulated(cluster, changes))
    }

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

    /// The processes, if there are to be any.
    fn processes(&self) -> Option<Shape> {
        Some(Shape { shards: self.shards, replicas: self.replicas?, proxies: self.proxies? })
    }

    /// What the children are told.
    fn told(&self, (directory, written): (&Path, &Path), front: &Front) -> Told {
        let (kubeconfig, urls) = match front {
            Front::Simulated(cluster, _) => (cluster.kubeconfig(), cluster.urls()),
            Front::Real => {
                let urls = self.upstream.iter().map(Uri::to_string).collect();
                (self.kubeconfig.clone().unwrap_or_default(), urls)
            }
        };
        let mut common = vec!["--kubeconfig".to_owned(), kubeconfig.display().to_string()];
        common.extend(urls.into_iter().flat_map(|url| ["--upstream".to_owned(), url]));
        let ListenArguments { common: shared, tls, listen, drain, proof_limit, door, rights, .. } =
            &self.listen;
        if !shared.mirror.is_empty() {
            common.extend(["--mirror".to_owned(), shared.mirror.join(",")]);
        }
        let lasting = |name: &str, time: Duration| [name.to_owned(), format!("{}ms", time.as_millis())];
        common.extend(lasting("--idle", shared.idle));
        if let Some(bytes) = shared.memory_limit {
            common.extend(["--memory-limit".to_owned(), bytes.to_string()]);
        }
        let flags = [("--log-json", shared.log_json), ("--core-dumps", shared.core_dumps)];
        common.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned()));
        let times = [
            lasting("--drain", *drain),
            lasting("--proof-limit", *proof_limit),
            lasting("--recheck-limit", rights.recheck_limit),
            ["--recheck-rate".to_owned(), rights.recheck_rate.to_string()],
        ];
        let tick = self.feeds.tick.iter();
        let of_shards = tick.flat_map(|namespace| ["--tick".to_owned(), namespace.to_string()]).collect();
        Told {
            directory: directory.to_owned(),
            listen: *listen,
            written: written.to_owned(),
            common,
            of_shards,
            of_proxies: tls
                .written()
                .into_iter()
                .chain(times.into_iter().chain(door.told()).flatten())
                .collect(),
        }
    }
}

/// Three things to try, in another terminal.
#[expect(clippy::print_stdout, reason = "what the command is for")]
fn say_commands(address: SocketAddr, kubeconfig: &Path, front: &Front) {
    let curl = format!("curl -sk -H 'Authorization: Bearer {TOKEN}'");
    println!("\nin another terminal:\n");
    println!("  kubectl --kubeconfig {} get pods -A --watch", kubeconfig.display());
    let Front::Simulated(..) = front else { return };
    println!("  {curl} -i 'https://{address}/api/v1/pods?resourceVersion=0&limit=1' | head -c 600");
    println!(
        "  {curl} \"https://{address}/apis/metering.weir.test/v1/gauges?resourceVersion=0&\
         shardSelector=shardRange(object.metadata.uid,'0x0','0x8000000000000000')\" | head -c 600\n"
    );
}
