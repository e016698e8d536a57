//! The feed service: a mirror's log and lists, and proofs. Statements name their mirror and slots again, so that one that
//! strayed from another subscription cannot be taken.

mod prove;

use weir_core::message::{Change, ChangeKind, FeedMessage, ListChunk, ListId};
use weir_core::mirror::{MirrorFacts, MirrorSpec};
use weir_core::object::ObjectSchema;
use weir_core::statement::{SourceId, Statement};
use weir_core::{History, ResourceVersion};

pub use prove::{Entry, Proof, Prove};

use crate::error::ProtocolError;
use crate::hello::{Protocol, Spoken};
use crate::parts::{
    Interval, MirrorRange, all, mirror, object, objects, required, slots, statement, wire_objects,
};
use crate::wire;

/// A shard node wants a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// What the subscriber speaks.
    pub spoken: Spoken,
    /// What it wants.
    pub range: MirrorRange,
    /// It has everything up to here; `None`: it has nothing.
    pub after: Option<ResourceVersion>,
    /// The history that it knows of.
    pub history: History,
}

/// From a feed to a subscriber, in order.
#[derive(Clone, Debug)]
pub enum FeedAnswer {
    /// First and once.
    Subscribed(Subscribed),
    /// Log content.
    Statement {
        /// What it is about.
        range: MirrorRange,
        /// What happened there.
        statement: Statement<Change>,
    },
    /// List content.
    List {
        /// The connection on which it was read; 0 where nobody vouches.
        source: SourceId,
        /// The part.
        chunk: ListChunk,
    },
    /// Upstream's history went back and another one began: drop everything; a list follows.
    Restored(History),
    /// The feed has learned these.
    Facts(MirrorFacts),
}

/// The subscription is there.
#[derive(Clone, Debug)]
pub struct Subscribed {
    /// What is spoken from here on.
    pub protocol: Protocol,
    /// Who vouches; 0 while the feed has no watch.
    pub source: SourceId,
    /// How far the feed has come.
    pub at: ResourceVersion,
    /// The mirror.
    pub spec: MirrorSpec,
    /// What the feed has learned of it so far.
    pub facts: Option<MirrorFacts>,
    /// The history that it reads.
    pub history: History,
}

// === impl Subscribe ===

impl From<&Subscribe> for wire::Subscribe {
    fn from(subscribe: &Subscribe) -> Self {
        let Subscribe { spoken, range: MirrorRange { mirror, slots }, after, history } = subscribe;
        Self {
            hello: Some(spoken.hello()),
            mirror: Some(mirror.into()),
            slots: Some(slots.into()),
            after: after.map(ResourceVersion::get),
            history: history.get(),
        }
    }
}

impl TryFrom<wire::Subscribe> for Subscribe {
    type Error = ProtocolError;

    fn try_from(subscribe: wire::Subscribe) -> Result<Self, ProtocolError> {
        Ok(Self {
            spoken: required(subscribe.hello, "hello")?.try_into()?,
            range: MirrorRange { mirror: mirror(subscribe.mirror)?, slots: slots(subscribe.slots)? },
            after: subscribe.after.map(ResourceVersion::new),
            history: History::new(subscribe.history),
        })
    }
}

// === impl FeedAnswer ===

impl FeedAnswer {
    /// What the feed says to a subscriber of `range`; `source` is the connection that it reads.
    pub fn of(message: FeedMessage, range: MirrorRange, source: SourceId) -> Self {
        match message {
            FeedMessage::Statement(statement) => Self::Statement { range, statement },
            FeedMessage::List(chunk) => Self::List { source, chunk },
            FeedMessage::Restored(history) => Self::Restored(history),
        }
    }

