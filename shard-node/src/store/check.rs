//! The invariants of a store, written out: what is counted equals what is there. Costs a walk over everything, so it is for
//! tests and for looking into a running process, never for the way of a request.

use std::collections::BTreeSet;

use weir_core::ResourceVersion;

use super::{Held, Store};

// === impl Store ===

impl Store {
    /// Panics if what the store counts is not what it holds.
    pub fn check(&self) {
        if let Some(held) = &self.held {
            held.check_invariants();
            assert!(
                self.highest >= held.progress.position(),
                "the highest frontier is below the present one"
            );
        }
    }
}

// === impl Held ===

impl Held {
    fn check_invariants(&self) {
        let window = self.window();
        assert!(window.floor <= window.frontier, "{window:?}");
        let live: Vec<_> = self.keys.values().filter_map(|chain| chain.newest()).collect();
        assert_eq!(self.live_objects, live.len(), "live objects");
        assert_eq!(self.live_bytes, live.iter().map(|object| object.size()).sum::<usize>(), "live bytes");
        let versions =
            self.keys.iter().flat_map(|(key, chain)| chain.objects().map(move |object| (key, object)));
        let by_hash: BTreeSet<_> = versions.map(|(key, object)| (object.uid_hash(), key.clone())).collect();
        assert_eq!(self.by_hash, by_hash, "the order by hash holds every version and nothing else");
        for (key, chain) in &self.keys {
            assert!(!chain.is_empty(), "{key} has no version");
            assert!(chain.is_falling(), "{key} has versions out of order");
        }
        self.log.check_invariants(self.floor, window.frontier);
        let replaced = self.keys.values().map(|chain| chain.len() - 1).sum::<usize>();
        let dead = self.keys.values().filter(|chain| chain.newest().is_none()).count();
        assert!(
            replaced + dead <= 2 * self.log.len(),
            "versions left memory with the log entry that replaced them"
        );
        let lowest = self.log.lowest().unwrap_or(ResourceVersion::MAX);
        assert!(lowest > self.floor, "the log begins behind the floor");
    }
}
