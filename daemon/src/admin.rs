//! What operators ask a process over plain HTTP/1.1: `/livez`, `/readyz` and `/metrics`. None of it is secret, so nobody is
//! authenticated; the probes of a kubelet come from another address than loopback, and [`AdminPort::bind_anywhere`] lets
//! them.
//!
//! It answers longer than everything else: while the process drains it says so, and a drain that hangs can be looked at. So
//! its tasks have a life of their own, and [`Admin::end`] is what comes after [`Lifecycle::run`]. In the life of the
//! process one task stands for it, so that its fault is the fault of the process.

pub mod metrics;
mod pages;
mod serve;

use std::{net::SocketAddr, time::Duration};

use crate::{
    Lifecycle, Listener, Readiness, SocketOptions, StopCause,
    listener::{ListenError, is_loopback},
};

use self::metrics::Metrics;

/// How long [`Admin::end`] waits for answers that are on their way.
const END_LIMIT: Duration = Duration::from_secs(1);

/// A bound address for operators.
#[derive(Debug)]
pub struct AdminPort(Listener);

/// Why there is no port for operators.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address can be reached from other machines, and nobody said that this is wanted.
    #[error("the admin address {0} is not one of loopback (127.0.0.1, ::1)")]
    NotLoopback(SocketAddr),
    /// The address cannot be bound.
    #[error("no admin endpoint")]
    Listen(#[from] ListenError),
}

/// The endpoint while it answers.
#[derive(Debug)]
#[must_use = "dropping it ends the endpoint, which stops the process"]
pub struct Admin {
    own: Lifecycle,
    address: SocketAddr,
}

/// What is answered from.
#[derive(Clone, Debug)]
struct State {
    readiness: Readiness,
    metrics: Metrics,
}

// === impl AdminPort ===

impl AdminPort {
    /// Binds an address of loopback; port 0 takes a free one. Must be called inside the runtime.
    pub fn bind(address: SocketAddr) -> Result<Self, AdminError> {
        if is_loopback(address) {
            Self::bind_anywhere(address)
        } else {
            Err(AdminError::NotLoopback(address))
        }
    }

    /// Like [`AdminPort::bind`] for any address: whoever reaches it may read the names and figures of this process.
    pub fn bind_anywhere(address: SocketAddr) -> Result<Self, AdminError> {
        Ok(Self(Listener::bind_anywhere(address, SocketOptions::default())?))
    }

    /// The address bound, with the port that was taken.
    pub fn local_address(&self) -> SocketAddr {
        self.0.local_address()
    }
}

// === impl Admin ===

impl Admin {
    /// Answers on `port` until [`Admin::end`]. When the process is told to stop, `readiness` is drained, if nobody has done
    /// so before.
    pub fn start(port: AdminPort, readiness: Readiness, metrics: Metrics, lifecycle: &Lifecycle) -> Self {
        let own = Lifecycle::new();
        let address = port.local_address();
        let state = State { readiness: readiness.clone(), metrics };
        own.spawn_critical("admin listener", serve::run(port.0, state, own.clone()));
        let (stop, fault) = (lifecycle.token().clone(), own.token().clone());
        lifecycle.spawn_critical("admin", async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => readiness.drain(),
                () = fault.cancelled() => {}
            }
        });
        Self { own, address }
    }

    /// Where it answers.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, after the answers that are on their way. Call it when everything else is out.
    pub async fn end(self) {
        self.own.stop(StopCause::Asked);
        self.own.stopped(END_LIMIT).await;
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.own.stop(StopCause::Asked);
    }
}

#[cfg(test)]
mod tests;
