//! The body of a request that may have to be sent again. It keeps a copy of what it has handed out, so a request that
//! upstream certainly did not look at can start from its first byte; beyond a bound it keeps nothing and there is no way
//! back. Only the attempt made last reads: a connection that was given up may go on polling the body it was given.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::{error::BoxError, forward::RequestBody};

/// Most objects are below 10 KiB. 1,000 writes at once keep 64 MiB at worst, and each only until its answer begins.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// What all attempts at one request share.
#[derive(Debug, Clone)]
pub(crate) struct Rewind(Arc<Mutex<Shared>>);

#[derive(Debug)]
struct Shared {
    rest: RequestBody,
    kept: Kept,
    attempt: usize,
    is_taken: bool,
    is_settled: bool,
}

/// What was handed out.
#[derive(Debug)]
enum Kept {
    Whole { data: BytesMut, trailers: Option<HeaderMap> },
    Gone,
}

/// The body as one attempt reads it.
#[derive(Debug)]
struct Attempt {
    shared: Rewind,
    number: usize,
    /// Of the kept data.
    read_bytes: usize,
    has_read_trailers: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("this attempt at the request was given up")]
struct GivenUp;

// === impl Rewind ===

impl Rewind {
    pub(crate) fn new(body: RequestBody) -> Self {
        let kept = Kept::Whole { data: BytesMut::new(), trailers: None };
        let shared = Shared { rest: body, kept, attempt: 0, is_taken: false, is_settled: false };
        Self(Arc::new(Mutex::new(shared)))
    }

    /// Ends the last attempt: it reads no more, although its connection may still try to. Whether another can start.
    pub(crate) fn give_up(&self) -> bool {
        let mut shared = self.lock();
        shared.attempt += 1;
        matches!(shared.kept, Kept::Whole { .. })
    }

    /// The body from its first byte. Only at first, and after an attempt was given up and another can start.
    pub(crate) fn start(&self) -> RequestBody {
        let mut shared = self.lock();
        debug_assert!(
            matches!(shared.kept, Kept::Whole { .. }),
            "a body without its beginning is another body"
        );
        shared.attempt += 1;
        shared.is_taken = false;
        let attempt =
            Attempt { shared: self.clone(), number: shared.attempt, read_bytes: 0, has_read_trailers: false };
        attempt.boxed_unsync()
    }

    /// Whether the last attempt has come as far as a connection that writes it. hyper asks a body for its size before
    /// it makes a stream of the request, and not while the request waits in a queue.
    pub(crate) fn is_taken(&self) -> bool {
        self.lock().is_taken
    }

    /// There will be no attempt after this one. What it has still to read again stays there for it.
    pub(crate) fn settle(&self) {
        self.lock().is_settled = true;
    }

    /// Held while the rest is polled as well: there is one reader at a time, so nobody waits for long.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Shared ===

impl Shared {
    /// The next of what the attempts before did not read.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.is_settled {
            self.kept = Kept::Gone;
        }
        let frame = ready!(Pin::new(&mut self.rest).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => self.kept.add(frame),
            // What a body says after its error means nothing.
            Some(Err(_)) => self.kept = Kept::Gone,
            None => {}
        }
        Poll::Ready(frame)
    }
}

// === impl Kept ===

impl Kept {
    fn add(&mut self, frame: &Frame<Bytes>) {
        let Self::Whole { data, trailers } = self else { return };
        if let Some(told) = frame.trailers_ref() {
            *trailers = Some(told.clone());
        }
        let Some(more) = frame.data_ref() else { return };
        if data.len() + more.len() > KEPT_BYTES {
            *self = Self::Gone;
        } else {
            data.extend_from_slice(more);
        }
    }

    fn data_after(&self, read_bytes: usize) -> &[u8] {
        match self {
            Self::Whole { data, .. } => data.get(read_bytes..).unwrap_or_default(),
            Self::Gone => &[],
        }
    }

    fn trailers(&self) -> Option<&HeaderMap> {
        match self {
            Self::Whole { trailers, .. } => trailers.as_ref(),
            Self::Gone => None,
        }
    }
}

// === impl Attempt ===

impl Attempt {
    /// What is there already.
    fn again(&self, shared: &Shared) -> Option<Frame<Bytes>> {
        let data = shared.kept.data_after(self.read_bytes);
        if !data.is_empty() {
            return Some(Frame::data(Bytes::copy_from_slice(data)));
        }
        let trailers = shared.kept.trailers().filter(|_| !self.has_read_trailers);
        trailers.cloned().map(Frame::trailers)
    }
}

