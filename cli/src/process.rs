//! What every command shares: the runtime, the parts of a process that serves clients, and its end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use weir_daemon::admin::metrics::Metrics;
use weir_daemon::admin::{Admin, AdminPort};
use weir_daemon::clients::ClientPort;
use weir_daemon::followed::Reloads;
use weir_daemon::readiness::Readiness;
use weir_daemon::{Lifecycle, Signals, StopCause};
use weir_proxy::drain::Drain;
use weir_proxy::http::answer::Proxy;
use weir_proxy::http::server::Server;
use weir_proxy::metrics::MirrorMetrics;
use weir_proxy::mirror::registry::{Backing, Mirrors};
use weir_proxy::passthrough::Passthrough;
use weir_shard_node::memory::Admission;
use weir_upstream::Upstream;

use crate::arguments::CommonArguments;
use crate::audit::AuditArguments;
use crate::door::DoorArguments;
use crate::duration;
use crate::fault::Fault;
use crate::listener::TlsArguments;
use crate::memory;
use crate::rights::RightsArguments;

/// How long the tasks of a process may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// The same where clients have had their time already: last bytes take no longer.
const GRACE_AFTER_DRAIN: Duration = Duration::from_secs(1);

/// Options of every command that serves clients.
#[derive(Debug, Args)]
pub(crate) struct ListenArguments {
    /// Where to listen; an address of this machine only, unless there is a certificate for clients. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6543")]
    pub(crate) listen: SocketAddr,
    /// Write a kubeconfig for clients: weir's address and CA, and the user of the kubeconfig that weir reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) tls: TlsArguments,
    /// How long clients may take to leave when weir is told to stop: it says that it is not ready, ends watches spread over this
    /// time, and lets other requests finish. Told a second time it stops at once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    pub(crate) drain: Duration,
    /// How long a mirror may take to prove that an answer which must be fresh is, before upstream gives it instead; 3s at most.
    /// Large kinds that are seldom written take 0.3 to 1.3 s.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = proof_limit)]
    pub(crate) proof_limit: Duration,
    #[command(flatten)]
    pub(crate) door: DoorArguments,
    #[command(flatten)]
    pub(crate) rights: RightsArguments,
    #[command(flatten)]
    pub(crate) audit: AuditArguments,
    #[command(flatten)]
    pub(crate) common: CommonArguments,
}

/// What every process has: its life, what ends it, and what operators see of it.
pub(crate) struct Process {
    pub(crate) lifecycle: Lifecycle,
    /// Taken out while somebody waits for them.
    signals: Mutex<Option<Signals>>,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Metrics,
    /// What became of certificate files that changed.
    pub(crate) reloads: Reloads,
    admin: Option<Admin>,
    /// How clients leave, once there can be any.
    clients: OnceLock<(Drain, Duration)>,
}

/// Runs a command on a runtime of as many threads as there are cores. What is left on other threads at its end is not waited for:
/// one that reads the standard input may do so for ever.
pub(crate) fn block_on(command: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Fault::failed("start the runtime", error))?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

// === impl ListenArguments ===

impl ListenArguments {
    /// Builds everything, waits until the named mirrors answer, and serves. The address.
    pub(crate) async fn serve(
        &self,
        process: &Process,
        (upstream, backing): (Upstream, Backing),
    ) -> Result<SocketAddr, Fault> {
        let lifecycle = &process.lifecycle;
        let tls = self.tls.tls(process, &upstream)?;
        let port = ClientPort::bind(self.listen, tls.clone());
        let port = port.map_err(|error| Fault::usage("--listen", error))?;
        let address = port.local_address();
        if let Some(path) = &self.write_kubeconfig {
            let server = format!("https://{address}");
            let written = upstream.export_kubeconfig(&server, tls.ca_pem());
            let text = written.map_err(|error| Fault::usage("--write-kubeconfig", error))?;
            write_atomically(path, &text).map_err(|error| Fault::usage("--write-kubeconfig", error))?;
        }
        let policy = self.common.policy();
        let mirrors = Mirrors::new(upstream.clone(), lifecycle.clone(), (policy, backing));
        let mirrors = mirrors.idle_for(self.common.idle).proved_within(self.proof_limit);
        let mirrors = Arc::new(mirrors);
        let (metrics, clients) = (Box::new(MirrorMetrics(mirrors.clone())), self.door.clients());
        process.metrics.with_registry(|registry| {
            registry.register_collector(metrics);
            mirrors.register(registry);
            clients.register(registry);
        });
        let admission = Admission::default();
        let held = (mirrors.clone(), mirrors.started());
        memory::keep(process, held, self.common.memory_limit, &admission);
        let started = mirrors.start_named().await;
        started.map_err(|error| Fault::usage("start the mirrors", error))?;
        let passthrough = Passthrough::new(upstream.clone(), lifecycle.clone());
        let (drain, _) = process.clients.get_or_init(|| (Drain::new(), self.drain));
        let audit = self.audit.start(process).await?;
        let authorizer = self.rights.authorizer(process, &upstream, self.audit.audited());
        let proxy = Proxy::new(mirrors, authorizer, passthrough, drain.clone());
        let proxy = Arc::new(proxy.admitting(admission).limiting(clients).audited(audit));
        let server = Server::new(proxy, lifecycle.clone()).limited(self.tls.limits());
        let server = server.moving_clients(self.door.goaway_chance);
        process.metrics.with_registry(|registry| server.register(registry));
        lifecycle.spawn_critical("listener", server.run(port));
        process.readiness.started();
        Ok(address)
    }
}

