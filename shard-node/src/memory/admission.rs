//! What is refused while memory has run out and nothing is left to give up: new lists, and then new watches too. What is
//! open goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// What is refused now. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Admission(Arc<AtomicU8>);

/// What can be refused, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    /// New lists.
    Lists,
    /// New watches.
    Watches,
}

/// How many kinds of requests are refused at most.
const ALL: u8 = 2;

// === impl Admission ===

impl Admission {
    /// Whether new requests of a kind are refused.
    pub fn refuses(&self, kind: Refused) -> bool {
        self.0.load(Ordering::Relaxed) >= kind.level()
    }

    /// Refuses one kind more; which, if there was one left.
    pub(super) fn tighten(&self) -> Option<Refused> {
        let level = self.0.load(Ordering::Relaxed);
        // Only the keeper writes.
        self.0.store((level + 1).min(ALL), Ordering::Relaxed);
        Refused::of(level + 1)
    }

    /// Refuses one kind less; which, if one was refused.
    pub(super) fn relax(&self) -> Option<Refused> {
        let level = self.0.load(Ordering::Relaxed);
        self.0.store(level.saturating_sub(1), Ordering::Relaxed);
        Refused::of(level)
    }
}

// === impl Refused ===

impl Refused {
    fn level(self) -> u8 {
        match self {
            Self::Lists => 1,
            Self::Watches => ALL,
        }
    }

    fn of(level: u8) -> Option<Self> {
        [Self::Lists, Self::Watches].into_iter().find(|kind| kind.level() == level)
    }
}
