//! Upstream's answer to a watch on its way through: its bytes are not looked into, only where an event ends, so that the watch
//! of a client that is to leave ends behind one. A client that finds half an event, or a broken stream, lists again.

use bytes::Bytes;
use http::response::Parts;
use http::{StatusCode, header};
use http_body_util::BodyExt;
use weir_upstream::BoxError;

use super::body::{ProxyBody, Segments};
use super::gate::Place;
use crate::drain::Turn;
use crate::passthrough::PassedBody;

/// Where events end in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Behind a new line.
    Lines {
        /// Whether the last byte was one.
        is_between: bool,
    },
    /// Behind as many bytes as four of them in front say.
    Lengths {
        /// How many of the four were there.
        head: u8,
        /// What they say so far; from the fourth on, what is still to come.
        left: u32,
    },
}

/// A watch that is passed through.
struct Passing {
    body: PassedBody,
    framing: Framing,
    turn: Turn,
    _place: Option<Place>,
}

/// The body of a passed watch whose framing is known.
pub(super) fn watch(body: PassedBody, framing: Framing, (turn, place): (Turn, Option<Place>)) -> ProxyBody {
    let passing = Passing { body, framing, turn, _place: place };
    ProxyBody::stream(futures_util::stream::try_unfold(passing, |mut passing| async move {
        Ok::<_, BoxError>(passing.next().await?.map(|data| (Segments::from(data), passing)))
    }))
}

// === impl Framing ===

impl Framing {
    /// How the events of a watch are framed that has been answered like this; `None` where nobody can tell.
    pub(super) fn of(answer: &Parts) -> Option<Self> {
        if answer.status != StatusCode::OK || answer.headers.contains_key(header::CONTENT_ENCODING) {
            return None;
        }
        let media = answer.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        match media.split(';').next()?.trim() {
            "application/json" => Some(Self::Lines { is_between: true }),
            "application/vnd.kubernetes.protobuf" => Some(Self::Lengths { head: 0, left: 0 }),
            _ => None,
        }
    }

    fn is_between(self) -> bool {
        match self {
            Self::Lines { is_between } => is_between,
            Self::Lengths { head, .. } => head == 0,
        }
    }

    fn pass(&mut self, mut data: &[u8]) {
        match self {
            Self::Lines { is_between } => {
                *is_between = data.last().map_or(*is_between, |last| *last == b'\n');
            }
            Self::Lengths { head, left } => {
                while let Some((first, rest)) = data.split_first() {
                    if *head < 4 {
                        (*head, *left, data) = (*head + 1, *left << 8 | u32::from(*first), rest);
                    } else {
                        let taken = data.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                        // As many as there are of 32 bits at most.
                        *left -= u32::try_from(taken).unwrap_or(*left);
                        data = &data[taken..];
                    }
                    if *head == 4 && *left == 0 {
                        *head = 0;
                    }
                }
            }
        }
    }
}

// === impl Passing ===

impl Passing {
    /// The next bytes; `None` at the end, which is upstream's or that of the client's stay. A watch has no trailers.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            let is_between = self.framing.is_between();
            if is_between && self.turn.has_come() {
                return Ok(None);
            }
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame,
                () = self.turn.come(), if is_between => return Ok(None),
            };
            let Some(frame) = frame.transpose()? else { return Ok(None) };
            if let Ok(data) = frame.into_data() {
                self.framing.pass(&data);
                return Ok(Some(data));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    fn answer(kind: &str) -> Parts {
        Response::builder().header(header::CONTENT_TYPE, kind).body(()).unwrap().into_parts().0
    }

    /// Where the framing sees an event's end, however the bytes are cut.
    fn ends(framing: Framing, stream: &[u8], piece: usize) -> Vec<usize> {
        let (mut framing, mut seen, mut ends) = (framing, 0, Vec::new());
        for data in stream.chunks(piece) {
            framing.pass(data);
            seen += data.len();
            ends.extend(framing.is_between().then_some(seen));
        }
        ends
    }

    #[test]
    fn events_end_behind_lines_or_by_their_length() {
        let lines = Framing::of(&answer("application/json; charset=utf-8")).unwrap();
        assert!(lines.is_between());
        assert_eq!(ends(lines, b"{1}\n{22}\n{3", 1), [4, 9]);
        assert_eq!(ends(lines, b"{1}\n{22}\n{3", 3), [9]);
        let lengths = Framing::of(&answer("application/vnd.kubernetes.protobuf;stream=watch")).unwrap();
        let stream = [&[0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0], &[0, 0, 1, 2], &[7; 258], &[0, 0]].concat();
        assert_eq!(ends(lengths, &stream, 1), [7, 11, 273]);
        assert_eq!(ends(lengths, &stream, 273), [273]);
        assert_eq!(ends(lengths, &stream, 11), [11]);
    }

    #[test]
    fn what_cannot_be_told_is_left_alone() {
        assert_eq!(Framing::of(&answer("application/cbor-seq")), None);
        assert_eq!(Framing::of(&answer("text/plain")), None);
        let mut refused = answer("application/json");
        refused.status = StatusCode::GONE;
        assert_eq!(Framing::of(&refused), None);
        let mut packed = answer("application/json");
        packed.headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        assert_eq!(Framing::of(&packed), None);
    }
}
