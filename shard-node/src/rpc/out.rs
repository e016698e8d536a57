//! The way out of a task that answers a peer. A stream that is pulled would need no task, but nobody polls it while the
//! peer's window is full: a peer that reads no more would hold what the answer holds for as long as it likes.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::mpsc;
use tonic::Status;
use weir_daemon::Lifecycle;

/// How long a peer may take no message while one waits. Proxies always read, so this is a process that hangs or a
/// connection that is dead; what it could not take until then pins no more than stores keep anyway (their windows are
/// longer).
pub(super) const STALL_LIMIT: Duration = Duration::from_secs(10);

/// How long the last word may wait for a peer.
const LAST_WORD_LIMIT: Duration = Duration::from_secs(1);

/// Where a task puts its messages; one waits while the connection takes another.
#[derive(Debug)]
pub(super) struct Out<T> {
    sender: mpsc::Sender<Result<T, Status>>,
    lifecycle: Lifecycle,
}

/// What the peer gets. When the task is gone it ends; an answer that has an end says it in a message of its own.
#[derive(Debug)]
pub struct Answers<T>(mpsc::Receiver<Result<T, Status>>);

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Lost {
    /// The peer wants no more.
    #[error("the peer is gone")]
    Gone,
    /// The process stops.
    #[error("the process stops")]
    Stopping,
    /// The peer has read nothing for a while.
    #[error("the peer has taken no message for {} s", STALL_LIMIT.as_secs())]
    Stalled,
}

/// Both ends.
pub(super) fn channel<T>(lifecycle: &Lifecycle) -> (Out<T>, Answers<T>) {
    let (sender, receiver) = mpsc::channel(1);
    (Out { sender, lifecycle: lifecycle.clone() }, Answers(receiver))
}

// === impl Out ===

impl<T> Out<T> {
    /// Hands over a message as soon as there is room. Dropped halfway it has done nothing.
    pub(super) async fn send(&self, message: T) -> Result<(), Lost> {
        tokio::select! {
            biased;
            () = self.stopping() => Err(Lost::Stopping),
            sent = tokio::time::timeout(STALL_LIMIT, self.sender.send(Ok(message))) => match sent {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(Lost::Gone),
                Err(_) => Err(Lost::Stalled),
            }
        }
    }

    /// The whole answer at once, on a channel that nothing was sent on.
    pub(super) fn answer(self, message: T) {
        // Who is gone needs no answer.
        let _ = self.sender.try_send(Ok(message));
    }

    /// Says why nothing more comes.
    pub(super) async fn end(self, status: Status) {
        // Who does not take it within its time sees the stream end without it.
        let _ = self.sender.send_timeout(Err(status), LAST_WORD_LIMIT).await;
    }

    /// Resolves when the peer wants no more.
    pub(super) async fn gone(&self) {
        self.sender.closed().await;
    }

    /// Whether the peer wants no more, for a task that works long before it has something to send.
    pub(super) fn is_lost(&self) -> bool {
        self.sender.is_closed()
    }

    /// Resolves when the process stops.
    pub(super) async fn stopping(&self) {
        self.lifecycle.token().cancelled().await;
    }
}

// === impl Answers ===

impl<T> Stream for Answers<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

// === impl Lost ===

impl From<Lost> for Status {
    fn from(lost: Lost) -> Self {
        let message = lost.to_string();
        match lost {
            Lost::Gone => Self::cancelled(message),
            Lost::Stopping => Self::unavailable(message),
            Lost::Stalled => Self::deadline_exceeded(message),
        }
    }
}
