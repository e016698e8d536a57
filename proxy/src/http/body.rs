//! Bodies of answers. Data is a list of shared byte ranges, so that an object goes from the store to the socket without a
//! copy of weir's own, and a burst of events is one write.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};
use weir_upstream::BoxError;

use super::clients::Served;
use super::gate::Place;
use super::trail::Trail;
use crate::auth::Standing;
use crate::mirror::usage::InUse;
use crate::passthrough::PassedBody;

/// Byte ranges that are sent one after the other.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    parts: VecDeque<Bytes>,
    remaining: usize,
}

/// A stream of data.
pub type DataStream = Pin<Box<dyn Stream<Item = Result<Segments, BoxError>> + Send>>;

/// The body of an answer.
pub enum ProxyBody {
    /// All of it.
    Full(Option<Bytes>),
    /// Made while it is sent; an error aborts the answer visibly.
    Stream(DataStream, Held),
    /// Upstream's, and a place in the gate until it has ended.
    Passed(PassedBody, Option<Place>),
    /// Any of these, of a request that holds a place among those of its client.
    Served(Box<Served>),
}

/// What a body that is made while it is sent holds until it has ended.
#[derive(Debug, Default)]
pub struct Held {
    /// The mirror that it is of, which is in use.
    pub mirror: Option<InUse>,
    /// Ends it, between two pieces, when its client may not have any more of it.
    pub standing: Option<Standing>,
    /// Tells of its end, where that is audited.
    pub audit: Option<Trail>,
}

// === impl Segments ===

impl Segments {
    /// Adds a range.
    pub fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.remaining += part.len();
            self.parts.push_back(part);
        }
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.remaining
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// The ranges.
    pub fn parts(&self) -> impl Iterator<Item = &Bytes> {
        self.parts.iter()
    }
}

impl Extend<Segments> for Segments {
    fn extend<T: IntoIterator<Item = Self>>(&mut self, others: T) {
        for other in others {
            self.remaining += other.remaining;
            self.parts.extend(other.parts);
        }
    }
}

impl From<Bytes> for Segments {
    fn from(part: Bytes) -> Self {
        let mut segments = Self::default();
        segments.push(part);
        segments
    }
}

impl Buf for Segments {
    fn remaining(&self) -> usize {
        self.remaining
    }

    fn chunk(&self) -> &[u8] {
        self.parts.front().map_or(&[], |part| part)
    }

    fn advance(&mut self, count: usize) {
        let mut left = count;
        self.remaining -= count;
        while left > 0 {
            let Some(front) = self.parts.front_mut() else { return };
            if front.len() > left {
                front.advance(left);
                return;
            }
            left -= front.len();
            self.parts.pop_front();
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let count = slices.len().min(self.parts.len());
        for (slice, part) in slices.iter_mut().zip(&self.parts) {
            *slice = IoSlice::new(part);
        }
        count
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        if let Some(front) = self.parts.front_mut()
            && front.len() >= length
        {
            let bytes = front.split_to(length);
            self.remaining -= length;
            if front.is_empty() {
                self.parts.pop_front();
            }
            return bytes;
        }
        let mut copied = Vec::with_capacity(length);
        while copied.len() < length {
            let chunk = self.chunk();
            let take = chunk.len().min(length - copied.len());
            copied.extend_from_slice(&chunk[..take]);
            self.advance(take);
        }
        copied.into()
    }
}

// === impl ProxyBody ===

impl ProxyBody {
    /// A whole body.
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::Full(Some(bytes.into()))
    }

    /// A body made while it is sent.
    pub fn stream(stream: impl Stream<Item = Result<Segments, BoxError>> + Send + 'static) -> Self {
        Self::Stream(Box::pin(stream), Held::default())
    }

    /// The same with what it holds, if it is made while it is sent.
    pub fn holding(self, held: impl FnOnce() -> Held) -> Self {
        match self {
            Self::Stream(stream, _) => Self::Stream(stream, held()),
            other => other,
        }
    }

    /// The same with its end told; one that is here as a whole has come to it.
    pub fn audited(self, trail: Trail) -> Self {
        match self {
            Self::Stream(stream, held) => Self::Stream(stream, Held { audit: Some(trail), ..held }),
            other => other,
        }
    }

    fn poll_any(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Frame<Segments>>, BoxError>> {
        let frame = match self {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes.into())))),
            Self::Stream(stream, held) => {
                if held.is_lost(context) {
                    return Poll::Ready(Ok(None));
                }
                stream.as_mut().poll_next(context).map_ok(Frame::data)
            }
            Self::Passed(body, _) => {
                let frame = Pin::new(body).poll_frame(context);
                frame.map_ok(|frame| frame.map_data(Segments::from)).map_err(Into::into)
            }
            Self::Served(served) => served.poll(context),
        };
        frame.map(Option::transpose)
    }
}

impl Body for ProxyBody {
    type Data = Segments;
    type Error = BoxError;

    /// A frame without data is left out: it tells nobody anything, and clients end a connection on which many came.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Segments>, BoxError>>> {
        loop {
            let frame = ready!(self.poll_any(context)?);
            let is_empty = |frame: &Frame<Segments>| frame.data_ref().is_some_and(Segments::is_empty);
            if !frame.as_ref().is_some_and(is_empty) {
                return Poll::Ready(frame.map(Ok));
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Stream(..) => false,
            Self::Passed(body, _) => body.is_end_stream(),
            Self::Served(served) => served.body().is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(..) => SizeHint::default(),
            Self::Passed(body, _) => body.size_hint(),
            Self::Served(served) => served.body().size_hint(),
        }
    }
}

// === impl Held ===

impl Held {
    /// Whether the client may not have any more. If not, it is told when that changes.
    fn is_lost(&mut self, context: &mut Context<'_>) -> bool {
        self.standing.as_mut().is_some_and(|standing| standing.poll_lost(context).is_ready())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_like_one_buffer_however_it_is_taken() {
        let mut segments = Segments::default();
        for part in ["ab", "", "cde", "f"] {
            segments.push(Bytes::from_static(part.as_bytes()));
        }
        assert_eq!(segments.remaining(), 6);
        segments.advance(1);
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(segments.chunks_vectored(&mut slices), 3);
        assert_eq!(segments.copy_to_bytes(3), "bcd");
        assert_eq!(segments.copy_to_bytes(2), "ef");
        assert!(segments.is_empty() && !segments.has_remaining());
    }
}
