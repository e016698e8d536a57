//! Which life of upstream's revision sequence is meant. A restored backup begins another one, and numbers of two histories
//! say nothing about each other.
//!
//! Processes learn of a restore at different times, so the number counts the restores that are known of: who hears of a
//! higher one drops what it has. What was told of a history and found false ends it too, as if upstream had been restored.
//! Equal numbers mean the same history as far as anybody knows, not that it was compared.

use std::fmt;

/// How often upstream's history went back, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct History(u64);

// === impl History ===

impl History {
    /// The one before any restore that is known of.
    pub const FIRST: Self = Self(0);

    /// The history with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one that begins when upstream's history goes back.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
