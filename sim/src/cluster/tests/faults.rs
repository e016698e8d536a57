//! Faults, and that a seed repeats their order.

use super::*;

#[test]
fn a_restored_backup_is_another_history() {
    let mut cluster = cluster();
    let kept = cluster.put("configmaps", "a", "").rv();
    cluster.inject(Fault::Backup);
    cluster.put("configmaps", "b", "");
    cluster.put("configmaps", "c", "");
    cluster.inject(Fault::Restore);
    assert_eq!(cluster.log().head(), kept);
    assert_eq!(names(&cluster.listed(FIRST, ListVersion::Any, None)), ["a"]);
    let other = cluster.put("configmaps", "d", "");
    assert_eq!(other.rv(), kept.next());
    let histories: Vec<_> = cluster
        .record()
        .filter_map(|entry| match entry {
            Record::Event(event) if event.rv == kept.next() => {
                Some((event.history.0, event.key().name().to_owned()))
            }
            Record::Event(_) | Record::Upheaval(_) => None,
        })
        .collect();
    assert_eq!(histories, [(0, "b".to_owned()), (1, "d".to_owned())]);
}

#[test]
fn a_new_default_changes_bytes_at_the_same_revision() {
    let mut cluster = cluster();
    let resource = cluster.resource("gauges.metering.weir.test").unwrap();
    let before = cluster.put("gauges.metering.weir.test", "g", "");
    let path = vec!["spec".to_owned(), "unit".to_owned()];
    cluster.inject(Fault::AddDefault { resource, path, value: Node::from("ms") });
    let key = StoreKey::new(Some("default"), "g");
    let Ok(Step::Ready(after)) = cluster.get((FIRST, resource), (&key, ListVersion::Any), Patience::Waits)
    else {
        panic!("no object")
    };
    assert_eq!(after.rv(), before.rv());
    assert_eq!(after.tree().text_at(&["spec", "unit"]), Some("ms"));
}

#[test]
fn a_lost_event_is_missing_from_one_instance_only() {
    let mut cluster = cluster();
    let resource = cluster.resource("configmaps").unwrap();
    let start = cluster.log().head();
    let mut watches = [FIRST, SECOND].map(|id| cluster.open(id, WatchFrom::After(start), "").unwrap());
    cluster.inject(Fault::LoseNext(SECOND, resource));
    cluster.put("configmaps", "a", "");
    let rv = cluster.put("configmaps", "b", "").rv();
    assert_eq!(cluster.said(FIRST, &mut watches[0]).len(), 2);
    assert_eq!(cluster.said(SECOND, &mut watches[1]), [format!("ADDED b {rv}")]);
}

#[test]
fn a_plan_acts_by_the_count_of_events() {
    let mut cluster = cluster();
    let written = cluster.written();
    cluster.set_plan(FaultPlan::new([(written + 2, Fault::Pace(FIRST, Pace::Held))]));
    cluster.put("configmaps", "a", "");
    assert_eq!(cluster.instance(FIRST).pace(), Pace::Current);
    let at = cluster.put("configmaps", "b", "").rv();
    cluster.put("configmaps", "c", "");
    assert_eq!((cluster.instance(FIRST).pace(), cluster.instance(FIRST).applied()), (Pace::Held, at));
}

#[test]
fn a_rule_is_used_up() {
    let mut cluster = cluster();
    let rule = Rule { fits: Fits::verb("list"), times: 2, effect: Effect::Refuse(500) };
    cluster.inject(Fault::Rule(FIRST, rule));
    let mut refused = |verb| cluster.rules(FIRST).take((verb, None), Some);
    assert_eq!(refused("watch"), None);
    assert_eq!(refused("list"), Some(Effect::Refuse(500)));
    assert_eq!(refused("list"), Some(Effect::Refuse(500)));
    assert_eq!(refused("list"), None);
}

#[test]
fn a_bounded_log_forgets_and_says_so() {
    let mut cluster = Cluster::new(ClusterConfig { kept_events: Some(10), ..Default::default() });
    let first = cluster.put("configmaps", "a", "").rv();
    for round in 0..50 {
        cluster.patch("configmaps", "a", &format!(r#"{{"data":{{"k":"{round}"}}}}"#)).unwrap();
    }
    assert!(cluster.record().count() <= 21);
    assert_eq!(cluster.open(FIRST, WatchFrom::After(first), "").unwrap_err().code, 410);
    assert_eq!(cluster.list_step(FIRST, ListVersion::Exact(first), (None, "")).unwrap_err().code, 410);
    assert_eq!(cluster.listed(FIRST, ListVersion::Any, None).items.len(), 1);
}

#[test]
fn a_seed_repeats_the_order_of_faults() {
    let run = |seed| {
        let mut cluster = Cluster::new(ClusterConfig { seed, ..Default::default() });
        let resources = vec![cluster.resource("configmaps").unwrap()];
        let shape = crate::fault::PlanShape { instances: 2, resources, events: 100, faults: 60 };
        let mut chance = Seed::new(seed);
        cluster.set_plan(FaultPlan::random(&mut chance, &shape));
        let mut states = Vec::new();
        for number in 0..100 {
            cluster.put("configmaps", &format!("c-{number}"), "");
            let one = |id: InstanceId| {
                let instance = cluster.instance(id);
                (instance.pace(), instance.applied(), instance.started(), instance.last_end())
            };
            states.push((one(FIRST), one(SECOND), cluster.log().compacted()));
        }
        states
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
    assert!(run(11).windows(2).any(|pair| pair[0].0.0 != pair[1].0.0), "no pace ever changed");
}
