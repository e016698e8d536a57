//! The versions of one key inside the window, newest first. Nearly every key has exactly one, which is why it is kept
//! inline.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_core::{Object, ResourceVersion};

/// A version, or `None` for a deletion.
#[derive(Debug)]
struct Version {
    rv: ResourceVersion,
    object: Option<Arc<Object>>,
}

/// The versions of one key.
#[derive(Debug, Default)]
pub(super) struct Chain(SmallVec<[Version; 1]>);

// === impl Chain ===

impl Chain {
    pub(super) fn of(object: Arc<Object>) -> Self {
        let mut chain = Self::default();
        chain.push(object.rv(), Some(object));
        chain
    }

    /// Adds the newest version.
    pub(super) fn push(&mut self, rv: ResourceVersion, object: Option<Arc<Object>>) {
        self.0.insert(0, Version { rv, object });
    }

    /// What exists now.
    pub(super) fn newest(&self) -> Option<&Arc<Object>> {
        self.0.first().and_then(|version| version.object.as_ref())
    }

    /// What existed at `at`.
    pub(super) fn at(&self, at: ResourceVersion) -> Option<&Arc<Object>> {
        self.0.iter().find(|version| version.rv <= at).and_then(|version| version.object.as_ref())
    }

    /// Drops and returns what the version at `rv` replaced.
    pub(super) fn drop_before(&mut self, rv: ResourceVersion) -> SmallVec<[Arc<Object>; 1]> {
        let keep = self.0.iter().take_while(|version| version.rv >= rv).count();
        let dropped = self.0.drain(keep..).filter_map(|version| version.object).collect();
        self.0.shrink_to_fit();
        dropped
    }

    pub(super) fn is_only_a_deletion(&self) -> bool {
        matches!(self.0.as_slice(), [] | [Version { object: None, .. }])
    }

    pub(super) fn has_uid_hash(&self, hash: u64) -> bool {
        self.0.iter().any(|version| version.object.as_ref().is_some_and(|object| object.uid_hash() == hash))
    }

    /// Every version that is an object.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.0.iter().filter_map(|version| version.object.as_ref())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the newest version stands first.
    pub(super) fn is_falling(&self) -> bool {
        self.0.is_sorted_by(|newer, older| newer.rv > older.rv)
    }
}
