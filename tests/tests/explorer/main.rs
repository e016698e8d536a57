//! The explorer: feed rings, nodes and their replicas, merges, hubs and clients under a random schedule, in which nodes are
//! lost, sessions break and messages come late, judged by the checker. Everything is synchronous and drawn from one seed, so a failing run repeats exactly; nothing here waits or knows the time of day.
//!
//! `WEIR_SEEDS=20000` runs more seeds; `WEIR_SEED=7` with the test `one_seed` repeats one.

mod client;
mod feed;
mod harm;
mod judge;
mod line;
mod proxy;
mod reached;
mod rest;
mod settings;
mod shard;
mod warm;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use reached::Reached;
use world::World;

/// Runs without a setting; some seconds in a debug build.
const SEEDS: u64 = 1_000;

/// How often the runs of [`runs_reach_what_they_are_for`] come to each situation, at least.
const AT_LEAST: usize = 20;

fn from_environment(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "the tester's own switch, not a setting of weir")]
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}

fn run(seed: u64) {
    if catch_unwind(AssertUnwindSafe(|| World::new(seed).run())).is_err() {
        panic!("repeat with: WEIR_SEED={seed} cargo test -p weir-tests --test explorer one_seed");
    }
}

#[test]
fn many_seeds() {
    let (first, count) =
        (from_environment("WEIR_SEED").unwrap_or(0), from_environment("WEIR_SEEDS").unwrap_or(SEEDS));
    for seed in first..first + count {
        run(seed);
    }
}

#[test]
fn one_seed() {
    run(from_environment("WEIR_SEED").unwrap_or(0));
}

/// The explorer would find nothing if its runs were empty.
#[test]
fn runs_reach_what_they_are_for() {
    let mut reached = Reached::default();
    for seed in 0..300 {
        reached.add(World::new(seed).run());
    }
    reached.assert_everything(AT_LEAST);
}
