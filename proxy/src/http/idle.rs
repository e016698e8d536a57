//! What a connection waits for: a request under way, the head of one, or nothing. A request is under way until its answer has been
//! sent, so a watch is one for as long as it is open, however silent. A head that does not come to its end is given up; a
//! connection on which nothing is under way for long is told to end.
//!
//! hyper's own limit for heads was the plainer way: it also counts the time between two requests, in which clients keep their
//! connections for longer than a head may take.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use weir_upstream::BoxError;

use super::body::{ProxyBody, Segments};

/// How long a connection may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// From the first byte of a head to its last; for the first head from the beginning of the connection.
    pub(super) head: Duration,
    /// From the end of one request to the next.
    pub(super) idle: Duration,
}

/// What was waited for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// A head that was begun, or the first one.
    Head,
    /// A request.
    Idle,
}

/// What a connection waits for. Clones are of the same one.
#[derive(Clone, Debug)]
pub(super) struct Activity(watch::Sender<Doing>);

#[derive(Clone, Copy, Debug)]
struct Doing {
    requests: usize,
    /// Since when there is none, if there is none.
    since: Instant,
    /// Since when a head is waited for, if one is.
    head: Option<Instant>,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct UnderWay(Activity);

/// The body of an answer, with the request that ends with it.
pub(super) struct Answering {
    body: ProxyBody,
    _request: UnderWay,
}

/// A byte stream on which heads are waited for from their first byte on.
#[derive(Debug)]
pub(super) struct Heard<S> {
    stream: S,
    activity: Activity,
}

// === impl Activity ===

impl Activity {
    /// That of a new connection.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self(watch::Sender::new(Doing { requests: 0, since: now, head: Some(now) }))
    }

    /// A request has come.
    pub(super) fn begin(&self) -> UnderWay {
        self.0.send_if_modified(|doing| {
            (doing.requests, doing.head) = (doing.requests + 1, None);
            doing.requests == 1
        });
        UnderWay(self.clone())
    }

    /// Waits until something was waited for too long.
    pub(super) async fn over(&self, waits: Waits) -> Over {
        let mut told = self.0.subscribe();
        loop {
            let doing = *told.borrow_and_update();
            let (at, over) = match doing.head {
                Some(head) => (head + waits.head, Over::Head),
                None => (doing.since + waits.idle, Over::Idle),
            };
            let over = async {
                match doing.requests {
                    0 => sleep_until(at).await,
                    _ => std::future::pending().await,
                }
                over
            };
            tokio::select! {
                biased;
                // The sender is this value's own.
                _ = told.changed() => {}
                over = over => return over,
            }
        }
    }

    fn heard(&self) {
        self.0.send_if_modified(|doing| {
            let begins = doing.requests == 0 && doing.head.is_none();
            if begins {
                doing.head = Some(Instant::now());
            }
            begins
        });
    }
}

// === impl UnderWay ===

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.send_if_modified(|doing| {
            (doing.requests, doing.since) = (doing.requests - 1, Instant::now());
            doing.requests == 0
        });
    }
}

// === impl Answering ===

impl Answering {
    pub(super) fn new(body: ProxyBody, request: UnderWay) -> Self {
        Self { body, _request: request }
    }
}

impl Body for Answering {
    type Data = Segments;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Segments>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl Heard ===

impl<S> Heard<S> {
    pub(super) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.activity.heard();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::time::{advance, timeout};

    use super::*;

    const WAITS: Waits = Waits { head: Duration::from_secs(10), idle: Duration::from_secs(100) };

    async fn over(activity: &Activity) -> Option<Over> {
        timeout(Duration::ZERO, activity.over(WAITS)).await.ok()
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_connection_without_a_request_becomes_idle() {
        let activity = Activity::new();
        let (one, two) = (activity.begin(), activity.begin());
        advance(100 * WAITS.idle).await;
        assert_eq!(over(&activity).await, None, "a watch may be silent");
        drop(one);
        advance(100 * WAITS.idle).await;
        assert_eq!(over(&activity).await, None, "there is another");
        drop(two);
        let began = Instant::now();
        assert_eq!(activity.over(WAITS).await, Over::Idle);
        assert_eq!(began.elapsed(), WAITS.idle, "from the end of the last one on");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_its_time_from_its_first_byte_on() {
        let activity = Activity::new();
        let began = Instant::now();
        assert_eq!(activity.over(WAITS).await, Over::Head, "the first one");
        assert_eq!(began.elapsed(), WAITS.head);
        drop(activity.begin());
        let mut stream = Heard::new(&b"GET / HT"[..], activity.clone());
        advance(WAITS.idle - Duration::from_secs(1)).await;
        assert_eq!(over(&activity).await, None);
        stream.read_u8().await.unwrap();
        let began = Instant::now();
        advance(WAITS.head / 2).await;
        stream.read_u8().await.unwrap();
        assert_eq!(activity.over(WAITS).await, Over::Head);
        assert_eq!(began.elapsed(), WAITS.head, "however slowly it comes");
        let _request = activity.begin();
        stream.read_u8().await.unwrap();
        advance(100 * WAITS.idle).await;
        assert_eq!(over(&activity).await, None, "the bytes of a body are no head");
    }
}
