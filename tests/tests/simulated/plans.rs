//! Random faults under random changes, many seeds: whatever goes wrong upstream, what clients are shown is true.
//!
//! `WEIR_SEEDS=200` runs more seeds. The plan of faults counts events and so repeats under its seed; how requests fall among
//! them does not, since the connections are real.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use weir_sim::{FaultPlan, PlanShape, Seed};
use weir_tests::checker::Listing;

use crate::truth::{Choice, Sixteenths};
use crate::watcher::{Resumes, Start, Watcher};
use crate::world::World;

/// Seeds of a usual run, and how many run at once: most of their time is waiting.
const SEEDS: u64 = 6;
const AT_ONCE: usize = 6;

/// Events that a plan spreads its faults over.
const EVENTS: usize = 400;

/// How many seeds a test runs.
pub(crate) fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the tester's own switch, not a setting of weir")]
    let text = std::env::var("WEIR_SEEDS");
    text.map_or(SEEDS, |text| text.parse().unwrap())
}

fn choices(world: &World) -> Vec<Choice> {
    let (pods, gauges) = (world.collection("pods"), world.collection("gauges.metering.weir.test"));
    vec![
        Choice::all(&pods),
        Choice::all(&pods).tier("front"),
        Choice::all(&pods).in_namespace("team-1"),
        Choice::all(&pods).uids(Sixteenths { from: 5, to: 13 }),
        Choice::all(&gauges),
        Choice::all(&gauges).with_unit("ms").in_namespace("team-0"),
    ]
}

async fn run(seed: u64) {
    let world = World::with(seed, |settings| {
        settings.shards = [4, 1, 7, 32][(seed % 4) as usize];
        if seed % 3 == 2 {
            settings.keep_little();
        }
        // A lagging instance lets consistent reads wait so long.
        settings.sim.timing.patience = Duration::from_millis(200);
    })
    .await;
    let resources = ["pods", "gauges.metering.weir.test"].map(|name| world.collection(name).id).to_vec();
    let mut watchers = Vec::new();
    for (index, choice) in choices(&world).into_iter().enumerate() {
        let start = if index % 2 == 0 { Start::List } else { Start::Stream };
        let resumes = if index % 3 == 0 { Resumes::Often } else { Resumes::WhenEnded };
        watchers.push((choice.clone(), Watcher::start(&world, choice, (start, resumes), seed).await));
    }
    let begun = world.sim.read(weir_sim::Cluster::written);
    let shape = PlanShape { instances: 2, resources, events: begun + EVENTS as u64, faults: 16 };
    let plan = FaultPlan::random(&mut Seed::new(seed), &shape);
    world.sim.with(|cluster| cluster.set_plan(plan));
    let mut lists = Vec::new();
    for round in 0..EVENTS / 10 {
        world.churn(10);
        let choices = choices(&world);
        let choice = choices[round % choices.len()].clone();
        let query = ["resourceVersion=0", "", "limit=500"][round % 3];
        let head = world.head();
        let Some(answer) = world.client.open_or_broken(&choice.path(query)).await else { continue };
        if let Some(list) = answer.whole_or_broken().await.filter(|list| list.code == 200) {
            let (meta, items) = choice.collection.items(&list);
            let not_older_than = if round % 3 == 0 { weir_core::ResourceVersion::ZERO } else { head };
            lists.push((choice, Listing { at: meta.at(), items, not_older_than, ..Listing::default() }));
        }
    }
    world.sim.with(|cluster| cluster.set_plan(FaultPlan::default()));
    for instance in [0, 1] {
        world.sim.instance(instance).catch_up();
    }
    world.churn(20);
    for (choice, watcher) in watchers {
        let truth = choice.collection.truth(&world.sim);
        watcher.finish(&world, &truth).await;
    }
    for (choice, listing) in &lists {
        choice.collection.truth(&world.sim).check_list(choice, listing);
    }
}

/// One seed; whether it passed.
async fn passes(seed: u64) -> bool {
    let is_ok = AssertUnwindSafe(run(seed)).catch_unwind().await.is_ok();
    if !is_ok {
        println!("seed {seed} failed");
    }
    is_ok
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_upstream_what_clients_see_is_true() {
    let seeds: Vec<u64> = (0..seeds()).collect();
    for some in seeds.chunks(AT_ONCE) {
        let passed = join_all(some.iter().map(|seed| passes(*seed))).await;
        assert!(passed.iter().all(|is_ok| *is_ok), "some of {some:?}");
    }
}
