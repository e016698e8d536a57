//! The checker: judges what a client saw against upstream's log. Plain functions over recorded histories, so that
//! property tests, the explorer and runs against a real apiserver share one opinion of what is right.
//!
//! It knows nothing of how weir works. It replays the log for each question, which is slow and easy to believe; a history
//! has to be recorded from upstream itself, never from weir.

mod history;
mod lists;
#[cfg(test)]
mod tests;
mod watches;

use std::sync::Arc;

use bytes::Bytes;
use weir_core::message::EventKind;
use weir_core::{ObjectKey, ResourceVersion};

pub use history::{Expected, History, Recorded};
pub use lists::{Listing, check_list};
pub use watches::{Item, Watch, check_watch};

/// One version of one object, as upstream wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The key.
    pub key: ObjectKey,
    /// The uid; a recreated name has another.
    pub uid: Arc<str>,
    /// The resourceVersion that the body carries.
    pub rv: ResourceVersion,
    /// The JSON.
    pub body: Bytes,
}

/// An event as a client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its type.
    pub kind: EventKind,
    /// Its object.
    pub version: Version,
}

/// Which objects a client asked for, judged by the test, not by weir.
pub type Selection<'a> = &'a dyn Fn(&Version) -> bool;

/// What is wrong with what a client saw.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// An event of the client's selection never came.
    #[error("event {missing} was dropped: nothing of it came before {next}")]
    Dropped {
        /// The event that is missing.
        missing: ResourceVersion,
        /// What came in its place.
        next: ResourceVersion,
    },
    /// An event came twice.
    #[error("event {0} was repeated")]
    Repeated(ResourceVersion),
    /// An event came behind a later one.
    #[error("event {late} came behind {behind}")]
    OutOfOrder {
        /// The event that came late.
        late: ResourceVersion,
        /// What came before it.
        behind: ResourceVersion,
    },
    /// An event came that the client had already when it began.
    #[error("event {rv} is stale: the client began at {after}")]
    Stale {
        /// The event.
        rv: ResourceVersion,
        /// Where the client began.
        after: ResourceVersion,
    },
    /// An event that upstream never made, or that is not of the selection.
    #[error("event {0} does not exist for this selection")]
    Invented(ResourceVersion),
    /// An event whose type, object or content differs from upstream's.
    #[error("event {rv} differs: saw {saw}, expected {expected}")]
    Differs {
        /// The event.
        rv: ResourceVersion,
        /// What the client saw.
        saw: String,
        /// What upstream's log says.
        expected: String,
    },
    /// A bookmark promised what had not been sent, or went back.
    #[error("bookmark {promised} promises too much: {missing} had not been sent")]
    Promised {
        /// The bookmark.
        promised: ResourceVersion,
        /// The first event that it covers and the client lacks.
        missing: ResourceVersion,
    },
    /// A bookmark lies behind what the client had.
    #[error("bookmark {promised} lies behind {position}")]
    BookmarkBehind {
        /// The bookmark.
        promised: ResourceVersion,
        /// Where the client stood.
        position: ResourceVersion,
    },
    /// The stream is silent about an event that it should have brought by now.
    #[error("silent: event {missing} never came, though the stream should be complete to {to}")]
    Silent {
        /// The first event that is missing.
        missing: ResourceVersion,
        /// Up to where the stream should have come.
        to: ResourceVersion,
    },
    /// A list older than what had to be shown.
    #[error("list at {at} is older than {not_older_than}")]
    OldList {
        /// The list's revision.
        at: ResourceVersion,
        /// The lowest revision that was allowed.
        not_older_than: ResourceVersion,
    },
    /// A list that is not the collection at its revision.
    #[error("list at {at} is not the collection at that revision: at {place} saw {saw}, expected {expected}")]
    NotTheSnapshot {
        /// The list's revision.
        at: ResourceVersion,
        /// Which item.
        place: usize,
        /// What the client saw.
        saw: String,
        /// What the replay says.
        expected: String,
    },
    /// A question about a revision that the history doesn't reach or cover.
    #[error("the history cannot judge {0}")]
    BeyondHistory(ResourceVersion),
}

// === impl Version ===

impl Version {
    /// The same content carrying another resourceVersion: a textual replacement of the first mention, apart from how weir
    /// does it.
    #[must_use]
    pub fn carrying(&self, rv: ResourceVersion) -> Self {
        let body = String::from_utf8_lossy(&self.body);
        let (old, new) =
            (format!("\"resourceVersion\":\"{}\"", self.rv), format!("\"resourceVersion\":\"{rv}\""));
        Self { body: Bytes::from(body.replacen(&old, &new, 1)), rv, ..self.clone() }
    }
}

/// One line about a version, for faults.
fn describe(version: &Version) -> String {
    format!("{}@{} uid {} {}", version.key, version.rv, version.uid, String::from_utf8_lossy(&version.body))
}
