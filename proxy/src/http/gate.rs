//! How much is passed through for want of a mirror: of kinds that are mirrored but cannot answer now, a few lists and
//! watches at once, so that a cold start with many clients is no herd at upstream.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_core::Status;

/// Lists and gets at once.
const LISTS: usize = 8;
/// Watches at once.
const WATCHES: usize = 50;

/// What is let through.
#[derive(Clone, Debug)]
pub struct Gate {
    lists: Arc<Semaphore>,
    watches: Arc<Semaphore>,
}

/// A place in the gate, held until the answer has ended.
#[derive(Debug)]
pub struct Place {
    _held: OwnedSemaphorePermit,
}

// === impl Gate ===

impl Gate {
    /// An open gate.
    pub fn new() -> Self {
        Self { lists: Arc::new(Semaphore::new(LISTS)), watches: Arc::new(Semaphore::new(WATCHES)) }
    }

    /// A place for a list or get.
    pub fn list(&self) -> Result<Place, Status> {
        enter(&self.lists)
    }

    /// A place for a watch.
    pub fn watch(&self) -> Result<Place, Status> {
        enter(&self.watches)
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

fn enter(places: &Arc<Semaphore>) -> Result<Place, Status> {
    match places.clone().try_acquire_owned() {
        Ok(held) => Ok(Place { _held: held }),
        Err(_) => {
            Err(super::fail::busy("the mirror of this resource is loading; too many requests wait for it"))
        }
    }
}
