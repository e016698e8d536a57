//! What a proxy says on a session. An interest arrives by names; it becomes one of core only with the mirror's schema.

use std::collections::HashSet;
use std::sync::Arc;

use weir_core::message::{Credit, NamesChange, NamesEdit, Open as CoreOpen, OpenId, ToNode as NodeMessage};
use weir_core::selector::FieldTable;
use weir_core::{GroupVersionResource, ObjectKey, ResourceVersion, SlotSet};

use super::{MirrorNumber, Registration, Witness, edit};
use crate::error::ProtocolError;
use crate::hello::Spoken;
use crate::interest::{NamedInterest, interest};
use crate::parts::{key_texts, keys, required, slots};
use crate::wire;

/// From a proxy to a shard node, in order.
#[derive(Clone, Debug)]
pub enum ToNode {
    /// First and once.
    Hello(Spoken),
    /// The session shall carry this mirror.
    Attach(GroupVersionResource),
    /// It shall no longer carry it; registrations end.
    Detach(MirrorNumber),
    /// Register an interest.
    Open(Open),
    /// The proxy no longer wants a registration.
    Close(Registration),
    /// More events may be sent.
    Credit(Registration, Credit),
    /// A registration is for other names from now on.
    Names(Names),
    /// That the mirror's frontier has come here shall be said at once.
    Reach(MirrorNumber, ResourceVersion),
}

/// The registration of an interest.
#[derive(Clone, Debug)]
pub struct Open {
    /// Which one.
    pub registration: Registration,
    /// What to match.
    pub interest: NamedInterest,
    /// The slots meant; the node must hold all of them.
    pub slots: SlotSet,
    /// How many events may be sent.
    pub credit: Credit,
    /// The newest event that the proxy has of the slots.
    pub witness: Option<Witness>,
    /// Only these of the interest's objects, where it is a set of names.
    pub names: Option<Vec<ObjectKey>>,
}

/// A change of a set of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Whose.
    pub registration: Registration,
    /// Which change.
    pub edit: NamesEdit,
    /// Wanted from now on.
    pub added: Vec<ObjectKey>,
    /// No longer wanted.
    pub removed: Vec<ObjectKey>,
}

// === impl ToNode ===

impl From<&ToNode> for wire::ToNode {
    fn from(message: &ToNode) -> Self {
        use wire::to_node::Message;
        let message = match message {
            ToNode::Hello(spoken) => Message::Hello(spoken.hello()),
            ToNode::Attach(mirror) => Message::Attach(mirror.into()),
            ToNode::Detach(mirror) => Message::Detach(wire::Detach { mirror: mirror.get() }),
            ToNode::Open(open) => Message::Open(open.into()),
            ToNode::Close(Registration { mirror, id: OpenId(id) }) => {
                Message::Close(wire::Close { mirror: mirror.get(), id: *id })
            }
            ToNode::Credit(Registration { mirror, id: OpenId(id) }, Credit(more)) => {
                Message::Credit(wire::Credit { mirror: mirror.get(), id: *id, more: *more })
            }
            ToNode::Names(names) => Message::Names(names.into()),
            ToNode::Reach(mirror, at) => Message::Reach(wire::Reach { mirror: mirror.get(), rv: at.get() }),
        };
        Self { message: Some(message) }
    }
}

impl TryFrom<wire::ToNode> for ToNode {
    type Error = ProtocolError;

    fn try_from(message: wire::ToNode) -> Result<Self, ProtocolError> {
        use wire::to_node::Message;
        Ok(match required(message.message, "to_node.message")? {
            Message::Hello(hello) => Self::Hello(hello.try_into()?),
            Message::Attach(mirror) => Self::Attach(mirror.try_into()?),
            Message::Detach(detach) => Self::Detach(MirrorNumber::read(detach.mirror)?),
            Message::Open(open) => Self::Open(open.try_into()?),
            Message::Close(close) => Self::Close(Registration::read(close.mirror, close.id)?),
            Message::Credit(credit) => {
                Self::Credit(Registration::read(credit.mirror, credit.id)?, Credit(credit.more))
            }
            Message::Names(names) => Self::Names(names.try_into()?),
            Message::Reach(wire::Reach { mirror, rv }) => {
                Self::Reach(MirrorNumber::read(mirror)?, ResourceVersion::new(rv))
            }
        })
    }
}

