//! The bytes of a watch: initial events, the mark of their end, then changes and bookmarks until the deadline. Pulled by
//! the connection, so a client that does not read costs nothing but its place.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use rand::Rng;
use tokio::time::Instant;
use weir_core::message::{EventKind, InterestEvent};
use weir_core::mirror::{BookmarkTemplate, JsonForm, MirrorSpec};
use weir_core::{Object, ResourceVersion, Status};
use weir_upstream::BoxError;

use super::body::{ProxyBody, Segments};
use super::clients::{Bill, Guest};
use super::initial::Initial;
use crate::drain::Turn;
use crate::hub::follow::{Follower, Next};

/// Initial events of one piece of a body.
const PIECE: usize = 32;
/// How often an open watch is told how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The least time between two bookmarks.
const BOOKMARKS_APART: Duration = Duration::from_secs(1);
/// How long before its end it is told once more.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// The fixed bytes around the objects of one mirror.
#[derive(Clone, Debug)]
pub struct Frames {
    added: Bytes,
    modified: Bytes,
    deleted: Bytes,
    /// How many bytes of an object the head replaces.
    skip: usize,
}

/// What a watch is to send.
pub struct WatchPlan {
    /// The bytes around objects.
    pub frames: Frames,
    /// Events that show the state at the start.
    pub initial: Option<Initial>,
    /// Whether a bookmark marks their end.
    pub has_end_bookmark: bool,
    /// Changes from then on.
    pub follower: Follower,
    /// Bookmarks, if the client takes them.
    pub bookmarks: Option<BookmarkTemplate>,
    /// When the watch is over.
    pub deadline: Instant,
    /// Ends the watch when clients are to leave.
    pub turn: Turn,
}

/// A watch that is being sent.
struct Sending {
    plan: WatchPlan,
    /// Bookmarks above this one only.
    baseline: ResourceVersion,
    next_bookmark: Option<Instant>,
    is_over: bool,
    /// Who watches.
    guest: Option<Guest>,
    /// What it pays for the state, while that is sent.
    bill: Option<Bill>,
}

// === impl Frames ===

impl Frames {
    /// The frames of a mirror.
    pub fn new(spec: &MirrorSpec) -> Self {
        let head = |kind: &str| match spec.form {
            JsonForm::BuiltIn => format!(
                r#"{{"type":"{kind}","object":{{"kind":"{}","apiVersion":"{}","#,
                spec.kind,
                spec.resource.api_version()
            ),
            JsonForm::Custom => format!(r#"{{"type":"{kind}","object":"#),
        };
        let skip = match spec.form {
            JsonForm::BuiltIn => 1,
            JsonForm::Custom => 0,
        };
        Self {
            added: head("ADDED").into(),
            modified: head("MODIFIED").into(),
            deleted: head("DELETED").into(),
            skip,
        }
    }

    fn push(&self, kind: EventKind, object: &Object, to: &mut Segments) {
        to.push(match kind {
            EventKind::Added => self.added.clone(),
            EventKind::Modified => self.modified.clone(),
            EventKind::Deleted => self.deleted.clone(),
        });
        to.push(object.bytes().slice(self.skip..));
        to.push(Bytes::from_static(b"}\n"));
    }
}

/// The body of a watch.
pub fn watch(plan: WatchPlan) -> ProxyBody {
    Sending::new(plan).body()
}

/// The same of a guest, who pays for the state.
pub(super) fn watch_of(plan: WatchPlan, guest: &Guest) -> ProxyBody {
    let mut sending = Sending::new(plan);
    sending.bill = sending.plan.initial.is_some().then(|| guest.bill());
    sending.guest = Some(guest.clone());
    sending.body()
}

// === impl Sending ===

impl Sending {
    fn new(plan: WatchPlan) -> Self {
        let baseline = plan.follower.cursor();
        let mut sending =
            Self { plan, baseline, next_bookmark: None, is_over: false, guest: None, bill: None };
        // Who owes an end mark is looked at at once, and so may get an ordinary bookmark right behind it.
        sending.next_bookmark = match sending.plan.has_end_bookmark {
            true => Some(Instant::now() + Duration::from_millis(rand::rng().random_range(0..1_250))),
            false => sending.schedule(),
        };
        sending
    }

    fn body(self) -> ProxyBody {
        ProxyBody::stream(stream::try_unfold(self, |mut sending| async move {
            Ok::<_, BoxError>(sending.next().await?.map(|piece| (piece, sending)))
        }))
    }

