//! What feed, shard nodes and proxies say to each other. In one process these values are handed over as they are; between
//! processes the wire carries the same. Everything with log content is a [`Statement`].

mod question;

use std::num::NonZeroU64;
use std::sync::Arc;

use crate::history::History;
use crate::interest::Interest;
use crate::object::{Object, ObjectKey};
use crate::resource_version::ResourceVersion;
use crate::slot::SlotSet;
use crate::statement::{Event, SourceId, Statement};

pub use question::{CountRequest, LogRequest, SnapshotChunk, SnapshotRequest, SnapshotStart, Unanswered};

/// One change of upstream's log.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its position; the object carries the same.
    pub rv: ResourceVersion,
    /// Whether the object is there afterwards.
    pub kind: ChangeKind,
    /// The new object, or the last content of a deleted one as upstream shows it.
    pub object: Arc<Object>,
}

/// Whether a change leaves an object or removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Created or updated.
    Put,
    /// Deleted.
    Delete,
}

/// Names one list of a feed, so that chunks of two lists are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListId(pub u64);

/// A part of a list from upstream, staged by the receiver until the last one is there.
#[derive(Clone, Debug)]
pub struct ListChunk {
    /// Which list.
    pub list: ListId,
    /// The revision of the whole list.
    pub at: ResourceVersion,
    /// 0, 1, 2, … without a hole.
    pub seq: u32,
    /// Whether this is the end of the list.
    pub is_last: bool,
    /// The objects, in key order.
    pub objects: Vec<Arc<Object>>,
}

/// From a feed to a shard node.
#[derive(Clone, Debug)]
pub enum FeedMessage {
    /// Log content.
    Statement(Statement<Change>),
    /// List content.
    List(ListChunk),
    /// Upstream's history went back and another one began: drop everything; a list follows.
    Restored(History),
}

/// How an event looks to one interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The object entered the interest.
    Added,
    /// It changed inside the interest.
    Modified,
    /// It left the interest, or was deleted.
    Deleted,
}

/// One event of one interest, as its clients are shown it.
#[derive(Clone, Debug)]
pub struct InterestEvent {
    /// The position.
    pub rv: ResourceVersion,
    /// How it looks.
    pub kind: EventKind,
    /// The object, carrying `rv`.
    pub object: Arc<Object>,
}

/// One event for all interests of a session that it concerns.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The position.
    pub rv: ResourceVersion,
    /// The object as those see it for whom it was added or modified.
    pub present: Option<Arc<Object>>,
    /// The object as those see it for whom it was deleted.
    pub gone: Option<Arc<Object>>,
    /// Whom it concerns, and how it looks to them.
    pub tags: Vec<(OpenId, EventKind)>,
}

/// Names one registration of an interest on one session; never used twice there, not even for the same interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

/// How many events a node may send for a registration before it must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit(pub u32);

/// The registration of an interest.
#[derive(Clone, Debug)]
pub struct Open {
    /// The new name.
    pub id: OpenId,
    /// What to match.
    pub interest: Arc<Interest>,
    /// The slots meant; the node must hold all of them.
    pub slots: SlotSet,
    /// How many events may be sent.
    pub credit: Credit,
}

/// Numbers the changes of one name set, each one more than the last, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamesEdit(NonZeroU64);

/// A change of a name set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamesChange {
    /// The registration.
    pub id: OpenId,
    /// Which change.
    pub edit: NamesEdit,
    /// Wanted from now on.
    pub added: Vec<ObjectKey>,
    /// No longer wanted; none is in both.
    pub removed: Vec<ObjectKey>,
}

/// From a proxy to a shard node, in order.
#[derive(Clone, Debug)]
pub enum ToNode {
    /// Register.
    Open(Open),
    /// Register a name set: of the interest only these objects are wanted.
    OpenNames(Open, Vec<ObjectKey>),
    /// A name set is for other objects from now on; answered by [`FromNode::Named`], ignored for an id that is gone.
    Names(NamesChange),
    /// The proxy no longer wants it.
    Close(OpenId),
    /// More events may be sent; ignored for an id that is gone.
    Credit(OpenId, Credit),
}

/// From a shard node to a proxy, in order.
#[derive(Clone, Debug)]
pub enum FromNode {
    /// All events of the registered interests since the last one said; its end is the node's frontier of the mirror.
    Said(Statement<Delivery>),
    /// Registered; events after `at` come from now on.
    Live {
        /// The registration.
        id: OpenId,
        /// The node's frontier in the step of registration.
        at: ResourceVersion,
    },
    /// A name set was changed; events after `at` come from now on for what was added.
    Named {
        /// The registration.
        id: OpenId,
        /// Which change.
        edit: NamesEdit,
        /// The node's frontier in that step.
        at: ResourceVersion,
    },
    /// The node doesn't hold all the slots.
    NotMine(OpenId),
    /// The credit ran out: registration ended; everything up to `at` was said.
    Left {
        /// The registration.
        id: OpenId,
        /// The last event or frontier said to it.
        at: ResourceVersion,
    },
    /// A new store was installed past what the registration had: registration ended.
    TooOld(OpenId),
    /// Upstream's history went back: all registrations of the mirror ended, nothing up to `highest` may be resumed.
    Restored {
        /// The highest frontier that was ever stated.
        highest: ResourceVersion,
        /// The history that began.
        history: History,
    },
    /// What follows is of this history: said first, and when a node that holds nothing learns of another one.
    History(History),
}

// === impl Event ===

impl Event for Change {
    fn rv(&self) -> ResourceVersion {
        self.rv
    }
}

impl Event for InterestEvent {
    fn rv(&self) -> ResourceVersion {
        self.rv
    }
}

impl Event for Delivery {
    fn rv(&self) -> ResourceVersion {
        self.rv
    }
}

// === impl Delivery ===

impl Delivery {
    /// The event as the registration sees it, if it concerns it.
    pub fn for_tag(&self, kind: EventKind) -> Option<InterestEvent> {
        let object = match kind {
            EventKind::Added | EventKind::Modified => self.present.clone(),
            EventKind::Deleted => self.gone.clone(),
        };
        Some(InterestEvent { rv: self.rv, kind, object: object? })
    }
}

// === impl NamesEdit ===

impl NamesEdit {
    /// The first change of a set.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// The change with this number; `None` for 0.
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The change after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

// === impl FeedMessage ===

impl FeedMessage {
    /// The same for a receiver of `slots`: intervals stay, foreign events and objects go.
    #[must_use]
    pub fn narrowed(&self, slots: &SlotSet) -> Self {
        let mine = |object: &Object| slots.contains(object.slot());
        match self {
            Self::Statement(statement) => {
                Self::Statement(statement.filter_map(|change| mine(&change.object).then(|| change.clone())))
            }
            Self::List(chunk) => Self::List(ListChunk {
                objects: chunk.objects.iter().filter(|object| mine(object)).cloned().collect(),
                ..chunk.clone()
            }),
            Self::Restored(history) => Self::Restored(*history),
        }
    }

    /// The source, where the message has one.
    pub fn source(&self) -> Option<SourceId> {
        match self {
            Self::Statement(statement) => Some(statement.source()),
            Self::List(_) | Self::Restored(_) => None,
        }
    }
}
