//! Snapshots. The last piece says that it is the last; a stream that ends without it was cut short, and what came is no
//! snapshot.

use std::sync::Arc;

use weir_core::message::{SnapshotChunk, SnapshotRequest, SnapshotStart, Unanswered};
use weir_core::object::ObjectSchema;
use weir_core::selector::FieldTable;
use weir_core::{GroupVersionResource, History, ResourceVersion};

use crate::error::ProtocolError;
use crate::hello::{Spoken, greeted};
use crate::interest::{NamedInterest, interest};
use crate::parts::{MirrorRange, key, mirror, objects, required, slots, wire_objects};
use crate::wire;

/// Asks for the objects of an interest at exactly one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Of which mirror, and which slots are meant.
    pub range: MirrorRange,
    /// What to match.
    pub interest: NamedInterest,
    /// The revision.
    pub at: ResourceVersion,
    /// The lowest key wanted; `None` from the beginning.
    pub from: Option<SnapshotStart>,
    /// At most so many objects in the whole answer; `usize::MAX` is all.
    pub max_objects: usize,
    /// The history that the revision is of.
    pub history: History,
}

/// A part of the answer to [`List`].
#[derive(Clone, Debug)]
pub enum ListAnswer {
    /// A piece; the last one says that it is.
    Chunk(SnapshotChunk),
    /// No further piece comes.
    Unanswered(Unanswered),
}

// === impl List ===

impl List {
    /// The question over the mirror whose fields are `table`.
    pub fn of(
        mirror: &GroupVersionResource,
        request: &SnapshotRequest,
        table: &FieldTable,
    ) -> Result<Self, ProtocolError> {
        let SnapshotRequest { history, interest, slots, at, from, max_objects } = request;
        Ok(Self {
            range: MirrorRange { mirror: mirror.clone(), slots: *slots },
            interest: NamedInterest::of(interest, table)?,
            at: *at,
            from: from.clone(),
            max_objects: *max_objects,
            history: *history,
        })
    }

    /// The question as a store takes it.
    pub fn resolve(self, table: &FieldTable) -> Result<SnapshotRequest, ProtocolError> {
        let Self { range, interest, at, from, max_objects, history } = self;
        let interest = Arc::new(interest.resolve(table)?);
        Ok(SnapshotRequest { history, interest, slots: range.slots, at, from, max_objects })
    }
}

impl From<&List> for wire::List {
    fn from(list: &List) -> Self {
        let List { range: MirrorRange { mirror, slots }, interest, at, from, max_objects, history } = list;
        Self {
            hello: Some(Spoken::OURS.hello()),
            mirror: Some(mirror.into()),
            interest: Some(interest.into()),
            slots: Some(slots.into()),
            at: at.get(),
            start: from.as_ref().map(wire::Start::from),
            max_objects: (*max_objects != usize::MAX).then_some(*max_objects as u64),
            history: history.get(),
        }
    }
}

impl TryFrom<wire::List> for List {
    type Error = ProtocolError;

    fn try_from(list: wire::List) -> Result<Self, ProtocolError> {
        greeted(list.hello)?;
        let max_objects = match list.max_objects {
            None => usize::MAX,
            Some(0) => return Err(ProtocolError::Invalid("max_objects")),
            Some(max) => usize::try_from(max).unwrap_or(usize::MAX),
        };
        Ok(Self {
            range: MirrorRange { mirror: mirror(list.mirror)?, slots: slots(list.slots)? },
            interest: interest(list.interest)?,
            at: ResourceVersion::new(list.at),
            from: list.start.map(SnapshotStart::try_from).transpose()?,
            max_objects,
            history: History::new(list.history),
        })
    }
}

// === impl ListAnswer ===

impl ListAnswer {
    /// Reads an answer of the mirror with this schema.
    pub fn read(answer: wire::ListAnswer, schema: &ObjectSchema) -> Result<Self, ProtocolError> {
        use wire::list_answer::Message;
        use wire::snapshot_chunk::Rest;
        Ok(match required(answer.message, "list_answer.message")? {
            Message::Chunk(wire::SnapshotChunk { objects: chunk, rest }) => {
                let next = match required(rest, "chunk.rest")? {
                    Rest::Next(next) => Some(key(&next, "chunk.next")?),
                    Rest::End(wire::Nothing {}) => None,
                };
                Self::Chunk(SnapshotChunk { objects: objects(chunk, schema)?, next })
            }
            Message::Unanswered(unanswered) => Self::Unanswered(unanswered.try_into()?),
        })
    }
}

impl From<&ListAnswer> for wire::ListAnswer {
    fn from(answer: &ListAnswer) -> Self {
        use wire::list_answer::Message;
        use wire::snapshot_chunk::Rest;
        let message = match answer {
            ListAnswer::Chunk(SnapshotChunk { objects, next }) => {
                let end = Rest::End(wire::Nothing {});
                let rest = next.as_ref().map_or(end, |next| Rest::Next(next.to_string()));
                Message::Chunk(wire::SnapshotChunk { objects: wire_objects(objects), rest: Some(rest) })
            }
            ListAnswer::Unanswered(unanswered) => Message::Unanswered(unanswered.into()),
        };
        Self { message: Some(message) }
    }
}
