//! The listeners: one for each instance, HTTP/1.1 and HTTP/2, plain or with TLS.
//!
//! Every task belongs to the handle that [`Sim::serve`] returns. Dropping the handle stops the listener and cuts all
//! its connections, as the death of a process does.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::access::Shown;
use super::exchange;
use crate::fault::InstanceId;
use crate::sim::Sim;

/// Where and how an instance listens.
#[derive(Debug, Default)]
pub struct Listen {
    /// A socket that listens already; without one a free port of 127.0.0.1 is taken.
    pub listener: Option<TcpListener>,
    /// TLS with this configuration; its ALPN decides whether HTTP/2 is offered.
    pub tls: Option<Arc<ServerConfig>>,
}

/// An instance that listens. Dropping it is its death.
#[derive(Debug)]
pub struct Handle {
    addr: SocketAddr,
    tasks: TaskTracker,
    guard: DropGuard,
}

/// The limits of upstream's HTTP/2 server.
const STREAMS_PER_CONNECTION: u32 = 100;
const FRAME_BYTES: u32 = 262_144;

// === impl Handle ===

impl Handle {
    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Stops listening, cuts all connections and waits until every task is out.
    pub async fn shutdown(self) {
        let Self { tasks, guard, .. } = self;
        drop(guard);
        tasks.close();
        tasks.wait().await;
    }
}

// === impl Sim ===

impl Sim {
    /// Lets an instance listen.
    ///
    /// # Errors
    /// When no socket can be had.
    pub async fn serve(&self, instance: usize, listen: Listen) -> io::Result<Handle> {
        let listener = match listen.listener {
            Some(listener) => listener,
            None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
        };
        let addr = listener.local_addr()?;
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let server = Server {
            sim: self.clone(),
            id: InstanceId(instance),
            tls: listen.tls.map(TlsAcceptor::from),
            tasks: tasks.clone(),
            stop: stop.clone(),
        };
        tasks.spawn(server.run(listener));
        Ok(Handle { addr, tasks, guard: stop.drop_guard() })
    }
}

#[derive(Clone)]
struct Server {
    sim: Sim,
    id: InstanceId,
    tls: Option<TlsAcceptor>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

// === impl Server ===

impl Server {
    /// Accepts until it is told to stop.
    async fn run(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let one = self.clone();
                    self.tasks.spawn(async move {
                        tokio::select! {
                            biased;
                            () = one.stop.cancelled() => {}
                            () = one.connection(stream) => {}
                        }
                    });
                }
                Err(error) => debug!(%error, "accept failed"),
            }
        }
    }

    async fn connection(&self, stream: TcpStream) {
        // Without this every event of a watch waits for the acknowledgement of the one before.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "nodelay failed");
        }
        match &self.tls {
            None => self.speak(stream, None).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => {
                    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let shown = shown.map(|certificate| Shown(certificate.to_vec()));
                    self.speak(stream, shown).await;
                }
                Err(error) => debug!(%error, "tls handshake failed"),
            },
        }
    }

    async fn speak<S>(&self, stream: S, shown: Option<Shown>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let executor = Tracked { tasks: self.tasks.clone(), stop: self.stop.clone() };
        let mut builder = auto::Builder::new(executor);
        builder
            .http2()
            .max_concurrent_streams(STREAMS_PER_CONNECTION)
            .initial_stream_window_size(FRAME_BYTES)
            .max_frame_size(FRAME_BYTES);
        let (sim, id) = (&self.sim, self.id);
        let service = service_fn(|mut request: Request<Incoming>| {
            if let Some(shown) = &shown {
                request.extensions_mut().insert(shown.clone());
            }
            exchange::answer(sim.clone(), id, request)
        });
        if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
            debug!(error, "connection ended");
        }
    }
}

/// Spawns what hyper spawns (the streams of HTTP/2) where the handle can count and stop it.
#[derive(Clone)]
struct Tracked {
    tasks: TaskTracker,
    stop: CancellationToken,
}

// === impl Tracked ===

impl<F> Executor<F> for Tracked
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, future: F) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                _ = future => {}
            }
        });
    }
}
