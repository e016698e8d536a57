//! Upstream's log as a test recorded it. It may begin with a list; what lies before that list cannot be judged.

use std::collections::BTreeMap;

use weir_core::message::{ChangeKind, EventKind};
use weir_core::{ObjectKey, ResourceVersion};

use super::{Seen, Selection, Version};

/// One change with what it replaced.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Whether the object is there afterwards.
    pub kind: ChangeKind,
    /// The new version, or the last content of a deleted one; it carries the change's revision.
    pub version: Version,
    /// What was there before.
    pub previous: Option<Version>,
}

/// Upstream's log.
#[derive(Clone, Debug, Default)]
pub struct History {
    start: ResourceVersion,
    initial: BTreeMap<ObjectKey, Version>,
    present: BTreeMap<ObjectKey, Version>,
    changes: Vec<Recorded>,
}

/// An event that a client of a selection has to see.
pub type Expected = Seen;

// === impl History ===

impl History {
    /// A history that begins with the collection at `at`.
    pub fn from_list(at: ResourceVersion, versions: impl IntoIterator<Item = Version>) -> Self {
        let initial: BTreeMap<_, _> =
            versions.into_iter().map(|version| (version.key.clone(), version)).collect();
        Self { start: at, present: initial.clone(), initial, changes: Vec::new() }
    }

    /// Adds a change; its revision must lie behind all others.
    pub fn push(&mut self, kind: ChangeKind, version: Version) {
        assert!(version.rv > self.last(), "upstream's log rises: {} behind {}", version.rv, self.last());
        let previous = match kind {
            ChangeKind::Put => self.present.insert(version.key.clone(), version.clone()),
            ChangeKind::Delete => self.present.remove(&version.key),
        };
        self.changes.push(Recorded { kind, version, previous });
    }

    /// Where the history begins.
    pub fn start(&self) -> ResourceVersion {
        self.start
    }

    /// The revision of the last change.
    pub fn last(&self) -> ResourceVersion {
        self.changes.last().map_or(self.start, |change| change.version.rv)
    }

    /// The changes in (after, to].
    pub fn between(&self, after: ResourceVersion, to: ResourceVersion) -> &[Recorded] {
        let first = self.changes.partition_point(|change| change.version.rv <= after);
        let end = self.changes.partition_point(|change| change.version.rv <= to);
        &self.changes[first..end.max(first)]
    }

    /// The same log up to `at`, as a restored backup has it.
    #[must_use]
    pub fn cut_at(&self, at: ResourceVersion) -> Self {
        let mut cut = Self::from_list(self.start, self.initial.values().cloned());
        for change in self.between(self.start, at) {
            cut.push(change.kind, change.version.clone());
        }
        cut
    }

    /// The collection at `at`, in the order of the keys' bytes.
    pub fn snapshot(&self, at: ResourceVersion) -> Vec<Version> {
        if at >= self.last() {
            return self.present.values().cloned().collect();
        }
        let mut present = self.initial.clone();
        for change in self.between(self.start, at) {
            match change.kind {
                ChangeKind::Put => present.insert(change.version.key.clone(), change.version.clone()),
                ChangeKind::Delete => present.remove(&change.version.key),
            };
        }
        present.into_values().collect()
    }

    /// What a client of the selection has to see in (after, to]. Events outside the selection are left out.
    pub fn events<'a>(
        &'a self,
        selection: Selection<'a>,
        after: ResourceVersion,
        to: ResourceVersion,
    ) -> impl Iterator<Item = Expected> + 'a {
        self.between(after, to).iter().filter_map(move |change| change.seen_by(selection))
    }
}

// === impl Recorded ===

impl Recorded {
    /// How the change looks to a client: an object that leaves the selection is deleted for it, with the content that the
    /// client knew and the revision of the change.
    pub fn seen_by(&self, selection: Selection<'_>) -> Option<Expected> {
        let was = self.previous.as_ref().filter(|previous| selection(previous));
        let is = match self.kind {
            ChangeKind::Put => Some(&self.version).filter(|version| selection(version)),
            ChangeKind::Delete => None,
        };
        match (was, is, self.kind) {
            (None, Some(version), _) => Some(Seen { kind: EventKind::Added, version: version.clone() }),
            (Some(_), Some(version), _) => Some(Seen { kind: EventKind::Modified, version: version.clone() }),
            (Some(_), None, ChangeKind::Delete) => {
                Some(Seen { kind: EventKind::Deleted, version: self.version.clone() })
            }
            (Some(was), None, ChangeKind::Put) => {
                Some(Seen { kind: EventKind::Deleted, version: was.carrying(self.version.rv) })
            }
            (None, None, _) => None,
        }
    }
}
