//! What one run is like: how many of each part, and bounds small enough to be reached.

use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use weir_core::WindowBounds;
use weir_core::message::Credit;
use weir_proxy::hub::HubBounds;
use weir_tests::model::Wanted;

/// Events that one answer of a log holds at most.
pub(crate) const MAX_LOG: u64 = 4;

/// The settings of one run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) nodes: usize,
    pub(crate) feeds: usize,
    pub(crate) proxies: usize,
    pub(crate) credit: Credit,
    pub(crate) ring_bytes: usize,
    pub(crate) window: WindowBounds,
    pub(crate) hub: HubBounds,
    pub(crate) steps: usize,
    /// Whether upstream is restored from a backup on the way. With two feeds of one mirror that needs what says which
    /// history a statement is of, so it comes with one feed only.
    pub(crate) is_restored: bool,
}

// === impl Settings ===

impl Settings {
    pub(crate) fn draw(rng: &mut StdRng) -> Self {
        let feeds = rng.random_range(1..=2);
        Self {
            nodes: rng.random_range(1..=4),
            feeds,
            proxies: rng.random_range(1..=2),
            credit: Credit(rng.random_range(1..=6)),
            ring_bytes: pick(rng, &[1, 1_500, 4_000, 1 << 20]),
            window: window(rng),
            hub: HubBounds {
                max_events: rng.random_range(1..=6),
                max_bytes: pick(rng, &[200, 1_000, 1 << 20]),
            },
            steps: rng.random_range(100..500),
            is_restored: feeds == 1 && rng.random_bool(0.3),
        }
    }
}

pub(crate) fn pick<T: Copy>(rng: &mut StdRng, from: &[T]) -> T {
    from[rng.random_range(0..from.len())]
}

fn window(rng: &mut StdRng) -> WindowBounds {
    WindowBounds {
        max_age: Duration::from_secs(pick(rng, &[20, 100, 10_000])),
        max_events: pick(rng, &[1, 4, 10, 1_000]),
        max_percent_of_live: pick(rng, &[10, 50, 100]),
        free_bytes: pick(rng, &[0, 2_000, 1 << 20]),
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
