//! Counts of a scope at one revision, for `remainingItemCount`. They know no selectors, as that has none.

use weir_core::interest::Scope;
use weir_core::message::{CountRequest, SnapshotStart, Unanswered};
use weir_core::{GroupVersionResource, History, ResourceVersion};

use crate::error::ProtocolError;
use crate::hello::{Spoken, greeted};
use crate::parts::{MirrorRange, mirror, required, slots};
use crate::wire;

/// Asks how many objects of a scope there were at exactly one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// Of which mirror, and which slots are meant.
    pub range: MirrorRange,
    /// What is counted.
    pub scope: Scope,
    /// The revision.
    pub at: ResourceVersion,
    /// The lowest key that counts; `None` from the beginning.
    pub from: Option<SnapshotStart>,
    /// Counting may end once there are so many; `usize::MAX` is never.
    pub at_most: usize,
    /// The history that the revision is of.
    pub history: History,
}

/// The answer to [`Count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountAnswer {
    /// So many.
    Count(u64),
    /// The node cannot say.
    Unanswered(Unanswered),
}

// === impl Count ===

impl Count {
    /// The question about a mirror.
    pub fn of(mirror: &GroupVersionResource, request: &CountRequest) -> Self {
        let CountRequest { history, scope, slots, at, from, at_most } = request.clone();
        let range = MirrorRange { mirror: mirror.clone(), slots };
        Self { range, scope, at, from, at_most, history }
    }

    /// The question as a store takes it.
    pub fn resolve(self) -> CountRequest {
        let Self { range, scope, at, from, at_most, history } = self;
        CountRequest { history, scope, slots: range.slots, at, from, at_most }
    }
}

impl From<&Count> for wire::Count {
    fn from(count: &Count) -> Self {
        let Count { range: MirrorRange { mirror, slots }, scope, at, from, at_most, history } = count;
        Self {
            hello: Some(Spoken::OURS.hello()),
            mirror: Some(mirror.into()),
            scope: Some(scope.into()),
            slots: Some(slots.into()),
            at: at.get(),
            start: from.as_ref().map(wire::Start::from),
            history: history.get(),
            at_most: (*at_most != usize::MAX).then_some(*at_most as u64),
        }
    }
}

impl TryFrom<wire::Count> for Count {
    type Error = ProtocolError;

    fn try_from(count: wire::Count) -> Result<Self, ProtocolError> {
        greeted(count.hello)?;
        Ok(Self {
            range: MirrorRange { mirror: mirror(count.mirror)?, slots: slots(count.slots)? },
            scope: required(count.scope, "scope")?.try_into()?,
            at: ResourceVersion::new(count.at),
            from: count.start.map(SnapshotStart::try_from).transpose()?,
            at_most: count.at_most.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX)),
            history: History::new(count.history),
        })
    }
}

impl From<&CountAnswer> for wire::CountAnswer {
    fn from(answer: &CountAnswer) -> Self {
        use wire::count_answer::Message;
        let message = match answer {
            CountAnswer::Count(count) => Message::Count(*count),
            CountAnswer::Unanswered(unanswered) => Message::Unanswered(unanswered.into()),
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<wire::CountAnswer> for CountAnswer {
    type Error = ProtocolError;

    fn try_from(answer: wire::CountAnswer) -> Result<Self, ProtocolError> {
        use wire::count_answer::Message;
        Ok(match required(answer.message, "count_answer.message")? {
            Message::Count(count) => Self::Count(count),
            Message::Unanswered(unanswered) => Self::Unanswered(unanswered.try_into()?),
        })
    }
}
