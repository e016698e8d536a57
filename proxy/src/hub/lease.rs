//! What a client has of a hub: a share of it, and a wake-up. The hub is open as long as somebody has a share.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use weir_core::ResourceVersion;
use weir_core::interest::Interest;
use weir_core::message::InterestEvent;

use super::fanout::Fanout;
use super::{End, Hub, HubBounds, Read};
use crate::merge::InterestId;
use crate::shards::Shards;

/// A hub shared by its clients.
#[derive(Debug)]
pub(super) struct HubCell {
    pub(super) id: InterestId,
    pub(super) interest: Arc<Interest>,
    hub: Mutex<Hub>,
    /// Counts what was added, so that a client can wait for more.
    added: watch::Sender<u64>,
}

/// A client's share of a hub; the interest closes with the last one.
#[derive(Debug)]
pub struct Lease {
    fanout: Arc<Fanout>,
    cell: Option<Arc<HubCell>>,
    added: watch::Receiver<u64>,
}

// === impl HubCell ===

impl HubCell {
    pub(super) fn new(id: InterestId, interest: Arc<Interest>, after: ResourceVersion) -> Self {
        let hub = Mutex::new(Hub::new(after, HubBounds::default()));
        Self { id, interest, hub, added: watch::Sender::new(0) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.hub.lock().bytes()
    }

    pub(super) fn push(&self, events: Vec<InterestEvent>) {
        self.hub.lock().push(events);
        self.added.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(super) fn end(&self, end: End) {
        self.hub.lock().end(end);
        self.added.send_modify(|count| *count = count.wrapping_add(1));
    }
}

// === impl Lease ===

impl Lease {
    pub(super) fn new(fanout: &Arc<Fanout>, cell: Arc<HubCell>) -> Self {
        Self { fanout: fanout.clone(), added: cell.added.subscribe(), cell: Some(cell) }
    }

    /// Up to where everything was released. Ask before reading: what is then read to the hub's end covers it.
    pub fn frontier(&self) -> ResourceVersion {
        let Some(cell) = &self.cell else { return ResourceVersion::ZERO };
        self.fanout.frontier_of(cell.id)
    }

    /// At most `max` events after the cursor.
    pub fn read(&mut self, cursor: ResourceVersion, max: usize) -> Read {
        self.added.mark_unchanged();
        self.cell.as_ref().map_or(Read::Ended(End::TooOld), |cell| cell.hub.lock().read(cursor, max))
    }

    /// Waits until something was added since the last read.
    pub async fn changed(&mut self) {
        // The sender lives in the cell that the lease holds, so the channel cannot close.
        let _ = self.added.changed().await;
    }

    /// A share of the interest's hub as it is now: where this one has ended, of another one.
    pub fn again(&self) -> Option<Self> {
        self.cell.as_ref().map(|cell| self.fanout.follow(&cell.interest))
    }

    /// What is followed.
    pub fn interest(&self) -> Option<&Arc<Interest>> {
        self.cell.as_ref().map(|cell| &cell.interest)
    }

    /// The shards behind the hub.
    pub fn shards(&self) -> &Shards {
        self.fanout.shards()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(cell) = self.cell.take() {
            self.fanout.release(&cell);
        }
    }
}