// === impl Open ===

impl Open {
    /// A registration over the mirror whose fields are `table`.
    pub fn of(mirror: MirrorNumber, open: &CoreOpen, table: &FieldTable) -> Result<Self, ProtocolError> {
        let CoreOpen { id, interest, slots, credit } = open;
        Ok(Self {
            registration: Registration { mirror, id: *id },
            interest: NamedInterest::of(interest, table)?,
            slots: *slots,
            credit: *credit,
            witness: None,
            names: None,
        })
    }

    /// How many objects are named, or 0.
    pub fn names(&self) -> usize {
        self.names.as_ref().map_or(0, Vec::len)
    }

    /// The registration as a node takes it, without witness.
    pub fn resolve(self, table: &FieldTable) -> Result<NodeMessage, ProtocolError> {
        let Self { registration, interest, slots, credit, witness: _, names } = self;
        let interest = Arc::new(interest.resolve(table)?);
        let open = CoreOpen { id: registration.id, interest, slots, credit };
        Ok(match names {
            None => NodeMessage::Open(open),
            Some(names) => NodeMessage::OpenNames(open, names),
        })
    }
}

impl From<&Open> for wire::Open {
    fn from(open: &Open) -> Self {
        let Open { registration, interest, slots, credit, witness, names } = open;
        Self {
            mirror: registration.mirror.get(),
            id: registration.id.0,
            interest: Some(interest.into()),
            slots: Some(slots.into()),
            credit: credit.0,
            witness: witness.as_ref().map(wire::Witness::from),
            names: names.as_ref().map(|names| wire::NameSet { keys: key_texts(names) }),
        }
    }
}

impl TryFrom<wire::Open> for Open {
    type Error = ProtocolError;

    fn try_from(open: wire::Open) -> Result<Self, ProtocolError> {
        let names = open.names.map(|names| keys(names.keys, "names.keys"));
        Ok(Self {
            registration: Registration::read(open.mirror, open.id)?,
            interest: interest(open.interest)?,
            slots: slots(open.slots)?,
            credit: Credit(open.credit),
            witness: open.witness.map(Witness::try_from).transpose()?,
            names: names.transpose()?,
        })
    }
}

// === impl Names ===

impl Names {
    /// A change of a set of this mirror.
    pub fn of(mirror: MirrorNumber, change: NamesChange) -> Self {
        let NamesChange { id, edit, added, removed } = change;
        Self { registration: Registration { mirror, id }, edit, added, removed }
    }

    /// The change as a node takes it.
    pub fn resolve(self) -> NamesChange {
        let Self { registration, edit, added, removed } = self;
        NamesChange { id: registration.id, edit, added, removed }
    }
}

impl From<&Names> for wire::Names {
    fn from(names: &Names) -> Self {
        let Names { registration, edit, added, removed } = names;
        Self {
            mirror: registration.mirror.get(),
            id: registration.id.0,
            edit: edit.get(),
            added: key_texts(added),
            removed: key_texts(removed),
        }
    }
}

impl TryFrom<wire::Names> for Names {
    type Error = ProtocolError;

    fn try_from(names: wire::Names) -> Result<Self, ProtocolError> {
        let added: HashSet<&String> = names.added.iter().collect();
        if names.removed.iter().any(|key| added.contains(key)) {
            return Err(ProtocolError::Invalid("names.removed"));
        }
        Ok(Self {
            registration: Registration::read(names.mirror, names.id)?,
            edit: edit(names.edit)?,
            added: keys(names.added, "names.added")?,
            removed: keys(names.removed, "names.removed")?,
        })
    }
}
