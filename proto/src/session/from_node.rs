//! What a shard node says on a session. One flush carries everything that was said since the last one, of all mirrors, in
//! order; taking its statements before its other parts would move positions past what they mark.

use weir_core::message::{Delivery, EventKind, FromNode as NodeMessage, OpenId};
use weir_core::mirror::{MirrorFacts, MirrorSpec};
use weir_core::object::ObjectSchema;
use weir_core::statement::Statement;
use weir_core::{GroupVersionResource, History, ResourceVersion, SlotSet};

use super::{MirrorNumber, edit};
use crate::error::ProtocolError;
use crate::hello::{Protocol, Spoken};
use crate::parts::{Interval, all, event_kind, mirror, object, required, slots, statement};
use crate::wire;

/// From a shard node to a proxy, in order.
#[derive(Clone, Debug)]
pub enum FromNode {
    /// First and once.
    Welcome {
        /// What is spoken from here on.
        protocol: Protocol,
        /// What the node holds.
        slots: SlotSet,
    },
    /// The session carries a mirror from now on.
    Attached(Attached),
    /// The session will not carry a mirror.
    Unmirrored {
        /// Which one.
        mirror: GroupVersionResource,
        /// Why.
        reason: Unmirrored,
    },
    /// The node has learned these.
    Learned(MirrorNumber, MirrorFacts),
    /// What the nodes of the mirrors say.
    Flush(Vec<(MirrorNumber, Said)>),
}

/// A mirror of a session.
#[derive(Clone, Debug)]
pub struct Attached {
    /// How messages name it.
    pub mirror: MirrorNumber,
    /// What it is.
    pub spec: MirrorSpec,
    /// What was learned of it so far.
    pub facts: Option<MirrorFacts>,
    /// The history that the node knows of.
    pub history: History,
}

/// Why there is no mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unmirrored {
    /// Upstream has no such resource.
    NotServed,
    /// It cannot be listed and watched.
    NotWatchable,
    /// Another server answers for it.
    Aggregated,
    /// Its selectable fields cannot be told from its objects.
    Unselectable,
    /// The configuration forbids it.
    Forbidden,
}

/// A part of a flush.
#[derive(Clone, Debug)]
pub enum Said {
    /// As the mirror's node says it.
    Node(NodeMessage),
    /// The node's log begins here now. It chooses whom to ask and proves nothing.
    Floor(ResourceVersion),
}

// === impl FromNode ===

impl FromNode {
    /// Reads a message. A proxy looks into no object, so a bare schema does for all mirrors.
    pub fn read(message: wire::FromNode, schema: &ObjectSchema) -> Result<Self, ProtocolError> {
        use wire::from_node::Message;
        Ok(match required(message.message, "from_node.message")? {
            Message::Welcome(welcome) => Self::Welcome {
                protocol: Spoken::OURS.chosen(welcome.protocol)?,
                slots: slots(welcome.slots)?,
            },
            Message::Attached(attached) => Self::Attached(Attached {
                mirror: MirrorNumber::read(attached.mirror)?,
                spec: required(attached.spec, "spec")?.try_into()?,
                facts: attached.facts.map(MirrorFacts::try_from).transpose()?,
                history: History::new(attached.history),
            }),
            Message::Unmirrored(unmirrored) => Self::Unmirrored {
                mirror: mirror(unmirrored.mirror)?,
                reason: Unmirrored::read(unmirrored.reason)?,
            },
            Message::Learned(learned) => Self::Learned(
                MirrorNumber::read(learned.mirror)?,
                required(learned.facts, "facts")?.try_into()?,
            ),
            Message::Flush(flush) => {
                let part = |said: wire::Said| {
                    let mirror = MirrorNumber::read(said.mirror)?;
                    Ok((mirror, Said::read(required(said.what, "said.what")?, schema)?))
                };
                Self::Flush(all(flush.said, part)?)
            }
        })
    }
}

impl From<&FromNode> for wire::FromNode {
    fn from(message: &FromNode) -> Self {
        use wire::from_node::Message;
        let message = match message {
            FromNode::Welcome { protocol, slots } => {
                Message::Welcome(wire::Welcome { protocol: protocol.number(), slots: Some(slots.into()) })
            }
            FromNode::Attached(Attached { mirror, spec, facts, history }) => {
                Message::Attached(wire::Attached {
                    mirror: mirror.get(),
                    spec: Some(spec.into()),
                    facts: facts.as_ref().map(wire::MirrorFacts::from),
                    history: history.get(),
                })
            }
            FromNode::Unmirrored { mirror, reason } => Message::Unmirrored(wire::Unmirrored {
                mirror: Some(mirror.into()),
                reason: wire::UnmirroredReason::from(*reason).into(),
            }),
            FromNode::Learned(mirror, facts) => {
                Message::Learned(wire::Learned { mirror: mirror.get(), facts: Some(facts.into()) })
            }
            FromNode::Flush(parts) => Message::Flush(wire::Flush {
                said: parts
                    .iter()
                    .map(|(mirror, said)| wire::Said { mirror: mirror.get(), what: Some(said.into()) })
                    .collect(),
            }),
        };
        Self { message: Some(message) }
    }
}

// === impl Said ===

