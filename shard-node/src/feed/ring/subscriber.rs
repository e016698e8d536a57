//! One subscriber, as the ring knows it: how far it has come by what it was handed, and what it waits for.

use std::time::Duration;

use weir_core::{History, ResourceVersion};

use super::lists::Place;

/// Names one subscriber of one feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriberId(pub u64);

/// What a subscriber has when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The newest history that it knows of.
    pub history: History,
    /// It has everything of that history up to here; `None` if it has nothing.
    pub after: Option<ResourceVersion>,
}

/// Where a subscriber stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subscriber {
    pub(super) history: History,
    /// What was handed to it leads up to here; `None` if it has nothing.
    pub(super) reached: Option<ResourceVersion>,
    pub(super) stage: Stage,
    /// False while it has to hear that its history is over.
    pub(super) is_told: bool,
    /// Since when it leaves unread what others may wait for.
    pub(super) idle: Option<Duration>,
}

/// What a subscriber reads, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The log of the main watch, behind `reached`.
    Log,
    /// The log from `reached` up to the main watch: a backfill has it, or one must be made.
    Backfill,
    /// A list that has not begun.
    NextList,
    /// A list. Before its first chunk, what log there still is.
    List(Place),
    /// The ring went past it; it has to say again where it stands.
    Passed,
}

// === impl Standing ===

impl Standing {
    /// A subscriber without content.
    pub const fn nothing(history: History) -> Self {
        Self { history, after: None }
    }

    /// A subscriber that has everything up to `after`.
    pub const fn at(history: History, after: ResourceVersion) -> Self {
        Self { history, after: Some(after) }
    }
}
