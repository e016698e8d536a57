//! Proofs of freshness: one question to upstream, and its answer. An answer moves no frontier, and two of them are never
//! combined: what a feed on another instance says about its revision says nothing about this one.

use std::sync::Arc;

use weir_core::interest::Scope;
use weir_core::statement::SourceId;
use weir_core::{GroupVersionResource, History, ObjectKey, ResourceVersion};

use crate::error::ProtocolError;
use crate::hello::{Spoken, greeted};
use crate::parts::{all, key, mirror, required, text};
use crate::wire;

/// Asks how new a mirror can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prove {
    /// Which mirror.
    pub mirror: GroupVersionResource,
    /// The part that matters.
    pub scope: Scope,
    /// Whether its content is wanted.
    pub wants_entries: bool,
    /// Whether the feed shall see to it that it gets to the revision soon.
    pub wants_catch_up: bool,
    /// Whether digests of the objects are wanted with the content.
    pub wants_digests: bool,
    /// What was told of this history is false: the feed begins another one, unless it has.
    pub doubted: Option<History>,
    /// Whether the revision of a tick is wanted.
    pub wants_tick: bool,
}

/// Upstream's answer to one question, asked after the call came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The connection on which it was asked.
    pub source: SourceId,
    /// Upstream's newest revision when it answered.
    pub revision: ResourceVersion,
    /// The feed's position when the question was sent.
    pub asked_at: ResourceVersion,
    /// What the scope contains at `revision`, where that was wanted.
    pub entries: Option<Vec<Entry>>,
    /// Whether the feed could tick.
    pub can_tick: bool,
}

/// One object without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub rv: ResourceVersion,
    /// Of its bytes, where that was wanted.
    pub digest: Option<u64>,
}

// === impl Prove ===

impl Prove {
    /// Asks for nothing but the revision.
    pub fn revision(mirror: GroupVersionResource) -> Self {
        Self {
            mirror,
            scope: Scope::default(),
            wants_entries: false,
            wants_catch_up: false,
            wants_digests: false,
            doubted: None,
            wants_tick: false,
        }
    }
}

impl From<&Prove> for wire::Prove {
    fn from(prove: &Prove) -> Self {
        let Prove { mirror, scope, wants_entries, wants_catch_up, wants_digests, doubted, wants_tick } =
            prove;
        Self {
            hello: Some(Spoken::OURS.hello()),
            mirror: Some(mirror.into()),
            scope: Some(scope.into()),
            wants_entries: *wants_entries,
            wants_catch_up: *wants_catch_up,
            wants_digests: *wants_digests,
            doubted: doubted.map(History::get),
            wants_tick: *wants_tick,
        }
    }
}

impl TryFrom<wire::Prove> for Prove {
    type Error = ProtocolError;

    fn try_from(prove: wire::Prove) -> Result<Self, ProtocolError> {
        greeted(prove.hello)?;
        Ok(Self {
            mirror: mirror(prove.mirror)?,
            scope: required(prove.scope, "scope")?.try_into()?,
            wants_entries: prove.wants_entries,
            wants_catch_up: prove.wants_catch_up,
            wants_digests: prove.wants_digests,
            doubted: prove.doubted.map(History::new),
            wants_tick: prove.wants_tick,
        })
    }
}

// === impl Proof ===

impl From<&Proof> for wire::Proof {
    fn from(proof: &Proof) -> Self {
        let Proof { source, revision, asked_at, entries, can_tick } = proof;
        let entries = entries.as_ref().map(|entries| wire::Entries {
            entries: entries
                .iter()
                .map(|Entry { key, uid, rv, digest }| wire::Entry {
                    key: key.to_string(),
                    uid: uid.to_string(),
                    rv: rv.get(),
                    digest: *digest,
                })
                .collect(),
        });
        let (revision, asked_at) = (revision.get(), asked_at.get());
        Self { source: source.0, revision, asked_at, entries, can_tick: *can_tick }
    }
}

impl TryFrom<wire::Proof> for Proof {
    type Error = ProtocolError;

    fn try_from(proof: wire::Proof) -> Result<Self, ProtocolError> {
        let entry = |entry: wire::Entry| {
            Ok(Entry {
                key: key(&entry.key, "entry.key")?,
                uid: text(&entry.uid, "entry.uid")?,
                rv: ResourceVersion::new(entry.rv),
                digest: entry.digest,
            })
        };
        let entries = proof.entries.map(|entries| all(entries.entries, entry));
        Ok(Self {
            source: SourceId(proof.source),
            revision: ResourceVersion::new(proof.revision),
            asked_at: ResourceVersion::new(proof.asked_at),
            entries: entries.transpose()?,
            can_tick: proof.can_tick,
        })
    }
}