impl Body for Attempt {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let of_all = self.shared.clone();
        let mut shared = of_all.lock();
        if shared.attempt != self.number {
            return Poll::Ready(Some(Err(Box::new(GivenUp))));
        }
        shared.is_taken = true;
        let frame = match self.again(&shared) {
            Some(frame) => Some(Ok(frame)),
            None => ready!(shared.poll_rest(context)),
        };
        if let Some(Ok(frame)) = &frame {
            self.read_bytes += frame.data_ref().map_or(0, Bytes::len);
            self.has_read_trailers |= frame.is_trailers();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let mut shared = self.shared.lock();
        if shared.attempt != self.number {
            return false;
        }
        shared.is_taken = true;
        shared.rest.is_end_stream() && self.again(&shared).is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let mut shared = self.shared.lock();
        if shared.attempt != self.number {
            return SizeHint::default();
        }
        shared.is_taken = true;
        let again = shared.kept.data_after(self.read_bytes).len() as u64;
        let rest = shared.rest.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + again);
        }
        hint.set_lower(rest.lower() + again);
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::StreamBody;

    use super::*;

    fn frames(frames: Vec<Frame<Bytes>>) -> RequestBody {
        StreamBody::new(stream::iter(frames.into_iter().map(Ok::<_, BoxError>))).boxed_unsync()
    }

    fn data(bytes: impl Into<Bytes>) -> Frame<Bytes> {
        Frame::data(bytes.into())
    }

    #[tokio::test]
    async fn an_attempt_reads_what_others_read_then_the_rest_then_the_trailers() {
        let mut trailers = HeaderMap::new();
        trailers.insert("sum", "1".parse().unwrap());
        let rewind = Rewind::new(frames(vec![data("ab"), data("cd"), Frame::trailers(trailers.clone())]));
        let mut first = rewind.start();
        assert!(!rewind.is_taken());
        assert_eq!(first.frame().await.unwrap().unwrap().into_data().unwrap(), "ab");
        assert!(rewind.is_taken());
        for _ in 0..2 {
            assert!(rewind.give_up());
            let again = rewind.start();
            assert!(!rewind.is_taken(), "by the new attempt");
            let read = again.collect().await.unwrap();
            assert_eq!(read.trailers(), Some(&trailers));
            assert_eq!(read.to_bytes(), "abcd");
        }
        let error = first.frame().await.unwrap().unwrap_err();
        assert!(error.is::<GivenUp>(), "{error}");
    }

    #[tokio::test]
    async fn the_size_is_that_of_the_whole_body_for_each_attempt() {
        let rewind =
            Rewind::new(http_body_util::Full::new(Bytes::from("abc")).map_err(|e| match e {}).boxed_unsync());
        for _ in 0..2 {
            let mut body = rewind.start();
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
            body.frame().await.unwrap().unwrap();
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
        }
        let empty = Rewind::new(RequestBody::default()).start();
        assert_eq!((empty.size_hint().exact(), empty.is_end_stream()), (Some(0), true));
    }

    #[tokio::test]
    async fn the_last_attempt_reads_all_also_when_its_answer_begins_first() {
        let rewind = Rewind::new(frames(vec![data("ab"), data("cd")]));
        rewind.start().frame().await.unwrap().unwrap();
        assert!(rewind.give_up());
        let last = rewind.start();
        rewind.settle();
        assert_eq!(last.collect().await.unwrap().to_bytes(), "abcd");
        assert!(!rewind.give_up(), "nothing was kept for another");
    }

    #[tokio::test]
    async fn there_is_no_way_back_beyond_the_bound_or_after_an_error() {
        let most = vec![0; KEPT_BYTES];
        let rewind = Rewind::new(frames(vec![data(most), data("x")]));
        let mut body = rewind.start();
        body.frame().await.unwrap().unwrap();
        assert!(rewind.give_up());
        let body = rewind.start();
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), KEPT_BYTES + 1);
        assert!(!rewind.give_up());

        let broken = stream::iter([Ok(data("x")), Err::<Frame<Bytes>, BoxError>("broken".into())]);
        let rewind = Rewind::new(StreamBody::new(broken).boxed_unsync());
        rewind.start().collect().await.unwrap_err();
        assert!(!rewind.give_up());
    }
}
