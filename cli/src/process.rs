//! What every command shares: the runtime, the parts of a serving process, and its end.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio_rustls::TlsAcceptor;
use weir_core::{GroupResource, WindowBounds};
use weir_daemon::telemetry::{self, LogFormat};
use weir_daemon::tls::ServerTls;
use weir_daemon::{Lifecycle, Listener, Signals, SocketOptions};
use weir_proxy::auth::Authorizer;
use weir_proxy::http::answer::Proxy;
use weir_proxy::http::server::Server;
use weir_proxy::mirror::registry::{MirrorPolicy, Mirrors};
use weir_proxy::passthrough::Passthrough;
use weir_upstream::Upstream;

use crate::fault::Fault;

/// How long connections may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// Options of every command that serves.
#[derive(Debug, Args)]
pub(crate) struct ListenArguments {
    /// Where to listen; a loopback address until weir authenticates clients itself. Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6543")]
    pub(crate) listen: SocketAddr,
    /// Into how many shards each mirror is cut.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) shards: u16,
    /// Resources to mirror, ready before weir says so: pods,deployments.apps. Without it, resources are mirrored as they are
    /// watched, except events, leases and secrets.
    #[arg(long, value_name = "RESOURCE,…", value_delimiter = ',')]
    pub(crate) mirror: Vec<String>,
    /// Write a kubeconfig for clients: weir's address and CA, and the user of the kubeconfig that weir reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) write_kubeconfig: Option<PathBuf>,
    /// A certificate chain in PEM; without it weir makes a certificate of its own.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Log as JSON.
    #[arg(long)]
    pub(crate) log_json: bool,
}

/// A process that serves.
pub(crate) struct Serving {
    lifecycle: Lifecycle,
    signals: Signals,
    pub(crate) address: SocketAddr,
}

/// Runs a command on a runtime of as many threads as there are cores.
pub(crate) fn block_on(command: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| Fault::failed("start the runtime", error))?.block_on(command)
}

// === impl ListenArguments ===

impl ListenArguments {
    /// Starts logging.
    pub(crate) fn start_logging(&self) -> Result<(), Fault> {
        let format = if self.log_json { LogFormat::Json } else { LogFormat::Text };
        telemetry::start(format, None).map_err(|error| Fault::usage("logging", error))
    }

    /// Builds everything, waits until the named mirrors answer, and serves.
    pub(crate) async fn serve(&self, upstream: Upstream, lifecycle: Lifecycle) -> Result<Serving, Fault> {
        if let Err(error) = weir_daemon::limits::raise_open_files() {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
        let signals = Signals::install().map_err(|error| Fault::failed("install signal handlers", error))?;
        let listener = Listener::bind(self.listen, SocketOptions::default())
            .map_err(|error| Fault::usage("--listen", error))?;
        let tls = self.tls()?;
        let address = listener.local_address();
        if let Some(path) = &self.write_kubeconfig {
            let server = format!("https://{address}");
            let written = upstream.export_kubeconfig(&server, tls.ca_pem.as_deref());
            let text = written.map_err(|error| Fault::usage("--write-kubeconfig", error))?;
            write_atomically(path, &text).map_err(|error| Fault::usage("--write-kubeconfig", error))?;
        }
        let mirrors = Arc::new(Mirrors::new(upstream.clone(), lifecycle.clone(), self.policy()));
        let started = mirrors.start_named().await;
        started.map_err(|error| Fault::usage("start the mirrors", error))?;
        let passthrough = Passthrough::new(upstream.clone(), lifecycle.clone());
        let stop = lifecycle.token().clone();
        let proxy = Arc::new(Proxy::new(mirrors, Authorizer::new(upstream), passthrough, stop));
        let server = Server::new(proxy, TlsAcceptor::from(tls.config), lifecycle.clone());
        lifecycle.spawn_critical("listener", server.run(listener));
        Ok(Serving { lifecycle, signals, address })
    }

    fn policy(&self) -> MirrorPolicy {
        let named = self.mirror.iter().filter(|name| !name.is_empty());
        MirrorPolicy {
            shards: usize::from(self.shards),
            bounds: WindowBounds::default(),
            named: named.map(|name| GroupResource::parse(name)).collect(),
        }
    }

    fn tls(&self) -> Result<ServerTls, Fault> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => ServerTls::from_files(certificate, key)
                .map_err(|error| Fault::usage("--tls-cert, --tls-key", error)),
            _ => ServerTls::self_made().map_err(|error| Fault::failed("make a certificate", error)),
        }
    }
}

// === impl Serving ===

impl Serving {
    /// Serves until a signal, or the end of a task that weir cannot do without.
    pub(crate) async fn run(self) -> Result<(), Fault> {
        let stopped = self.lifecycle.run(self.signals, GRACE).await;
        if !stopped.left.is_empty() {
            tracing::info!(tasks = stopped.left.len(), "ended without waiting for the rest");
        }
        if stopped.cause.is_fault() { Err(Fault::Stopped(format!("{:?}", stopped.cause))) } else { Ok(()) }
    }
}

/// Prints the line that scripts wait for.
#[expect(clippy::print_stdout, reason = "the answer of the command to its caller")]
pub(crate) fn say_ready(address: SocketAddr) {
    println!("ready: https://{address}");
}

/// Writes a file that nobody sees half written, readable by its owner only.
fn write_atomically(path: &Path, text: &str) -> std::io::Result<()> {
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