impl Said {
    fn read(what: wire::said::What, schema: &ObjectSchema) -> Result<Self, ProtocolError> {
        use wire::said::What;
        let at = ResourceVersion::new;
        Ok(Self::Node(match what {
            What::Statement(said) => NodeMessage::Said(deliveries(said, schema)?),
            What::Live(live) => NodeMessage::Live { id: OpenId(live.id), at: at(live.at) },
            What::NotMine(id) => NodeMessage::NotMine(OpenId(id)),
            What::Left(left) => NodeMessage::Left { id: OpenId(left.id), at: at(left.at) },
            What::TooOld(id) => NodeMessage::TooOld(OpenId(id)),
            What::Restored(wire::Restored { history: 0, .. }) => {
                return Err(ProtocolError::Missing("restored.history"));
            }
            What::Restored(restored) => NodeMessage::Restored {
                highest: at(restored.highest),
                history: History::new(restored.history),
            },
            What::History(history) => NodeMessage::History(History::new(history)),
            What::Named(named) => {
                NodeMessage::Named { id: OpenId(named.id), edit: edit(named.edit)?, at: at(named.at) }
            }
            What::Floor(floor) => return Ok(Self::Floor(at(floor))),
        }))
    }
}

impl From<&Said> for wire::said::What {
    fn from(said: &Said) -> Self {
        match said {
            Said::Node(NodeMessage::Said(statement)) => Self::Statement(statement.into()),
            Said::Node(NodeMessage::Live { id, at }) => Self::Live(wire::Live { id: id.0, at: at.get() }),
            Said::Node(NodeMessage::NotMine(id)) => Self::NotMine(id.0),
            Said::Node(NodeMessage::Left { id, at }) => Self::Left(wire::Left { id: id.0, at: at.get() }),
            Said::Node(NodeMessage::TooOld(id)) => Self::TooOld(id.0),
            Said::Node(NodeMessage::Restored { highest, history }) => {
                Self::Restored(wire::Restored { highest: highest.get(), history: history.get() })
            }
            Said::Node(NodeMessage::History(history)) => Self::History(history.get()),
            Said::Node(NodeMessage::Named { id, edit, at }) => {
                Self::Named(wire::Named { id: id.0, edit: edit.get(), at: at.get() })
            }
            Said::Floor(floor) => Self::Floor(floor.get()),
        }
    }
}

impl From<&Statement<Delivery>> for wire::SessionStatement {
    fn from(statement: &Statement<Delivery>) -> Self {
        Self {
            source: statement.source().0,
            after: statement.after().get(),
            to: statement.to().get(),
            events: statement.events().iter().map(wire::Delivery::from).collect(),
        }
    }
}

impl From<&Delivery> for wire::Delivery {
    fn from(delivery: &Delivery) -> Self {
        let Delivery { rv, present, gone, tags } = delivery;
        let tag = |(id, kind): &(OpenId, EventKind)| wire::Tag {
            id: id.0,
            kind: wire::EventKind::from(*kind).into(),
        };
        Self {
            rv: rv.get(),
            present: present.as_ref().map(|object| (&**object).into()),
            gone: gone.as_ref().map(|object| (&**object).into()),
            tags: tags.iter().map(tag).collect(),
        }
    }
}

fn deliveries(
    said: wire::SessionStatement,
    schema: &ObjectSchema,
) -> Result<Statement<Delivery>, ProtocolError> {
    let interval = Interval { source: said.source, after: said.after, to: said.to };
    statement(&interval, all(said.events, |event| delivery(event, schema))?)
}

/// An event with an object for everyone whom it concerns.
fn delivery(delivery: wire::Delivery, schema: &ObjectSchema) -> Result<Delivery, ProtocolError> {
    let wire::Delivery { rv, present, gone, tags } = delivery;
    let tags = all(tags, |tag| Ok((OpenId(tag.id), event_kind(tag.kind)?)))?;
    if tags.is_empty() {
        return Err(ProtocolError::Missing("delivery.tags"));
    }
    let is_seen_gone = tags.iter().any(|(_, kind)| *kind == EventKind::Deleted);
    let is_seen_present = tags.iter().any(|(_, kind)| *kind != EventKind::Deleted);
    if is_seen_present != present.is_some() || is_seen_gone != gone.is_some() {
        return Err(ProtocolError::Invalid("delivery.tags"));
    }
    let keep = |wire: Option<wire::Object>| wire.map(|wire| object(Some(wire), schema)).transpose();
    let (present, gone) = (keep(present)?, keep(gone)?);
    if present.iter().chain(&gone).any(|object| object.rv().get() != rv) {
        return Err(ProtocolError::Invalid("delivery.rv"));
    }
    Ok(Delivery { rv: ResourceVersion::new(rv), present, gone, tags })
}

// === impl Unmirrored ===

impl Unmirrored {
    fn read(reason: i32) -> Result<Self, ProtocolError> {
        use wire::UnmirroredReason as Wire;
        match Wire::try_from(reason) {
            Ok(Wire::NotServed) => Ok(Self::NotServed),
            Ok(Wire::NotWatchable) => Ok(Self::NotWatchable),
            Ok(Wire::Aggregated) => Ok(Self::Aggregated),
            Ok(Wire::Unselectable) => Ok(Self::Unselectable),
            Ok(Wire::Forbidden) => Ok(Self::Forbidden),
            Ok(Wire::Unspecified) => Err(ProtocolError::Missing("unmirrored.reason")),
            Err(_) => Err(ProtocolError::Invalid("unmirrored.reason")),
        }
    }
}

impl From<Unmirrored> for wire::UnmirroredReason {
    fn from(reason: Unmirrored) -> Self {
        match reason {
            Unmirrored::NotServed => Self::NotServed,
            Unmirrored::NotWatchable => Self::NotWatchable,
            Unmirrored::Aggregated => Self::Aggregated,
            Unmirrored::Unselectable => Self::Unselectable,
            Unmirrored::Forbidden => Self::Forbidden,
        }
    }
}
