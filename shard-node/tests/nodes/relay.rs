//! A relay in front of a node that can stop passing anything on while all its connections stand, as if the node had been
//! stopped.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The relay; its connections end with it.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    is_frozen: Arc<watch::Sender<bool>>,
    _tasks: JoinSet<()>,
}

// === impl Relay ===

impl Relay {
    /// Takes connections at `listener` and passes them on.
    pub(crate) fn new(listener: TcpListener, to: SocketAddr) -> Self {
        let address = listener.local_addr().expect("bound");
        let is_frozen = Arc::new(watch::Sender::new(false));
        let (mut tasks, frozen) = (JoinSet::new(), is_frozen.clone());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((from, _)) = listener.accept().await {
                connections.spawn(pass(from, to, frozen.clone()));
            }
        });
        Self { address, is_frozen, _tasks: tasks }
    }

    pub(crate) fn freeze(&self) {
        self.is_frozen.send_replace(true);
    }

    pub(crate) fn thaw(&self) {
        self.is_frozen.send_replace(false);
    }
}

async fn pass(from: TcpStream, to: SocketAddr, is_frozen: Arc<watch::Sender<bool>>) {
    let Ok(to) = TcpStream::connect(to).await else { return };
    let (from, to) = (from.into_split(), to.into_split());
    tokio::select! {
        () = carry(from.0, to.1, is_frozen.subscribe()) => {}
        () = carry(to.0, from.1, is_frozen.subscribe()) => {}
    }
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_frozen: watch::Receiver<bool>) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut bytes).await {
        if read == 0 || is_frozen.wait_for(|is_frozen| !*is_frozen).await.is_err() {
            return;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
