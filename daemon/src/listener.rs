//! The listening socket and the options of what it accepts. By itself it takes loopback addresses only. Certificates let it
//! take any address: those of weir's own processes by [`PeerPort`](crate::peer::PeerPort), and one that clients are shown by
//! [`ClientPort`](crate::clients::ClientPort).
//!
//! The send buffer is small on purpose. The kernel's default lets a client that does not read hold two megabytes of
//! kernel memory; ten thousand of those are the end of the machine.

use std::{io, net::SocketAddr, time::Duration};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

/// Connections that wait to be accepted; more are refused by the kernel, and clients try again.
const BACKLOG: i32 = 1024;

/// How long accepting pauses when the process has no descriptors left.
const FULL_PAUSE: Duration = Duration::from_millis(50);

/// The options of an accepted socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// `SO_SNDBUF`: bytes of kernel memory for what a client has not read. It bounds one connection to this many bytes
    /// a round trip.
    pub send_buffer: usize,
    /// `TCP_KEEPALIVE` time: a quiet connection is probed after this.
    pub keepalive_after: Duration,
    /// `TCP_KEEPINTVL`: time between probes.
    pub keepalive_interval: Duration,
    /// `TCP_USER_TIMEOUT`: how long sent bytes, probes included, may stay unacknowledged before the peer counts as dead.
    pub unacknowledged: Duration,
}

/// A bound listener.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    options: SocketOptions,
}

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address can be reached from other machines.
    #[error(
        "cannot listen on {0}: without a certificate for clients, weir takes loopback addresses (127.0.0.1, ::1) only"
    )]
    NotLoopback(SocketAddr),
    /// The address can be reached from other machines, and peers show no certificates.
    #[error(
        "cannot listen for peers on {0}: without certificates of a peer CA, weir takes loopback addresses \
         (127.0.0.1, ::1) only"
    )]
    PeersNotLoopback(SocketAddr),
    /// The system refused.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

// === impl SocketOptions ===

impl Default for SocketOptions {
    /// A dead peer is found within 45 s: 30 s of quiet, then probes every 5 s until 15 s have gone unanswered.
    fn default() -> Self {
        Self {
            send_buffer: 64 * 1024,
            keepalive_after: Duration::from_secs(30),
            keepalive_interval: Duration::from_secs(5),
            unacknowledged: Duration::from_secs(45),
        }
    }
}

impl SocketOptions {
    /// Between weir's processes: like the default, with room for what is under way on a fast network. 1 MiB a round trip
    /// of 2 ms is 500 MiB/s; the kernel may cut it (`net.core.wmem_max`). Peers are few, so it costs little.
    pub(crate) fn for_peers() -> Self {
        Self { send_buffer: 1024 * 1024, ..Self::default() }
    }

    pub(crate) fn apply(self, stream: &TcpStream) -> io::Result<()> {
        let socket = SockRef::from(stream);
        socket.set_tcp_nodelay(true)?;
        socket.set_send_buffer_size(self.send_buffer)?;
        let keepalive =
            TcpKeepalive::new().with_time(self.keepalive_after).with_interval(self.keepalive_interval);
        socket.set_tcp_keepalive(&keepalive)?;
        set_user_timeout(&socket, self.unacknowledged)
    }
}

// === impl Listener ===

impl Listener {
    /// Binds a loopback address; port 0 takes a free one. Must be called inside the runtime.
    pub fn bind(address: SocketAddr, options: SocketOptions) -> Result<Self, ListenError> {
        if !is_loopback(address) {
            return Err(ListenError::NotLoopback(address));
        }
        Self::bind_anywhere(address, options)
    }

    /// Binds any address. Whoever calls this authenticates everybody who connects.
    pub(crate) fn bind_anywhere(address: SocketAddr, options: SocketOptions) -> Result<Self, ListenError> {
        let bind = || {
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            let socket = TcpListener::from_std(socket.into())?;
            Ok(Self { address: socket.local_addr()?, socket, options })
        };
        bind().map_err(|source| ListenError::Bind { address, source })
    }

    /// The address bound, with the port that was taken.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection. It does not fail: a connection that is gone already is skipped, and without descriptors it
    /// waits for some to come back. Safe to drop halfway.
    pub async fn accept(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => match self.options.apply(&stream) {
                    Ok(()) => return (stream, peer),
                    Err(error) => debug!(%peer, %error, "connection gone before it was accepted"),
                },
                Err(error) if is_of_one_connection(&error) => {
                    debug!(%error, "connection gone in the backlog");
                }
                Err(error) => {
                    warn!(%error, "cannot accept connections, trying again");
                    tokio::time::sleep(FULL_PAUSE).await;
                }
            }
        }
    }
}

/// Whether only processes of this machine reach the address; one of IPv4 may be written as one of IPv6.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(target_os = "linux")]
fn set_user_timeout(socket: &SockRef<'_>, timeout: Duration) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(timeout))
}

/// Other systems have no such option; the keep-alive probes alone find the dead peer there.
#[cfg(not(target_os = "linux"))]
fn set_user_timeout(_: &SockRef<'_>, _: Duration) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[tokio::test]
    async fn only_loopback_is_taken_and_the_refusal_says_why() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
            let error = Listener::bind(address.parse().unwrap(), SocketOptions::default()).unwrap_err();
            assert!(matches!(error, ListenError::NotLoopback(_)), "{address}");
            assert!(error.to_string().contains("without a certificate"), "{error}");
        }
        let address = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 9), 0));
        assert_ne!(Listener::bind(address, SocketOptions::default()).unwrap().local_address().port(), 0);
    }

    #[tokio::test]
    async fn a_taken_port_is_refused_with_the_address() {
        let first = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), SocketOptions::default()).unwrap();
        let error = Listener::bind(first.local_address(), SocketOptions::default()).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot listen on {}", first.local_address()));
    }

    #[tokio::test]
    async fn an_accepted_socket_has_the_options() {
        let options = SocketOptions::default();
        let listener = Listener::bind((Ipv6Addr::LOCALHOST, 0).into(), options)
            .or_else(|_| Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), options))
            .unwrap();
        let (connected, (stream, peer)) =
            tokio::join!(TcpStream::connect(listener.local_address()), listener.accept());
        assert_eq!(connected.unwrap().local_addr().unwrap(), peer);
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), options.keepalive_after);
        // Linux doubles what it is given, for its own bookkeeping.
        assert_eq!(socket.send_buffer_size().unwrap(), 2 * options.send_buffer);
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(options.unacknowledged));
    }
}