    /// The next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<Segments>, BoxError> {
        if self.is_over || Instant::now() >= self.plan.deadline {
            return Ok(None);
        }
        if self.plan.initial.is_some() {
            return self.initial_events().await;
        }
        loop {
            if self.plan.turn.has_come() {
                return Ok(self.leave());
            }
            let next = tokio::select! {
                biased;
                next = advance(&mut self.plan.follower, self.guest.as_ref()) => next,
                () = self.plan.turn.come() => continue,
                () = tokio::time::sleep_until(self.plan.deadline) => return Ok(None),
            };
            match next {
                Next::Events(events) => {
                    let mut piece = Segments::default();
                    self.push(&events, &mut piece);
                    piece.extend(self.due_bookmark());
                    return Ok(Some(piece));
                }
                Next::Ended(_) => return Ok(Some(self.expired())),
                Next::Nothing(_) => {
                    if let Some(bookmark) = self.due_bookmark() {
                        return Ok(Some(bookmark));
                    }
                }
            }
            let wake = self.next_bookmark.map_or(self.plan.deadline, |at| at.min(self.plan.deadline));
            tokio::select! {
                biased;
                () = self.plan.turn.come() => {}
                () = self.plan.follower.changed() => {}
                () = tokio::time::sleep_until(wake) => {
                    if wake >= self.plan.deadline {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// A piece of the state. A client that has seen a part of it only has to begin again, so it is let finish for as long as
    /// the process is there.
    async fn initial_events(&mut self) -> Result<Option<Segments>, BoxError> {
        let mut piece = Segments::default();
        let Some(initial) = &mut self.plan.initial else { return Ok(Some(piece)) };
        let objects = tokio::select! {
            biased;
            () = self.plan.turn.latest() => return Ok(None),
            objects = initial.next(PIECE) => objects?,
        };
        let is_end = objects.is_empty();
        for object in &objects {
            self.plan.frames.push(EventKind::Added, object, &mut piece);
        }
        if let Some(bill) = &mut self.bill {
            bill.add(piece.len());
        }
        if is_end {
            let at = self.plan.follower.cursor();
            (self.plan.initial, self.bill) = (None, None);
            if let Some(template) = self.plan.bookmarks.as_ref().filter(|_| self.plan.has_end_bookmark) {
                piece = bookmark(template.end(), at);
            }
        }
        Ok(Some(piece))
    }

    /// The last piece of a watch whose client is to leave: what there is already, and how far that is.
    fn leave(&mut self) -> Option<Segments> {
        self.is_over = true;
        let mut piece = Segments::default();
        match self.plan.follower.advance().now_or_never() {
            Some(Next::Events(events)) => self.push(&events, &mut piece),
            Some(Next::Ended(_)) => return Some(self.expired()),
            // Logs that are still to be read are for the next watch.
            Some(Next::Nothing(_)) | None => {}
        }
        piece.extend(self.news());
        (!piece.is_empty()).then_some(piece)
    }

    fn push(&self, events: &[InterestEvent], to: &mut Segments) {
        for event in events {
            self.plan.frames.push(event.kind, &event.object, to);
        }
    }

    /// A bookmark, if one is due and has something to say.
    fn due_bookmark(&mut self) -> Option<Segments> {
        let at = self.next_bookmark?;
        if Instant::now() < at {
            return None;
        }
        // One that came early comes again when it is due, but as with upstream not before the next look at the clock.
        self.next_bookmark = self.schedule().map(|next| next.max(Instant::now() + BOOKMARKS_APART));
        self.news()
    }

    /// A bookmark that says more than the client knew at the start.
    fn news(&self) -> Option<Segments> {
        let reached = self.plan.follower.cursor();
        let template = self.plan.bookmarks.as_ref()?;
        (reached > self.baseline).then(|| bookmark(template.plain(), reached))
    }

    /// When the next bookmark is due: up to a second before the minute or the end, up to 1.25 s behind it.
    fn schedule(&self) -> Option<Instant> {
        self.plan.bookmarks.as_ref()?;
        let now = Instant::now();
        let last = self.plan.deadline.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now)?;
        let due = last.min(now + BOOKMARK_EVERY);
        let late = Duration::from_millis(rand::rng().random_range(0..2_250));
        Some((due + late).checked_sub(Duration::from_secs(1)).unwrap_or(now).max(now))
    }

    fn expired(&mut self) -> Segments {
        self.is_over = true;
        let floor = self.plan.follower.floor();
        let status = Status::watch_too_old(self.plan.follower.cursor(), floor);
        Bytes::from(status.to_watch_line()).into()
    }
}

/// What comes next. A watch that reads the logs of shards waits until it is its client's turn.
async fn advance(follower: &mut Follower, guest: Option<&Guest>) -> Next {
    let _late = match guest.filter(|_| follower.is_late()) {
        Some(guest) => Some(guest.late().await),
        None => None,
    };
    follower.advance().await
}

/// A single ERROR event, after which the watch ends.
pub fn error(status: &Status) -> ProxyBody {
    ProxyBody::full(status.to_watch_line())
}

fn bookmark((head, tail): (Bytes, Bytes), at: ResourceVersion) -> Segments {
    let mut segments = Segments::default();
    segments.push(Bytes::from_static(br#"{"type":"BOOKMARK","object":"#));
    segments.push(head);
    segments.push(at.to_string().into());
    segments.push(tail);
    segments.push(Bytes::from_static(b"}\n"));
    segments
}

#[cfg(test)]
mod tests;
