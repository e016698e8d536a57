//! What one client has open, and what all of them have: lists that are being sent, watches, and what is watched.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::account::Limit;
use super::turns::{Turn, Turns};
use crate::http::line::{Held, Line};

/// How long a list is sent and a watch lasts, before it is known.
const FIRST_LIST: Duration = Duration::from_secs(1);
const FIRST_WATCH: Duration = Duration::from_secs(60);

/// How much there may be at once.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    /// Lists that are being made or sent.
    pub lists: u32,
    /// Bytes of them that connections have taken and not asked for more since; no list is begun beyond it.
    pub bytes: u64,
    /// Open watches.
    pub watches: u32,
    /// Watches that read on in the logs of shards, since they are behind what is kept for all: others wait for their turn.
    pub late: u32,
    /// Distinct interests that are watched. Watches of single objects share one and are not counted.
    pub interests: usize,
}

/// What is open.
#[derive(Debug)]
pub(super) struct Open {
    at_once: AtOnce,
    lists: Arc<Line>,
    watches: Arc<Line>,
    bytes: AtomicU64,
    late: Arc<Semaphore>,
    turns: Arc<Turns>,
    /// How many watch each.
    interests: Mutex<HashMap<u64, u32>>,
}

/// A list or a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Watch,
}

/// Why there is no place, and after how many seconds to come again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Full {
    pub(super) limit: Limit,
    pub(super) seconds: u32,
}

// === impl Open ===

impl Open {
    /// So much at once, and so many pieces of lists in the making while others ask as well.
    pub(super) fn new(at_once: AtOnce, pieces: usize) -> Self {
        let line = |places, hold| Arc::new(Line::new(places, hold));
        Self {
            at_once,
            lists: line(at_once.lists, FIRST_LIST),
            watches: line(at_once.watches, FIRST_WATCH),
            bytes: AtomicU64::new(0),
            late: Arc::new(Semaphore::new(at_once.late as usize)),
            turns: Arc::new(Turns::new(pieces)),
            interests: Mutex::default(),
        }
    }

    /// A place for a list or watch.
    pub(super) fn enter(&self, kind: Kind) -> Result<Held, Full> {
        match kind {
            Kind::List if self.bytes() >= self.at_once.bytes => {
                Err(Full { limit: Limit::Bytes, seconds: self.lists.refuse() })
            }
            Kind::List => self.lists.enter().map_err(|seconds| Full { limit: Limit::ListsAtOnce, seconds }),
            Kind::Watch => self.watches.enter().map_err(|seconds| Full { limit: Limit::Watches, seconds }),
        }
    }

    /// One more watches this; refused if it is one too many.
    pub(super) fn watch(&self, interest: u64) -> Result<(), Full> {
        let mut interests = self.interests.lock();
        if interests.len() >= self.at_once.interests && !interests.contains_key(&interest) {
            return Err(Full { limit: Limit::Interests, seconds: self.watches.refuse() });
        }
        *interests.entry(interest).or_default() += 1;
        Ok(())
    }

    /// One less watches it.
    pub(super) fn unwatch(&self, interest: u64) {
        let mut interests = self.interests.lock();
        let Some(count) = interests.get_mut(&interest) else { return };
        *count -= 1;
        if *count == 0 {
            interests.remove(&interest);
        }
    }

    /// What a list has under way now in place of what it had.
    pub(super) fn moved(&self, before: u64, now: u64) {
        self.bytes.fetch_add(now, Ordering::Relaxed);
        self.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// A turn of a watch that is behind. Dropping the future gives its place among those who wait up.
    pub(super) async fn late(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.late).acquire_owned().await.ok()
    }

    /// A turn to make a piece of a list.
    pub(super) fn turn(&self) -> impl Future<Output = Turn> + Send + use<> {
        self.turns.clone().take()
    }

    pub(super) fn lists(&self) -> u32 {
        self.lists.held()
    }

    pub(super) fn watches(&self) -> u32 {
        self.watches.held()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn interests(&self) -> usize {
        self.interests.lock().len()
    }

    pub(super) fn are_late(&self) -> usize {
        (self.at_once.late as usize).saturating_sub(self.late.available_permits())
    }
}
