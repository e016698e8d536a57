//! The body of a passed-through answer. An error in it is never swallowed: the server then breaks the client's stream,
//! since a cut list that ends well would be taken for a whole one.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};
use weir_upstream::ForwardedBody;

/// Upstream's body, or that of a refusal.
#[derive(Debug)]
pub struct PassedBody {
    /// What was read of it already.
    begun: VecDeque<Frame<Bytes>>,
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
        Self { begun: VecDeque::new(), rest: Kind::Whole(None) }
    }

    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { begun: VecDeque::new(), rest: Kind::Whole((!bytes.is_empty()).then_some(bytes)) }
    }

    /// The same once `bytes` bytes of it are here, or its end, or what came within the time.
    pub(super) async fn begun(mut self, bytes: usize, within: Duration) -> Result<Self, hyper::Error> {
        let (mut begun, mut length, until) = (VecDeque::new(), 0, Instant::now() + within);
        while length < bytes {
            let Ok(frame) = timeout_at(until, self.frame()).await else { break };
            let Some(frame) = frame.transpose()? else { break };
            length += length_of(&frame);
            begun.push_back(frame);
        }
        self.begun = begun;
        Ok(self)
    }
}

impl From<ForwardedBody> for PassedBody {
    fn from(body: ForwardedBody) -> Self {
        Self { begun: VecDeque::new(), rest: Kind::Upstream(body) }
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
        if let Some(frame) = this.begun.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
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
        self.begun.is_empty() && is_over
    }

    fn size_hint(&self) -> SizeHint {
        let rest = match &self.rest {
            Kind::Upstream(body) => body.size_hint(),
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        };
        let begun: u64 = self.begun.iter().map(|frame| length_of(frame) as u64).sum();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + begun);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + begun);
        }
        hint
    }
}

fn length_of(frame: &Frame<Bytes>) -> usize {
    frame.data_ref().map_or(0, Bytes::len)
}
