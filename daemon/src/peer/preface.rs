//! Tells when a peer has begun to speak HTTP/2. hyper waits for a client's preface without a limit and does not say that it
//! still waits; without this, whoever connects and stays silent would keep a descriptor for ever and the process from
//! stopping.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

/// How long a client's preface is.
const PREFACE_BYTES: usize = 24;

/// A stream that counts what comes in until it must be the preface.
pub(super) struct Opening<I> {
    io: I,
    missing: usize,
    tell: Option<oneshot::Sender<()>>,
}

// === impl Opening ===

impl<I> Opening<I> {
    /// With what resolves once so many bytes were read as a preface has; whether they are one, hyper judges.
    pub(super) fn new(io: I) -> (Self, oneshot::Receiver<()>) {
        let (tell, opened) = oneshot::channel();
        (Self { io, missing: PREFACE_BYTES, tell: Some(tell) }, opened)
    }

    fn count(&mut self, bytes: usize) {
        self.missing = self.missing.saturating_sub(bytes);
        if self.missing == 0
            && let Some(tell) = self.tell.take()
        {
            // Nobody waits for it when the connection is ending already.
            let _ = tell.send(());
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Opening<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(cx, buffer));
        if self.tell.is_some() {
            self.count(buffer.filled().len() - before);
        }
        Poll::Ready(read)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Opening<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
