//! The account of one client.

use std::time::Duration;

use tokio::time::Instant;

use super::ClientLimits;
use crate::bucket::Bucket;

/// Of what there was too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Refused requests.
    Refusals,
    /// Bytes of large lists and states.
    Lists,
    /// Lists at once.
    ListsAtOnce,
    /// Bytes of lists at once.
    Bytes,
    /// Open watches.
    Watches,
    /// Distinct interests.
    Interests,
}

/// What a client has left.
#[derive(Debug)]
pub(super) struct Account {
    refusals: Bucket,
    list_bytes: Bucket,
    /// The bytes of its last large list.
    last_list: u64,
}

// === impl Limit ===

impl Limit {
    /// The word for it in labels.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Refusals => "refusals",
            Self::Lists => "lists",
            Self::ListsAtOnce => "lists at once",
            Self::Bytes => "bytes at once",
            Self::Watches => "watches",
            Self::Interests => "interests",
        }
    }
}

// === impl Account ===

impl Account {
    /// That of a client that has cost nothing.
    pub(super) fn new(limits: &ClientLimits, now: Instant) -> Self {
        let (refusals, list_bytes) =
            (Bucket::full(limits.refusals, now), Bucket::full(limits.list_bytes, now));
        Self { refusals, list_bytes, last_list: 0 }
    }

    /// Of what it has had too much, and for how long that is so.
    pub(super) fn exceeded(&mut self, now: Instant) -> Option<(Limit, Duration)> {
        let refusals = self.refusals.wait(now).map(|wait| (Limit::Refusals, wait));
        refusals.or_else(|| self.list_bytes.wait(now).map(|wait| (Limit::Lists, wait)))
    }

    /// It was refused a request.
    pub(super) fn refused(&mut self, now: Instant) {
        self.refusals.take(1, now);
    }

    /// Takes what a list will cost, as far as one can know.
    pub(super) fn reserve(&mut self, now: Instant) -> u64 {
        self.list_bytes.take(self.last_list, now);
        self.last_list
    }

    /// Takes what a list has cost in place of what was reserved for it.
    pub(super) fn pay(&mut self, reserved: u64, cost: u64, now: Instant) {
        self.list_bytes.give(reserved, now);
        self.list_bytes.take(cost, now);
        if cost > 0 {
            self.last_list = cost;
        }
    }
}
