//! What one run is like: how many of each part, and bounds small enough to be reached.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use weir_core::message::Credit;
use weir_core::{SlotSet, WindowBounds};
use weir_proxy::hub::HubBounds;
use weir_proxy::merge::NodeIndex;
use weir_shard_node::feed::ring::RingBounds;
use weir_tests::model::Wanted;

/// Events that one answer of a log holds at most.
pub(crate) const MAX_LOG: u64 = 4;

/// The settings of one run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) shards: usize,
    pub(crate) replicas: usize,
    /// The last replica of all shards is one node.
    is_wide: bool,
    /// A node that comes back is another one for the proxies, as one with another address.
    is_renumbered: bool,
    pub(crate) feeds: usize,
    pub(crate) proxies: usize,
    pub(crate) credit: Credit,
    pub(crate) ring: RingBounds,
    /// Nodes subscribe to all feeds at once.
    pub(crate) is_fed_by_all: bool,
    pub(crate) window: WindowBounds,
    pub(crate) hub: HubBounds,
    pub(crate) steps: usize,
    /// How many of a hundred steps do harm.
    pub(crate) harm: usize,
    /// Whether upstream is restored from a backup on the way. Then a node takes one feed at a time: numbers of two
    /// histories say nothing about each other, and feeds notice at different times.
    pub(crate) is_restored: bool,
}

// === impl Settings ===

impl Settings {
    pub(crate) fn draw(rng: &mut StdRng) -> Self {
        let (feeds, is_restored) = (rng.random_range(1..=2), rng.random_bool(0.25));
        let (shards, replicas) = (rng.random_range(1..=3), rng.random_range(1..=3));
        Self {
            shards,
            replicas,
            is_wide: replicas > 1 && rng.random_bool(0.2),
            is_renumbered: rng.random_bool(0.5),
            feeds,
            proxies: rng.random_range(1..=2),
            credit: Credit(rng.random_range(1..=6)),
            ring: RingBounds {
                log_bytes: pick(rng, &[1, 4_000, 1 << 20, 1 << 20]),
                list_bytes: pick(rng, &[1, 1_000, 1 << 20]),
            },
            is_fed_by_all: !is_restored && rng.random_bool(0.4),
            window: window(rng),
            hub: HubBounds {
                max_events: rng.random_range(1..=6),
                max_bytes: pick(rng, &[200, 1_000, 1 << 20]),
            },
            steps: rng.random_range(100..300) * (1 + shards * replicas / 2),
            harm: pick(rng, &[1, 2, 5]),
            is_restored,
        }
    }

    /// The shards.
    pub(crate) fn slots(&self) -> Vec<SlotSet> {
        (0..self.shards).map(|shard| SlotSet::of_shard(shard, self.shards)).collect()
    }

    /// What each node holds: one replica of all shards after the other.
    pub(crate) fn places(&self) -> Vec<SlotSet> {
        let alone = self.replicas - usize::from(self.is_wide);
        let mut places = self.slots().repeat(alone);
        places.extend(self.is_wide.then_some(SlotSet::ALL));
        places
    }

    /// How proxies number a node in one of its lives.
    pub(crate) fn number(&self, place: usize, life: usize) -> NodeIndex {
        NodeIndex(if self.is_renumbered { life } else { place })
    }
}

pub(crate) fn pick<T: Copy>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

fn window(rng: &mut StdRng) -> WindowBounds {
    WindowBounds {
        max_age: Duration::from_secs(pick(rng, &[20, 100, 10_000, 10_000])),
        max_events: pick(rng, &[1, 4, 10, 1_000, 1_000, 1_000]),
        max_percent_of_live: pick(rng, &[10, 50, 100]),
        free_bytes: pick(rng, &[0, 2_000, 1 << 20, 1 << 20]),
        min_age: Duration::from_secs(pick(rng, &[0, 5])),
    }
}

/// The interests that clients choose from.
pub(crate) fn interests(rng: &mut StdRng) -> Vec<Wanted> {
    let half = 1_u128 << 63;
    let start = u128::from(rng.random::<u64>());
    let mut interests = vec![
        Wanted::everything(),
        Wanted::namespace("ns1"),
        Wanted::name("ns0", "pod1"),
        Wanted::app("red"),
        Wanted::namespace_without_app("ns0", "red"),
        Wanted::node("node1"),
        Wanted::node_and_app("node0", "blue"),
        Wanted::uids(0, half),
        Wanted::uids(half, half * 2),
        Wanted::uids(start / 2, start / 2 + half / 16),
        Wanted::namespaces(0, half),
    ];
    // A few at a time, so that clients share hubs.
    for _ in 0..interests.len() - 4 {
        let place = rng.random_range(0..interests.len());
        interests.swap_remove(place);
    }
    interests
}
