//! Dials a node: each call makes one connection, and the channel is that connection. tonic's channels otherwise dial again
//! when a call finds the connection gone, which would hide from a session's owner that its node was away; here every call on
//! a channel whose connection was lost fails, and whoever wants another dials.
//!
//! A connection counts as made when the node has spoken on it. In TLS 1.3 a client is done with its handshake before the
//! server has judged its certificate, and a kernel accepts for a process that hangs.

use std::{
    future::ready,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};
use weir_proto::limits::{CONNECTION_WINDOW_BYTES, MAX_FRAME_BYTES, STREAM_WINDOW_BYTES};

use super::{PING_EVERY, PING_LIMIT, PeerTls};
use crate::{Lifecycle, SocketOptions, TaskExecutor};

/// How long a connection may take, from the look-up of its name to the node's first word.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// The authority of every request. The connection is made before tonic sees it, so this names nobody.
const ORIGIN: &str = "http://shard.weir.internal";

/// Dials nodes with the certificates of this process.
#[derive(Clone)]
pub struct Dialer {
    tls: Option<PeerTls>,
    lifecycle: Lifecycle,
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dialer").field("has_certificates", &self.tls.is_some()).finish_non_exhaustive()
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name is not known, or nobody listens.
    #[error("cannot connect to {address}")]
    Connect {
        /// Who was dialed.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is no peer: it shows no certificate of the CA for a shard node, or speaks something else.
    #[error("no handshake with {address}")]
    Handshake {
        /// Who was dialed.
        address: String,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// It ended the connection without a word: it does not take our certificate, or is stopping.
    #[error("{address} refused the connection")]
    Refused {
        /// Who was dialed.
        address: String,
        /// What it said in TLS, or that it said nothing.
        #[source]
        source: io::Error,
    },
    /// It has not spoken in time.
    #[error("no connection to {address} within {} s", CONNECT_LIMIT.as_secs())]
    Late {
        /// Who was dialed.
        address: String,
    },
    /// HTTP/2 did not begin.
    #[error("no HTTP/2 with {address}")]
    Begin {
        /// Who was dialed.
        address: String,
        /// What went wrong.
        #[source]
        source: tonic::transport::Error,
    },
}

/// A connection that tells when it is dropped, which its task does when it is lost.
struct Held<I> {
    io: I,
    _lost: DropGuard,
}

// === impl Dialer ===

impl Dialer {
    /// With these certificates; without any it speaks plain HTTP/2.
    pub fn new(tls: Option<PeerTls>, lifecycle: Lifecycle) -> Self {
        Self { tls, lifecycle }
    }

    /// Makes one connection to `HOST:PORT`. Its task ends when the channel and its clones are dropped and the calls on it
    /// are over, or when it is lost; a call on a lost one fails, and so does every later one.
    pub async fn connect(&self, address: &str) -> Result<Channel, DialError> {
        self.connect_noticing(address, CancellationToken::new()).await
    }

    /// The same, and cancels `lost` when the connection is: a channel does not tell before a call fails.
    pub async fn connect_noticing(
        &self,
        address: &str,
        lost: CancellationToken,
    ) -> Result<Channel, DialError> {
        let late = |_| Err(DialError::Late { address: address.to_owned() });
        // A handshake takes 20 KB of room, which callers need not keep.
        let dial = Box::pin(self.dial(address, lost.drop_guard()));
        tokio::time::timeout(CONNECT_LIMIT, dial).await.unwrap_or_else(late)
    }

    async fn dial(&self, address: &str, lost: DropGuard) -> Result<Channel, DialError> {
        let unconnected = |source| DialError::Connect { address: address.to_owned(), source };
        let refused = |source| DialError::Refused { address: address.to_owned(), source };
        let stream = TcpStream::connect(address).await.map_err(unconnected)?;
        SocketOptions::for_peers().apply(&stream).map_err(unconnected)?;
        let Some(tls) = &self.tls else {
            if stream.peek(&mut [0]).await.map_err(refused)? == 0 {
                return Err(refused(io::ErrorKind::UnexpectedEof.into()));
            }
            return self.channel((stream, lost), address).await;
        };
        let failed = |source| DialError::Handshake { address: address.to_owned(), source };
        let mut stream = tls.connect(stream).await.map_err(failed)?;
        if stream.fill_buf().await.map_err(refused)?.is_empty() {
            return Err(refused(io::ErrorKind::UnexpectedEof.into()));
        }
        self.channel((stream, lost), address).await
    }

    async fn channel<I>(&self, (io, lost): (I, DropGuard), address: &str) -> Result<Channel, DialError>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut only = Some(TokioIo::new(Held { io, _lost: lost }));
        // tonic asks again once the connection is lost; the status is what the call then fails with.
        let connector = tower::service_fn(move |_: Uri| {
            ready(only.take().ok_or_else(|| Status::unavailable("the connection to the node was lost")))
        });
        Endpoint::from_static(ORIGIN)
            .executor(TaskExecutor::until_stop(self.lifecycle.clone(), "dialed connection"))
            .max_frame_size(MAX_FRAME_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_LIMIT)
            .keep_alive_while_idle(true)
            .connect_with_connector(connector)
            .await
            .map_err(|source| DialError::Begin { address: address.to_owned(), source })
    }
}

// === impl Held ===

impl<I: AsyncRead + Unpin> AsyncRead for Held<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Held<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
