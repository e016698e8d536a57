//! Wires with a switch: a relay in front of a server carries bytes both ways until it is cut. Then it keeps its connections,
//! and makes new ones, and nothing comes through: what a network does that drops packets.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use weir_daemon::Lifecycle;

/// Relays that are cut together. Their tasks end with the lifecycle.
pub(crate) struct Relays {
    carries: watch::Sender<bool>,
    lifecycle: Lifecycle,
}

// === impl Relays ===

impl Relays {
    pub(crate) fn new(lifecycle: Lifecycle) -> Self {
        Self { carries: watch::Sender::new(true), lifecycle }
    }

    /// The address of a new relay to a server.
    pub(crate) fn to(&self, server: SocketAddr) -> SocketAddr {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let (carries, lifecycle) = (self.carries.subscribe(), self.lifecycle.clone());
        let relay = async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(server).await else { continue };
                if near.set_nodelay(true).and(far.set_nodelay(true)).is_err() {
                    continue;
                }
                let (near, far) = (near.into_split(), far.into_split());
                for (from, to) in [(near.0, far.1), (far.0, near.1)] {
                    let stop = lifecycle.token().clone();
                    let carry = carry(from, to, carries.clone());
                    lifecycle.spawn("relayed bytes", async move {
                        let _ = stop.run_until_cancelled(carry).await;
                    });
                }
            }
        };
        let stop = self.lifecycle.token().clone();
        self.lifecycle.spawn("relay", async move {
            let _ = stop.run_until_cancelled(relay).await;
        });
        address
    }

    /// Nothing comes through from now on.
    pub(crate) fn cut(&self) {
        self.carries.send_replace(false);
    }

    /// Everything comes through again, first what was held.
    pub(crate) fn heal(&self) {
        self.carries.send_replace(true);
    }
}

/// Carries bytes one way until that way ends.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut carries: watch::Receiver<bool>) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if carries.wait_for(|carries| *carries).await.is_err() {
            return;
        }
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
