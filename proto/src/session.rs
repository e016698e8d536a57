//! A session: the ordered stream between one proxy and one shard node, for all mirrors. Mirrors go by numbers that the node
//! gives, the same for all its sessions, so that a flush of nothing but frontiers is encoded once for all proxies.
//!
//! In core a session is of one mirror and knows no numbers; that is what the types here add.

mod from_node;
mod to_node;

use std::num::NonZeroU32;

use weir_core::fnv1a64;
use weir_core::message::{NamesEdit, OpenId};
use weir_core::{Object, ResourceVersion};

pub use from_node::{Attached, FromNode, Said, Unmirrored};
pub use to_node::{Names, Open, ToNode};

use crate::error::ProtocolError;
use crate::wire;

/// A node's number of a mirror, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MirrorNumber(NonZeroU32);

/// One registration of one mirror on a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Registration {
    /// The mirror.
    pub mirror: MirrorNumber,
    /// The name of the registration there.
    pub id: OpenId,
}

/// One event that a proxy received, by which a node tells whether both speak of one history. Not compared in protocol 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Its position.
    pub rv: ResourceVersion,
    /// The uid of its object.
    pub uid: Box<str>,
    /// The hash of its object's content.
    pub hash: u64,
}

// === impl MirrorNumber ===

impl MirrorNumber {
    /// The mirror with this number; `None` for 0.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).map(Self)
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }

    fn read(number: u32) -> Result<Self, ProtocolError> {
        Self::new(number).ok_or(ProtocolError::Missing("mirror"))
    }
}

fn edit(number: u64) -> Result<NamesEdit, ProtocolError> {
    NamesEdit::new(number).ok_or(ProtocolError::Missing("edit"))
}

// === impl Registration ===

impl Registration {
    fn read(mirror: u32, id: u64) -> Result<Self, ProtocolError> {
        Ok(Self { mirror: MirrorNumber::read(mirror)?, id: OpenId(id) })
    }
}

// === impl Witness ===

impl Witness {
    /// The event that brought `object`.
    pub fn of(object: &Object) -> Self {
        Self { rv: object.rv(), uid: object.uid().into(), hash: fnv1a64(object.bytes()) }
    }
}

impl From<&Witness> for wire::Witness {
    fn from(witness: &Witness) -> Self {
        let Witness { rv, uid, hash } = witness;
        Self { rv: rv.get(), uid: uid.to_string(), hash: *hash }
    }
}

impl TryFrom<wire::Witness> for Witness {
    type Error = ProtocolError;

    fn try_from(witness: wire::Witness) -> Result<Self, ProtocolError> {
        let wire::Witness { rv, uid, hash } = witness;
        if uid.is_empty() {
            return Err(ProtocolError::Missing("witness.uid"));
        }
        Ok(Self { rv: ResourceVersion::new(rv), uid: uid.into(), hash })
    }
}
