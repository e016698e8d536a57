//! The body of a passed-through answer. An error in it is never swallowed: the server then breaks the client's stream,
//! since a cut list that ends well would be taken for a whole one.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use weir_upstream::ForwardedBody;

/// Upstream's body, or that of a refusal.
#[derive(Debug)]
pub struct PassedBody {
    /// What was read of it already.
    begun: Option<Box<Frame<Bytes>>>,
    rest: Kind,
}

#[derive(Debug)]
enum Kind {
    Upstream(ForwardedBody),
    /// None once sent.
    Whole(Option<Bytes>),
}

// === impl PassedBody ===

impl PassedBody {
    pub(super) fn empty() -> Self {
        Self { begun: None, rest: Kind::Whole(None) }
    }

    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { begun: None, rest: Kind::Whole((!bytes.is_empty()).then_some(bytes)) }
    }

    /// The same once its first bytes are here, or its end.
    pub(super) async fn begun(mut self) -> Result<Self, hyper::Error> {
        if self.begun.is_none() {
            self.begun = self.frame().await.transpose()?.map(Box::new);
        }
        Ok(self)
    }
}

impl From<ForwardedBody> for PassedBody {
    fn from(body: ForwardedBody) -> Self {
        Self { begun: None, rest: Kind::Upstream(body) }
    }
}

impl Body for PassedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        if let Some(frame) = this.begun.take() {
            return Poll::Ready(Some(Ok(*frame)));
        }
        match &mut this.rest {
            Kind::Upstream(body) => Pin::new(body).poll_frame(context),
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_over = match &self.rest {
            Kind::Upstream(body) => body.is_end_stream(),
            Kind::Whole(bytes) => bytes.is_none(),
        };
        self.begun.is_none() && is_over
    }

    fn size_hint(&self) -> SizeHint {
        let rest = match &self.rest {
            Kind::Upstream(body) => body.size_hint(),
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        };
        let begun =
            self.begun.as_ref().and_then(|frame| frame.data_ref()).map_or(0, |data| data.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + begun);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + begun);
        }
        hint
    }
}
