//! The body of a passed-through answer. An error in it is never swallowed: the server then breaks the client's stream,
//! since a cut list that ends well would be taken for a whole one.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use weir_upstream::ForwardedBody;

/// Upstream's body, or that of a refusal.
#[derive(Debug)]
pub struct PassedBody(Kind);

#[derive(Debug)]
enum Kind {
    Upstream(ForwardedBody),
    /// None once sent.
    Whole(Option<Bytes>),
}

// === impl PassedBody ===

impl PassedBody {
    pub(super) fn empty() -> Self {
        Self(Kind::Whole(None))
    }

    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }
}

impl From<ForwardedBody> for PassedBody {
    fn from(body: ForwardedBody) -> Self {
        Self(Kind::Upstream(body))
    }
}

impl Body for PassedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.get_mut().0 {
            Kind::Upstream(body) => Pin::new(body).poll_frame(context),
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Upstream(body) => body.is_end_stream(),
            Kind::Whole(bytes) => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Upstream(body) => body.size_hint(),
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}
