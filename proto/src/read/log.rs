//! Replays of the log of one interest. An answer may end before `to`: what counts is where its statements end.

use std::sync::Arc;

use weir_core::message::{InterestEvent, LogRequest, Unanswered};
use weir_core::object::ObjectSchema;
use weir_core::selector::FieldTable;
use weir_core::statement::Statement;
use weir_core::{GroupVersionResource, History, ResourceVersion};

use crate::error::ProtocolError;
use crate::hello::{Spoken, greeted};
use crate::interest::{NamedInterest, interest};
use crate::parts::{Interval, MirrorRange, all, event_kind, mirror, object, required, slots, statement};
use crate::wire;

/// Asks for the events of an interest in (after, to].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Of which mirror, and which slots are meant.
    pub range: MirrorRange,
    /// What to match.
    pub interest: NamedInterest,
    /// Exclusive start.
    pub after: ResourceVersion,
    /// Inclusive end.
    pub to: ResourceVersion,
    /// The history that both are of.
    pub history: History,
}

/// A part of the answer to [`Log`].
#[derive(Clone, Debug)]
pub enum LogAnswer {
    /// Log content.
    Statement {
        /// What it is about.
        range: MirrorRange,
        /// The events of the interest there.
        statement: Statement<InterestEvent>,
    },
    /// No further statement comes.
    Unanswered(Unanswered),
}

// === impl Log ===

impl Log {
    /// The question over the mirror whose fields are `table`.
    pub fn of(
        mirror: &GroupVersionResource,
        request: &LogRequest,
        table: &FieldTable,
    ) -> Result<Self, ProtocolError> {
        let LogRequest { history, interest, slots, after, to } = request;
        Ok(Self {
            range: MirrorRange { mirror: mirror.clone(), slots: *slots },
            interest: NamedInterest::of(interest, table)?,
            after: *after,
            to: *to,
            history: *history,
        })
    }

    /// The question as a store takes it.
    pub fn resolve(self, table: &FieldTable) -> Result<LogRequest, ProtocolError> {
        let Self { range, interest, after, to, history } = self;
        let interest = Arc::new(interest.resolve(table)?);
        Ok(LogRequest { history, interest, slots: range.slots, after, to })
    }
}

impl From<&Log> for wire::Log {
    fn from(log: &Log) -> Self {
        let Log { range: MirrorRange { mirror, slots }, interest, after, to, history } = log;
        Self {
            hello: Some(Spoken::OURS.hello()),
            mirror: Some(mirror.into()),
            interest: Some(interest.into()),
            slots: Some(slots.into()),
            after: after.get(),
            to: to.get(),
            history: history.get(),
        }
    }
}

impl TryFrom<wire::Log> for Log {
    type Error = ProtocolError;

    fn try_from(log: wire::Log) -> Result<Self, ProtocolError> {
        greeted(log.hello)?;
        if log.after > log.to {
            return Err(ProtocolError::Invalid("to"));
        }
        Ok(Self {
            range: MirrorRange { mirror: mirror(log.mirror)?, slots: slots(log.slots)? },
            interest: interest(log.interest)?,
            after: ResourceVersion::new(log.after),
            to: ResourceVersion::new(log.to),
            history: History::new(log.history),
        })
    }
}

// === impl LogAnswer ===

impl LogAnswer {
    /// Reads an answer of the mirror with this schema.
    pub fn read(answer: wire::LogAnswer, schema: &ObjectSchema) -> Result<Self, ProtocolError> {
        use wire::log_answer::Message;
        Ok(match required(answer.message, "log_answer.message")? {
            Message::Statement(said) => {
                let range = MirrorRange { mirror: mirror(said.mirror)?, slots: slots(said.slots)? };
                let interval = Interval { source: said.source, after: said.after, to: said.to };
                let event = |event: wire::InterestEvent| {
                    let (kind, object) = (event_kind(event.kind)?, object(event.object, schema)?);
                    Ok(InterestEvent { rv: object.rv(), kind, object })
                };
                let events = all(said.events, event)?;
                Self::Statement { range, statement: statement(&interval, events)? }
            }
            Message::Unanswered(unanswered) => Self::Unanswered(unanswered.try_into()?),
        })
    }
}

impl From<&LogAnswer> for wire::LogAnswer {
    fn from(answer: &LogAnswer) -> Self {
        use wire::log_answer::Message;
        let message = match answer {
            LogAnswer::Statement { range: MirrorRange { mirror, slots }, statement } => {
                let event = |InterestEvent { rv: _, kind, object }: &InterestEvent| wire::InterestEvent {
                    kind: wire::EventKind::from(*kind).into(),
                    object: Some((&**object).into()),
                };
                Message::Statement(wire::LogStatement {
                    mirror: Some(mirror.into()),
                    source: statement.source().0,
                    slots: Some(slots.into()),
                    after: statement.after().get(),
                    to: statement.to().get(),
                    events: statement.events().iter().map(event).collect(),
                })
            }
            LogAnswer::Unanswered(unanswered) => Message::Unanswered(unanswered.into()),
        };
        Self { message: Some(message) }
    }
}
