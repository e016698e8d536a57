//! The same seed makes the same cluster and the same changes.

use super::*;
use crate::cluster::{ClusterConfig, Record};
use crate::log::{EventType, LogEvent};
use std::collections::HashMap;
use std::sync::Arc;

fn run(seed: u64, steps: usize) -> Vec<Arc<LogEvent>> {
    let mut cluster = Cluster::new(ClusterConfig { seed, ..Default::default() });
    let mut churn = Churn::fill(&mut cluster, seed, ChurnShape::default());
    for _ in 0..steps {
        churn.step(&mut cluster);
    }
    let events = cluster.record().filter_map(|entry| match entry {
        Record::Event(event) => Some(Arc::clone(event)),
        Record::Upheaval(_) => None,
    });
    events.collect()
}

#[test]
fn a_seed_repeats_every_byte() {
    let bytes = |seed| run(seed, 300).iter().map(|event| event.object.bytes().clone()).collect::<Vec<_>>();
    assert_eq!(bytes(5), bytes(5));
    assert_ne!(bytes(5), bytes(6));
}

#[test]
fn all_sorts_of_things_happen() {
    let events = run(3, 2_000);
    let count = |kind| events.iter().filter(|event| event.event == kind).count();
    assert!(count(EventType::Added) > 200, "{}", count(EventType::Added));
    assert!(count(EventType::Modified) > 800, "{}", count(EventType::Modified));
    assert!(count(EventType::Deleted) > 150, "{}", count(EventType::Deleted));
    let mut uids: HashMap<_, Vec<&str>> = HashMap::new();
    for event in events.iter().filter(|event| event.event == EventType::Added) {
        uids.entry((event.resource, event.key())).or_default().push(event.uid());
    }
    let come_back = uids.values().filter(|uids| uids.len() > 1).count();
    assert!(come_back >= 15, "{come_back}");
    assert!(uids.values().all(|uids| uids.windows(2).all(|pair| pair[0] != pair[1])));
}

#[test]
fn objects_have_the_size_of_real_ones() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let mut churn = Churn::fill(&mut cluster, 1, ChurnShape::default());
    for _ in 0..500 {
        churn.step(&mut cluster);
    }
    let head = cluster.log().head();
    let pods: Vec<_> =
        cluster.log().scan(churn.ids.pods, ("", ""), head).map(|pod| pod.bytes().len()).collect();
    let mean = pods.iter().sum::<usize>() / pods.len();
    assert!((2_000..6_000).contains(&mean), "{mean}");
    assert!((20..60).contains(&pods.len()), "{}", pods.len());
}

#[test]
fn a_restored_backup_does_not_stop_it() {
    let mut cluster = Cluster::new(ClusterConfig::default());
    let mut churn = Churn::fill(&mut cluster, 1, ChurnShape::default());
    cluster.inject(crate::fault::Fault::Backup);
    let kept = cluster.log().head();
    for _ in 0..200 {
        churn.step(&mut cluster);
    }
    cluster.inject(crate::fault::Fault::Restore);
    assert_eq!(cluster.log().head(), kept);
    for _ in 0..200 {
        churn.step(&mut cluster);
    }
    assert!(cluster.log().head().get() > kept.get() + 150);
}

#[tokio::test(start_paused = true)]
async fn it_runs_by_itself_until_it_is_stopped() {
    let sim = Sim::new(crate::sim::SimConfig::default());
    let churn = sim.with(|cluster| Churn::fill(cluster, 1, ChurnShape::default()));
    let mut changes = sim.changes();
    let handle = sim.run_churn(churn, Duration::from_millis(10));
    for _ in 0..20 {
        changes.changed().await.unwrap();
    }
    handle.stop().await;
    let head = sim.ask(|cluster| cluster.log().head());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.ask(|cluster| cluster.log().head()), head);
}
