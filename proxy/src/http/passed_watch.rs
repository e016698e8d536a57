//! Upstream's answer to a watch on its way through: its bytes are not looked into, only where an event ends, so that the watch
//! of a client that is to leave ends behind one. A client that finds half an event, or a broken stream, lists again.
//!
//! A watch that was passed through for want of the mirror ends after a while too, not all of them at once: by then upstream has
//! told it how far it is, and it goes on from there in the mirror.

use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http::{StatusCode, header};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, sleep_until};
use weir_upstream::BoxError;

use super::body::{ProxyBody, Segments};
use super::gate::Place;
use crate::drain::Turn;
use crate::passthrough::PassedBody;

/// How long a watch is upstream's that the mirror could not answer, at least and at most. Upstream sends a bookmark every minute.
const STAY: (Duration, Duration) = (Duration::from_secs(75), Duration::from_secs(135));

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
struct Passing<B> {
    body: B,
    framing: Framing,
    turn: Turn,
    /// With the end of its stay, where it has a place in the gate.
    place: Option<(Place, Instant)>,
}

/// The body of a passed watch whose framing is known.
pub(super) fn watch(body: PassedBody, framing: Framing, (turn, place): (Turn, Option<Place>)) -> ProxyBody {
    let passing = Passing::new((body, framing), turn, place);
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

impl<B> Passing<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    fn new((body, framing): (B, Framing), turn: Turn, place: Option<Place>) -> Self {
        let place = place.map(|place| (place, Instant::now() + rand::random_range(STAY.0..STAY.1)));
        Self { body, framing, turn, place }
    }

    /// The next bytes; `None` at the end, which is upstream's or that of the client's stay. A watch has no trailers.
    async fn next(&mut self) -> Result<Option<Bytes>, BoxError> {
        let end = self.place.as_ref().map(|(_, end)| *end);
        loop {
            let is_between = self.framing.is_between();
            let is_over = end.is_some_and(|end| Instant::now() >= end);
            if is_between && (is_over || self.turn.has_come()) {
                return Ok(None);
            }
            let over = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => std::future::pending().await,
                }
            };
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame,
                () = self.turn.come(), if is_between => return Ok(None),
                () = over, if is_between => return Ok(None),
            };
            let Some(frame) = frame.transpose().map_err(Into::into)? else { return Ok(None) };
            if let Ok(data) = frame.into_data() {
                self.framing.pass(&data);
                return Ok(Some(data));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use http::Response;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;
    use crate::drain::Drain;
    use crate::http::gate::Gate;

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

    /// How long a watch stays whose body is these pieces and then silence.
    async fn stay(pieces: &[&'static [u8]], place: Option<Place>) -> Duration {
        let began = Instant::now();
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece)))).collect();
        let silence = futures_util::stream::pending::<Result<_, BoxError>>();
        let body = StreamBody::new(futures_util::stream::iter(pieces).chain(silence));
        let framing = Framing::Lines { is_between: true };
        let mut passing = Passing::new((body, framing), Drain::new().turn(), place);
        let ended = async { while passing.next().await.unwrap().is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(3_600), ended).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_the_mirror_lacked_goes_back_to_it_after_a_while_and_behind_an_event() {
        let gate = Gate::new();
        let place = || Some(gate.watch().unwrap());
        let mut stays = Vec::new();
        for _ in 0..20 {
            stays.push(stay(&[b"{1}\n"], place()).await);
        }
        let may_be = STAY.0..=STAY.1 + Duration::from_millis(1);
        assert!(stays.iter().all(|stay| may_be.contains(stay)), "{stays:?}");
        assert!(stays.windows(2).any(|two| two[0].abs_diff(two[1]) > Duration::from_secs(1)), "together");
        let hour = Duration::from_secs(3_600);
        assert!(stay(&[b"{1}\n"], None).await >= hour, "any other is upstream's for as long as it lasts");
        assert!(stay(&[b"{1}\n{"], place()).await >= hour, "half an event");
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
