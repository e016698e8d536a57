//! Questions about what a node holds, and why it may not answer. Each names the history that its revision is of: a number alone
//! says nothing about a node that has gone over to another one.

use std::sync::Arc;

use crate::history::History;
use crate::interest::{Interest, Scope};
use crate::object::{Object, ObjectKey};
use crate::resource_version::ResourceVersion;
use crate::slot::SlotSet;

/// Asks a node for the events of an interest in (after, to].
#[derive(Clone, Debug)]
pub struct LogRequest {
    /// The history that the positions are of.
    pub history: History,
    /// What to match.
    pub interest: Arc<Interest>,
    /// The slots meant.
    pub slots: SlotSet,
    /// Exclusive start.
    pub after: ResourceVersion,
    /// Inclusive end; the answer may stop earlier.
    pub to: ResourceVersion,
}

/// Asks a node for a piece of the snapshot at one revision.
#[derive(Clone, Debug)]
pub struct SnapshotRequest {
    /// The history that the revision is of.
    pub history: History,
    /// What to match.
    pub interest: Arc<Interest>,
    /// The slots meant.
    pub slots: SlotSet,
    /// The revision.
    pub at: ResourceVersion,
    /// The lowest key wanted; `None` from the beginning.
    pub from: Option<SnapshotStart>,
    /// At most so many objects in one answer.
    pub max_objects: usize,
}

/// Where a piece of a snapshot begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotStart {
    /// At this text or behind it: a decoded continue token.
    At(Arc<str>),
    /// Behind this key: the next piece.
    Behind(ObjectKey),
}

/// Asks a node how many objects of a scope existed at one revision.
#[derive(Clone, Debug)]
pub struct CountRequest {
    /// The history that the revision is of.
    pub history: History,
    /// What is counted.
    pub scope: Scope,
    /// The slots meant.
    pub slots: SlotSet,
    /// The revision.
    pub at: ResourceVersion,
    /// The lowest key that counts; `None` from the beginning.
    pub from: Option<SnapshotStart>,
    /// Counting may end once there are so many.
    pub at_most: usize,
}

/// A piece of a snapshot, in key order.
#[derive(Clone, Debug)]
pub struct SnapshotChunk {
    /// The objects.
    pub objects: Vec<Arc<Object>>,
    /// Behind which key to go on; `None` at the end.
    pub next: Option<ObjectKey>,
}

/// Why a node doesn't answer a question about its log or its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// The window has moved past what was asked.
    #[error("too old: the log begins after {floor}")]
    TooOld {
        /// The node's floor.
        floor: ResourceVersion,
    },
    /// The node hasn't come so far.
    #[error("not reached: the log ends at {frontier}")]
    NotReached {
        /// The node's frontier.
        frontier: ResourceVersion,
    },
    /// The node doesn't hold all the slots.
    #[error("not mine")]
    NotMine,
    /// The node holds nothing of this mirror yet, or what it holds is of another history.
    #[error("empty")]
    Empty,
}
