//! Warm start: a node that comes back with nothing takes its content from a replica, while that one goes on. A snapshot at F,
//! a little above the donor's floor, is installed as a list at F; what the donor's log says from there on follows as
//! statements. The copy's floor is F, whatever the donor still has.
//!
//! The donor's window moves meanwhile, or it goes over to another history: then the copy begins again, or gives up and waits
//! for a list.

use std::sync::Arc;

use rand::Rng;
use weir_core::interest::Interest;
use weir_core::message::{
    Change, ChangeKind, EventKind, FeedMessage, InterestEvent, ListChunk, ListId, LogRequest,
    SnapshotRequest, SnapshotStart,
};
use weir_core::{Object, ResourceVersion};

use crate::settings::MAX_LOG;
use crate::shard::Shard;
use crate::world::World;

/// Copies have numbers of their own.
const COPIES: u64 = 1 << 33;

/// How far a copy is.
#[derive(Debug)]
pub(crate) enum Copy {
    /// No donor is known.
    Choosing,
    /// The snapshot is read, chunk after chunk.
    Reading { donor: usize, at: ResourceVersion, from: Option<SnapshotStart>, objects: Vec<Arc<Object>> },
    /// The snapshot is installed; the log follows.
    Following { donor: usize },
}

// === impl World ===

impl World {
    /// One step of a copy. False when none is under way.
    pub(crate) fn step_copy(&mut self) -> bool {
        let places: Vec<usize> = self.copies.keys().copied().collect();
        if places.is_empty() {
            return false;
        }
        let place = places[self.rng.random_range(0..places.len())];
        let next = match self.copies.remove(&place) {
            None => None,
            Some(Copy::Choosing) => self.choose_donor(place),
            Some(Copy::Reading { donor, at, from, objects }) => {
                self.read_donor(place, (donor, at, from), objects)
            }
            Some(Copy::Following { donor }) => self.follow_donor(place, donor),
        };
        self.copies.extend(next.map(|copy| (place, copy)));
        true
    }

    fn choose_donor(&mut self, place: usize) -> Option<Copy> {
        let slots = self.shards[place].slots;
        let is_donor = |(other, shard): &(usize, &Shard)| *other != place && shard.slots.covers(&slots);
        let donors = self.shards.iter().enumerate().filter(is_donor);
        let full: Vec<_> = donors.filter_map(|(donor, shard)| Some((donor, shard.node.window()?))).collect();
        if full.is_empty() {
            return None;
        }
        let (donor, window) = full[self.rng.random_range(0..full.len())];
        // What the node takes is of the donor's history, and so is the node from here on.
        self.hand(place, &FeedMessage::Restored(self.shards[donor].node.store().history()));
        let highest = window.frontier.get().min(window.floor.get() + 2);
        let at = ResourceVersion::new(self.rng.random_range(window.floor.get()..=highest));
        Some(Copy::Reading { donor, at, from: None, objects: Vec::new() })
    }

    fn read_donor(
        &mut self,
        place: usize,
        (donor, at, from): (usize, ResourceVersion, Option<SnapshotStart>),
        mut objects: Vec<Arc<Object>>,
    ) -> Option<Copy> {
        let request = SnapshotRequest {
            history: self.shards[place].node.store().history(),
            interest: Arc::new(Interest::everything()),
            slots: self.shards[place].slots,
            at,
            from,
            max_objects: self.rng.random_range(1..=4),
        };
        let Ok(chunk) = self.shards[donor].node.store().snapshot(&request) else {
            self.reached.copied_anew += 1;
            return self.rng.random_bool(0.7).then_some(Copy::Choosing);
        };
        objects.extend(chunk.objects);
        if let Some(next) = chunk.next {
            return Some(Copy::Reading { donor, at, from: Some(SnapshotStart::Behind(next)), objects });
        }
        self.lists += 1;
        let list = ListId(COPIES + self.lists);
        self.hand(place, &FeedMessage::List(ListChunk { list, at, seq: 0, is_last: true, objects }));
        Some(Copy::Following { donor })
    }

    /// What cannot be followed any further is left to the feeds, which go on from wherever the copy is.
    fn follow_donor(&mut self, place: usize, donor: usize) -> Option<Copy> {
        let after = self.shards[place].node.window()?.frontier;
        let request = LogRequest {
            history: self.shards[place].node.store().history(),
            interest: Arc::new(Interest::everything()),
            slots: self.shards[place].slots,
            after,
            to: ResourceVersion::new(after.get() + MAX_LOG),
        };
        let store = self.shards[donor].node.store();
        let frontier = store.window()?.frontier;
        let statement = store.log(&request).ok()?.filter_map(|event| Some(change(event)));
        let has_all = statement.to() >= frontier;
        self.hand(place, &FeedMessage::Statement(statement));
        self.reached.copied += usize::from(has_all);
        (!has_all).then_some(Copy::Following { donor })
    }
}

/// The change behind an event of somebody who sees everything.
fn change(event: &InterestEvent) -> Change {
    let kind = match event.kind {
        EventKind::Added | EventKind::Modified => ChangeKind::Put,
        EventKind::Deleted => ChangeKind::Delete,
    };
    Change { rv: event.rv, kind, object: event.object.clone() }
}
