//! How much of the log a store keeps. One injected value bounds age, events and bytes together; whichever is reached
//! first moves the floor.

use std::time::Duration;

use crate::resource_version::ResourceVersion;

/// The bounds of a store's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowBounds {
    /// Events older than this are dropped.
    pub max_age: Duration,
    /// At most this many events are kept.
    pub max_events: usize,
    /// At most this part of the live bytes is kept as replaced versions, in percent.
    pub max_percent_of_live: usize,
    /// Below this many bytes the percentage does not count: a small mirror keeps its history.
    pub free_bytes: usize,
    /// Events younger than this are kept whatever the other bounds say; it covers upstream's own promise.
    pub min_age: Duration,
}

/// What a store can answer: snapshots at `floor..=frontier`, logs from `floor..`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The lowest position from which the log is complete.
    pub floor: ResourceVersion,
    /// The highest position up to which everything is here.
    pub frontier: ResourceVersion,
}

// === impl WindowBounds ===

impl Default for WindowBounds {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(600),
            max_events: 100_000,
            max_percent_of_live: 50,
            free_bytes: 16 << 20,
            min_age: Duration::from_secs(75),
        }
    }
}

// === impl Window ===

impl Window {
    /// Whether a snapshot at `at` can be served.
    pub fn contains(&self, at: ResourceVersion) -> bool {
        self.floor <= at && at <= self.frontier
    }

    /// The highest position that lies in all windows; `None` where there is none.
    pub fn highest_common(windows: impl IntoIterator<Item = Self>) -> Option<ResourceVersion> {
        let both = windows
            .into_iter()
            .reduce(|a, b| Self { floor: a.floor.max(b.floor), frontier: a.frontier.min(b.frontier) })?;
        (both.floor <= both.frontier).then_some(both.frontier)
    }
}
