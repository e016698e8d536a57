//! Bodies of answers, and the ways in which they can go wrong: too slow, or broken off.
//!
//! A broken body ends in an error, so the client sees a connection or stream that was reset, never a short answer that
//! looks whole.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;

/// The body of an answer.
pub(crate) type Body = UnsyncBoxBody<Bytes, Broken>;

/// The simulated connection breaks here.
#[derive(Debug, thiserror::Error)]
#[error("the simulated connection breaks here")]
pub(crate) struct Broken;

/// How a body flows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flow {
    /// At most this rate.
    pub(crate) bytes_per_second: Option<u32>,
    /// It breaks off after so many bytes.
    pub(crate) truncate_at: Option<usize>,
}

/// Longer bodies are sent in chunks and without a length, as upstream sends them.
const LONGEST_WITH_LENGTH: usize = 2_048;

/// What is written at once: the client's pace, not this, decides how much is held.
const CHUNK_BYTES: usize = 16 * 1_024;

// === impl Flow ===

impl Flow {
    /// The time that so many bytes take.
    pub(crate) fn duration(self, bytes: usize) -> Option<Duration> {
        self.bytes_per_second.map(|rate| Duration::from_secs_f64(bytes as f64 / f64::from(rate.max(1))))
    }

    /// How much is written at once: a twentieth of a second's worth where the rate is limited.
    fn chunk(self) -> usize {
        self.bytes_per_second.map_or(CHUNK_BYTES, |rate| (rate as usize / 20).clamp(1, CHUNK_BYTES))
    }
}

/// A body that is known as a whole.
pub(crate) fn whole(text: String, flow: Flow) -> Body {
    let bytes = Bytes::from(text);
    let is_plain = flow.bytes_per_second.is_none() && flow.truncate_at.is_none();
    if is_plain && bytes.len() <= LONGEST_WITH_LENGTH {
        return Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
    }
    let end = flow.truncate_at.unwrap_or(bytes.len()).min(bytes.len());
    let rest = bytes.slice(..end);
    let chunks = stream::unfold(rest, move |mut rest| async move {
        if rest.is_empty() {
            return None;
        }
        let chunk = rest.split_to(rest.len().min(flow.chunk()));
        if let Some(time) = flow.duration(chunk.len()) {
            tokio::time::sleep(time).await;
        }
        Some((Ok(Frame::data(chunk)), rest))
    });
    let broken = stream::iter(flow.truncate_at).then(|_| async { Err(broken().await) });
    StreamBody::new(chunks.chain(broken)).boxed_unsync()
}

/// The break of a connection. hyper throws away what it has not sent when a body fails, so it gets a turn to send.
pub(crate) async fn broken() -> Broken {
    tokio::task::yield_now().await;
    Broken
}

/// A body without a length, as all bodies of watches are, that is known as a whole.
pub(crate) fn lines(text: String) -> Body {
    let frame = (!text.is_empty()).then(|| Ok(Frame::data(Bytes::from(text))));
    StreamBody::new(stream::iter(frame)).boxed_unsync()
}

/// A body that is made as it is read.
pub(crate) fn streamed<S, F, R>(state: S, next: F) -> Body
where
    S: Send + 'static,
    F: FnMut(S) -> R + Send + 'static,
    R: Future<Output = Option<(Result<Frame<Bytes>, Broken>, S)>> + Send + 'static,
{
    StreamBody::new(stream::unfold(state, next)).boxed_unsync()
}
