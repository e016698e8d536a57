//! How many connections there are, and how they become ones. Those that find no place wait in the kernel.
//!
//! A handshake has two costs, and each has a bound of its own. Its computing is some half a millisecond of one core at once;
//! so many may compute as there are cores, and the rest wait for their turn outside of the runtime's queue, where they would
//! stand before the events of open streams. And it waits for the client, who may never go on: such handshakes cost a place
//! each, and when places run out, whoever has been waited for longest gives way.

use std::future::Future;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::warn;
use weir_daemon::clients::ClientTls;

/// Handshakes under way for each core, and in all. What a client sends of one is at most 64 KiB, mostly 1: 1,024 × 64 KiB =
/// 64 MiB at the worst.
const HANDSHAKES_A_CORE: usize = 256;
const MAX_HANDSHAKES: usize = 1_024;
/// How often it is said that there are as many connections as there may be.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// Bounds of connections.
#[derive(Clone, Copy, Debug)]
pub struct EntranceLimits {
    /// How many there may be. One that is idle holds some 40 KiB: 65,536 × 40 KiB = 2.5 GiB.
    pub connections: usize,
    /// How many of them may be in their handshake.
    pub handshakes: usize,
    /// How many handshakes are computed at once.
    pub turns: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long a client is waited for while others have no place. Those who wait in the kernel are at most 1,024, so they
    /// are all let in after 1,024 / `handshakes` times as much.
    pub hurried: Duration,
}

/// The way in. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Entrance(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: EntranceLimits,
    connections: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    turns: Semaphore,
    /// Whether somebody waits for a place for a handshake.
    crowded: watch::Sender<bool>,
    metrics: EntranceMetrics,
}

/// A place for a connection that has yet to make its handshake.
#[derive(Debug)]
pub(super) struct Place {
    connection: Counted,
    handshake: Counted,
}

/// Counts as a connection, or as a handshake, while it lives.
#[derive(Debug)]
pub(super) struct Counted {
    gauge: Gauge,
    _permit: OwnedSemaphorePermit,
}

/// What operators see of connections. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct EntranceMetrics {
    connections: Gauge,
    handshakes: Gauge,
    full: Counter,
    failed: Family<Of, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    reason: &'static str,
}

/// Why a handshake did not come about.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    /// The client broke it off, or speaks something else.
    #[error("handshake failed")]
    Failed(#[source] io::Error),
    /// The client took too long.
    #[error("handshake took too long")]
    Slow,
    /// The client took long while others waited.
    #[error("handshake gave way to others")]
    Hurried,
}

// === impl EntranceLimits ===

impl Default for EntranceLimits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self {
            connections: 65_536,
            handshakes: (cores * HANDSHAKES_A_CORE).min(MAX_HANDSHAKES),
            turns: (cores / 2).max(1),
            handshake: Duration::from_secs(10),
            hurried: Duration::from_secs(1),
        }
    }
}

// === impl Entrance ===

impl Entrance {
    pub(super) fn new(limits: EntranceLimits, metrics: EntranceMetrics) -> Self {
        Self(Arc::new(Shared {
            limits,
            connections: Arc::new(Semaphore::new(limits.connections)),
            handshakes: Arc::new(Semaphore::new(limits.handshakes)),
            turns: Semaphore::new(limits.turns),
            crowded: watch::Sender::new(false),
            metrics,
        }))
    }

    /// A place for one more connection; until there is one, none is accepted. Safe to drop halfway. `said` is when it was last
    /// said that there was none.
    pub(super) async fn place(&self, said: &mut Option<Instant>) -> Place {
        let Shared { connections, handshakes, crowded, metrics, .. } = &*self.0;
        let connection = match connections.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                self.full(said);
                permit(connections).await
            }
        };
        let handshake = match handshakes.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _crowd = Crowd::gather(crowded);
                permit(handshakes).await
            }
        };
        Place {
            connection: Counted::new(&metrics.connections, connection),
            handshake: Counted::new(&metrics.handshakes, handshake),
        }
    }

    /// The handshake of a client. What it returns beside is held as long as the connection is.
    pub(super) async fn handshake(
        &self,
        (stream, place): (TcpStream, Place),
        tls: &ClientTls,
    ) -> Result<(TlsStream<TcpStream>, Counted), HandshakeError> {
        let Place { connection, handshake: _handshake } = place;
        let made = self.hands_shaken(stream, tls).await;
        match made {
            Ok(stream) => Ok((stream, connection)),
            Err(error) => {
                self.0.metrics.failed.get_or_create(&Of { reason: error.reason() }).inc();
                Err(error)
            }
        }
    }

    async fn hands_shaken(
        &self,
        stream: TcpStream,
        tls: &ClientTls,
    ) -> Result<TlsStream<TcpStream>, HandshakeError> {
        let until = Instant::now() + self.0.limits.handshake;
        let hello = LazyConfigAcceptor::new(Default::default(), stream);
        let begun = self.waited_for(hello, until).await?;
        let rest = {
            // The semaphore is never closed.
            let _turn = self.0.turns.acquire().await;
            begun.into_stream(tls.config())
        };
        self.waited_for(rest, until).await
    }

    /// What the client sends next, if it comes in time.
    async fn waited_for<T>(
        &self,
        step: impl Future<Output = io::Result<T>>,
        until: Instant,
    ) -> Result<T, HandshakeError> {
        let hurried = Instant::now() + self.0.limits.hurried;
        let mut crowded = self.0.crowded.subscribe();
        let gives_way = async {
            sleep_until(hurried).await;
            // Its sender is here.
            let _ = crowded.wait_for(|is_crowded| *is_crowded).await;
        };
        tokio::select! {
            biased;
            done = step => done.map_err(HandshakeError::Failed),
            () = sleep_until(until) => Err(HandshakeError::Slow),
            () = gives_way => Err(HandshakeError::Hurried),
        }
    }

    fn full(&self, said: &mut Option<Instant>) {
        self.0.metrics.full.inc();
        if said.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
            *said = Some(Instant::now());
            let connections = self.0.limits.connections;
            warn!(connections, "there are as many connections as there may be, others wait");
        }
    }
}

/// Says that somebody waits, as long as it lives.
struct Crowd<'a>(&'a watch::Sender<bool>);

// === impl Crowd ===

impl<'a> Crowd<'a> {
    fn gather(crowded: &'a watch::Sender<bool>) -> Self {
        crowded.send_replace(true);
        Self(crowded)
    }
}

impl Drop for Crowd<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

// === impl Counted ===

impl Counted {
    fn new(gauge: &Gauge, permit: OwnedSemaphorePermit) -> Self {
        gauge.inc();
        Self { gauge: gauge.clone(), _permit: permit }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

// === impl EntranceMetrics ===

impl EntranceMetrics {
    /// Shows them.
    pub fn register(&self, registry: &mut Registry) {
        let connections = "Connections of clients, and one that is waited for";
        registry.register("client_connections", connections, self.connections.clone());
        let handshakes = "Connections of clients that are in their handshake, and one that is waited for";
        registry.register("client_handshakes", handshakes, self.handshakes.clone());
        let full = "How often a connection had to wait because there were as many as there may be";
        registry.register("client_connections_full", full, self.full.clone());
        let failed = "Handshakes of clients that did not come about";
        registry.register("client_handshakes_failed", failed, self.failed.clone());
    }
}

// === impl HandshakeError ===

impl HandshakeError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Slow => "slow",
            Self::Hurried => "hurried",
        }
    }
}

async fn permit(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    semaphore.clone().acquire_owned().await.expect("no semaphore of an entrance is ever closed")
}

#[cfg(test)]
mod tests;