    /// Reads an answer of the mirror with this schema. Before `Subscribed` has told it there are no objects, and a bare one
    /// does.
    pub fn read(answer: wire::FeedAnswer, schema: &ObjectSchema) -> Result<Self, ProtocolError> {
        use wire::feed_answer::Message;
        Ok(match required(answer.message, "feed_answer.message")? {
            Message::Subscribed(subscribed) => Self::Subscribed(subscribed.try_into()?),
            Message::Statement(said) => {
                let range = MirrorRange { mirror: mirror(said.mirror)?, slots: slots(said.slots)? };
                let interval = Interval { source: said.source, after: said.after, to: said.to };
                let events = all(said.events, |event| change(event, schema))?;
                Self::Statement { range, statement: statement(&interval, events)? }
            }
            Message::List(chunk) => Self::List {
                source: SourceId(chunk.source),
                chunk: ListChunk {
                    list: ListId(chunk.list),
                    at: ResourceVersion::new(chunk.at),
                    seq: chunk.seq,
                    is_last: chunk.is_last,
                    objects: objects(chunk.objects, schema)?,
                },
            },
            Message::Restored(history) => Self::Restored(History::new(history)),
            Message::Facts(facts) => Self::Facts(facts.try_into()?),
        })
    }
}

impl From<&FeedAnswer> for wire::FeedAnswer {
    fn from(answer: &FeedAnswer) -> Self {
        use wire::feed_answer::Message;
        let message = match answer {
            FeedAnswer::Subscribed(subscribed) => Message::Subscribed(subscribed.into()),
            FeedAnswer::Statement { range: MirrorRange { mirror, slots }, statement } => {
                Message::Statement(wire::FeedStatement {
                    mirror: Some(mirror.into()),
                    source: statement.source().0,
                    slots: Some(slots.into()),
                    after: statement.after().get(),
                    to: statement.to().get(),
                    events: statement.events().iter().map(wire::Change::from).collect(),
                })
            }
            FeedAnswer::List { source, chunk: ListChunk { list, at, seq, is_last, objects } } => {
                Message::List(wire::ListChunk {
                    list: list.0,
                    source: source.0,
                    at: at.get(),
                    seq: *seq,
                    is_last: *is_last,
                    objects: wire_objects(objects),
                })
            }
            FeedAnswer::Restored(history) => Message::Restored(history.get()),
            FeedAnswer::Facts(facts) => Message::Facts(facts.into()),
        };
        Self { message: Some(message) }
    }
}

impl From<&Change> for wire::Change {
    fn from(change: &Change) -> Self {
        let Change { rv: _, kind, object } = change;
        let kind = match kind {
            ChangeKind::Put => wire::ChangeKind::Put,
            ChangeKind::Delete => wire::ChangeKind::Delete,
        };
        Self { kind: kind.into(), object: Some((&**object).into()) }
    }
}

fn change(change: wire::Change, schema: &ObjectSchema) -> Result<Change, ProtocolError> {
    let kind = match wire::ChangeKind::try_from(change.kind) {
        Ok(wire::ChangeKind::Put) => ChangeKind::Put,
        Ok(wire::ChangeKind::Delete) => ChangeKind::Delete,
        Ok(wire::ChangeKind::Unspecified) => return Err(ProtocolError::Missing("change.kind")),
        Err(_) => return Err(ProtocolError::Invalid("change.kind")),
    };
    let object = object(change.object, schema)?;
    Ok(Change { rv: object.rv(), kind, object })
}

// === impl Subscribed ===

impl From<&Subscribed> for wire::Subscribed {
    fn from(subscribed: &Subscribed) -> Self {
        let Subscribed { protocol, source, at, spec, facts, history } = subscribed;
        Self {
            protocol: protocol.number(),
            source: source.0,
            at: at.get(),
            spec: Some(spec.into()),
            facts: facts.as_ref().map(wire::MirrorFacts::from),
            history: history.get(),
        }
    }
}

impl TryFrom<wire::Subscribed> for Subscribed {
    type Error = ProtocolError;

    fn try_from(subscribed: wire::Subscribed) -> Result<Self, ProtocolError> {
        Ok(Self {
            protocol: Spoken::OURS.chosen(subscribed.protocol)?,
            source: SourceId(subscribed.source),
            at: ResourceVersion::new(subscribed.at),
            spec: required(subscribed.spec, "spec")?.try_into()?,
            facts: subscribed.facts.map(MirrorFacts::try_from).transpose()?,
            history: History::new(subscribed.history),
        })
    }
}