// === impl Process ===

impl Process {
    /// Begins the life of a process: logging, signals, and what operators see.
    pub(crate) fn begin(role: &'static str, common: &CommonArguments) -> Result<Self, Fault> {
        common.start_logging()?;
        if let Err(error) = weir_daemon::limits::raise_open_files() {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
        if !common.core_dumps {
            let forbidden = weir_daemon::limits::forbid_core_dumps();
            forbidden
                .map_err(|error| Fault::failed("forbid core dumps (--core-dumps allows them)", error))?;
        }
        let signals = Signals::install().map_err(|error| Fault::failed("install signal handlers", error))?;
        let lifecycle = Lifecycle::new();
        if common.until_stdin_ends {
            lifecycle.spawn("standard input", until_stdin_ends(lifecycle.clone()));
        }
        let (readiness, metrics) = (Readiness::new(), Metrics::new(role, &lifecycle));
        let admin = match common.admin {
            Some(address) => {
                let port = AdminPort::bind_anywhere(address);
                let port = port.map_err(|error| Fault::usage("--admin", error))?;
                let admin = Admin::start(port, readiness.clone(), metrics.clone(), &lifecycle);
                say(&format!("admin: http://{}", admin.local_address()));
                Some(admin)
            }
            None => None,
        };
        let (signals, clients) = (Mutex::new(Some(signals)), OnceLock::new());
        let reloads = Reloads::default();
        metrics.with_registry(|registry| reloads.register(registry));
        Ok(Self { lifecycle, signals, readiness, metrics, reloads, admin, clients })
    }

    /// What a start comes to; `None` if the process is told to stop before.
    pub(crate) async fn start<T>(
        &self,
        start: impl Future<Output = Result<T, Fault>>,
    ) -> Result<Option<T>, Fault> {
        let mut signals = self.signals.lock().take();
        let started = {
            let signal = async {
                match &mut signals {
                    Some(signals) => signals.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.lifecycle.token().cancelled() => Ok(None),
                signal = signal => {
                    tracing::info!(%signal, "told to stop while starting");
                    self.lifecycle.stop(StopCause::Signal(signal));
                    Ok(None)
                }
                started = start => started.map(Some),
            }
        };
        *self.signals.lock() = signals;
        started
    }

    /// Runs until a signal, and then until clients have left, or until the end of a task that weir cannot do without.
    pub(crate) async fn run(self) -> Result<(), Fault> {
        let Self { lifecycle, signals, readiness, metrics: _metrics, reloads: _reloads, admin, clients } =
            self;
        let Some(signals) = signals.into_inner() else { return Ok(()) };
        let grace = if clients.get().is_some() { GRACE_AFTER_DRAIN } else { GRACE };
        let leave = async {
            readiness.drain();
            let Some((drain, time)) = clients.get() else { return };
            tracing::info!(seconds = time.as_secs_f64(), "draining");
            drain.begin(*time);
            drain.out().await;
        };
        let stopped = lifecycle.run(signals, leave, grace).await;
        if let Some(admin) = admin {
            admin.end().await;
        }
        if !stopped.left.is_empty() {
            tracing::info!(tasks = stopped.left.len(), "ended without waiting for the rest");
        }
        if stopped.cause.is_fault() { Err(Fault::Stopped(format!("{:?}", stopped.cause))) } else { Ok(()) }
    }
}

/// Upstream itself waits 3 s for a revision that it has not got.
fn proof_limit(text: &str) -> Result<Duration, String> {
    let limit = duration::parse(text)?;
    if limit > Duration::from_secs(3) { Err("it is 3s at most".to_owned()) } else { Ok(limit) }
}

/// Tells the process to stop when its standard input ends.
async fn until_stdin_ends(lifecycle: Lifecycle) {
    let ended = async {
        // Whatever is written there means nothing, and a failure is an end.
        let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
    };
    if lifecycle.token().run_until_cancelled(ended).await.is_some() {
        lifecycle.stop(StopCause::Asked);
    }
}

/// Prints a line that scripts wait for.
#[expect(clippy::print_stdout, reason = "the answer of the command to its caller")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// Prints the line that says that weir can answer.
pub(crate) fn say_ready(address: SocketAddr) {
    say(&format!("ready: https://{address}"));
}

/// Writes a file that nobody sees half written, readable by its owner only.
pub(crate) fn write_atomically(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}
