//! Reading the collection as it was at one revision, in key order, a chunk at a time. Each chunk holds the lock by itself
//! and checks the window anew, so writers never wait for a list.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use weir_core::message::{CountRequest, SnapshotChunk, SnapshotRequest, SnapshotStart, Unanswered};
use weir_core::shard_selector::ShardField;
use weir_core::{HashRange, History, Object, ObjectKey, ResourceVersion, Slot};

use super::{Held, Store};

/// Keys looked at under one hold of the lock: about 0.1 ms.
const MAX_SCANNED: usize = 2_000;
/// Objects that a reader takes at once, roughly.
const CHUNK: f64 = 500.0;
/// How much dearer a key is that has to be found by its hash and sorted than one that is passed in order.
const SORTED: f64 = 4.0;

// === impl Store ===

impl Store {
    /// A chunk of the snapshot at `request.at`.
    pub fn snapshot(&self, request: &SnapshotRequest) -> Result<SnapshotChunk, Unanswered> {
        let held = self.held_at(request.history, &request.slots)?;
        held.check(request.at)?;
        match &request.interest.shard {
            Some(shard) if shard.field() == ShardField::Uid && self.is_narrow(held, shard.ranges()) => {
                Ok(held.read_ranges(request, shard.ranges()))
            }
            Some(_) | None => Ok(held.read_keys(request)),
        }
    }

    /// One object as it was at `at`.
    pub fn get(
        &self,
        history: History,
        key: &ObjectKey,
        at: ResourceVersion,
    ) -> Result<Option<Arc<Object>>, Unanswered> {
        let held = self.held_at(history, &self.slots)?;
        held.check(at)?;
        Ok(held.keys.get(key).and_then(|chain| chain.at(at)).cloned())
    }

    /// How many objects there were, as far as one hold of the lock goes; and behind which key to go on, `None` at the end.
    /// The count behind `remainingItemCount`.
    pub fn count(&self, request: &CountRequest) -> Result<(usize, Option<ObjectKey>), Unanswered> {
        let CountRequest { history, scope, slots, at, from, at_most: _ } = request;
        let held = self.held_at(*history, slots)?;
        held.check(*at)?;
        let prefix = scope.prefix();
        let keys = held.keys.range::<str, _>(bounds(from.as_ref(), &prefix));
        let in_scope = keys.take_while(|(key, _)| key.as_str().starts_with(&prefix));
        let mut last: Option<&ObjectKey> = None;
        let mut count = 0;
        for (scanned, (key, chain)) in in_scope.enumerate() {
            if scanned == MAX_SCANNED {
                return Ok((count, last.cloned()));
            }
            last = Some(key);
            let is_counted = |object: &Arc<Object>| slots.contains(object.slot()) && scope.contains(object);
            count += usize::from(chain.at(*at).is_some_and(is_counted));
        }
        Ok((count, None))
    }

    /// Whether the ranges hold so few objects that the order by hash finds them sooner. It costs a look at all of them for
    /// every chunk, where the order of keys costs a look at the whole mirror, once.
    fn is_narrow(&self, held: &Held, ranges: &[HashRange]) -> bool {
        let width: u128 = ranges.iter().map(|range| range.end() - u128::from(range.start())).sum();
        let all = HashRange::END / Slot::COUNT as u128 * self.slots.len() as u128;
        let part = width.min(all) as f64 / all as f64;
        let found = part * held.live_objects as f64;
        let chunks = found / CHUNK + 1.0;
        found * chunks * SORTED < held.live_objects as f64
    }
}

// === impl Held ===

impl Held {
    fn check(&self, at: ResourceVersion) -> Result<(), Unanswered> {
        let window = self.window();
        if at < window.floor {
            Err(Unanswered::TooOld { floor: window.floor })
        } else if at > window.frontier {
            Err(Unanswered::NotReached { frontier: window.frontier })
        } else {
            Ok(())
        }
    }

    fn read_keys(&self, request: &SnapshotRequest) -> SnapshotChunk {
        let prefix = request.interest.scope.prefix();
        let keys = self
            .keys
            .range::<str, _>(bounds(request.from.as_ref(), &prefix))
            .take_while(|(key, _)| key.as_str().starts_with(&prefix))
            .map(|(key, chain)| (key, chain.at(request.at)));
        collect(keys, request)
    }

    /// The keys of the ranges in key order; their number is what the answer has, not what the mirror has.
    fn read_ranges(&self, request: &SnapshotRequest, ranges: &[HashRange]) -> SnapshotChunk {
        let prefix = request.interest.scope.prefix();
        let (start, _) = bounds(request.from.as_ref(), &prefix);
        let mut keys = BTreeSet::new();
        for range in ranges {
            keys.extend(
                self.of_range(*range)
                    .filter(|key| is_behind(key, start) && key.as_str().starts_with(&prefix)),
            );
        }
        let versions = keys.iter().filter_map(|key| self.keys.get_key_value(*key));
        collect(versions.map(|(key, chain)| (key, chain.at(request.at))), request)
    }

    fn of_range(&self, range: HashRange) -> impl Iterator<Item = &ObjectKey> {
        let start = (range.start(), ObjectKey::new("", ""));
        self.by_hash.range(start..).take_while(move |(hash, _)| range.contains(*hash)).map(|(_, key)| key)
    }
}

fn collect<'a>(
    versions: impl Iterator<Item = (&'a ObjectKey, Option<&'a Arc<Object>>)>,
    request: &SnapshotRequest,
) -> SnapshotChunk {
    // A chunk without objects would have no end to go on behind.
    let max_objects = request.max_objects.max(1);
    let is_wanted =
        |object: &&Arc<Object>| request.slots.contains(object.slot()) && request.interest.matches(object);
    let mut objects = Vec::new();
    let mut last: Option<&ObjectKey> = None;
    for (scanned, (key, object)) in versions.enumerate() {
        if scanned == MAX_SCANNED || objects.len() == max_objects {
            return SnapshotChunk { objects, next: last.cloned() };
        }
        last = Some(key);
        objects.extend(object.filter(is_wanted).cloned());
    }
    SnapshotChunk { objects, next: None }
}

/// From the later of the wanted start and the scope's first key.
fn bounds<'a>(from: Option<&'a SnapshotStart>, prefix: &'a str) -> (Bound<&'a str>, Bound<&'a str>) {
    let start = match from {
        Some(SnapshotStart::Behind(key)) if key.as_str() >= prefix => Bound::Excluded(key.as_str()),
        Some(SnapshotStart::At(text)) if &**text >= prefix => Bound::Included(&**text),
        Some(_) | None => Bound::Included(prefix),
    };
    (start, Bound::Unbounded)
}

fn is_behind(key: &ObjectKey, start: Bound<&str>) -> bool {
    match start {
        Bound::Included(start) => key.as_str() >= start,
        Bound::Excluded(start) => key.as_str() > start,
        Bound::Unbounded => true,
    }
}
