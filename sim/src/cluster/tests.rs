use super::*;
use crate::fault::{Effect, Fault, Fits, Rule};
use crate::instance::Pace;
use crate::log::EventType;
use crate::read::AnyState;
use crate::selection::Selection;
use crate::watching::{Bookmarks, EndMark, WatchFrom};
use weir_core::GroupVersionResource;
use weir_core::continue_token::{ContinueToken, KeySpelling, TokenVersion};
use weir_core::selector::{FieldSelector, LabelSelector};

const FIRST: InstanceId = InstanceId(0);
const SECOND: InstanceId = InstanceId(1);

fn cluster() -> Cluster {
    let gauges = GroupVersionResource::new("metering.weir.test", "v1", "gauges");
    Cluster::new(ClusterConfig {
        resources: vec![ResourceInfo::custom(gauges, "Gauge")],
        ..Default::default()
    })
}

fn node(text: &str) -> Node {
    Node::parse(text.as_bytes()).unwrap()
}

impl Cluster {
    fn put(&mut self, resource: &str, name: &str, rest: &str) -> Arc<Object> {
        let resource = self.resource(resource).unwrap();
        let body = node(&format!(r#"{{"metadata":{{"name":"{name}"{rest}}}}}"#));
        let op = Op::Create { resource, namespace: Some("default".into()), body };
        self.apply(op).unwrap().object
    }

    fn patch(&mut self, resource: &str, name: &str, patch: &str) -> Result<Written, Status> {
        let resource = self.resource(resource).unwrap();
        let key = StoreKey::new(Some("default"), name);
        self.apply(Op::Patch { resource, key, patch: node(patch) })
    }

    fn remove(&mut self, resource: &str, name: &str) -> Written {
        let resource = self.resource(resource).unwrap();
        let key = StoreKey::new(Some("default"), name);
        self.apply(Op::Delete { resource, key, only_if: Default::default() }).unwrap()
    }

    fn listed(&mut self, id: InstanceId, version: ListVersion, limit: Option<usize>) -> Page {
        match self.list_step(id, version, (limit, "")).unwrap() {
            Step::Ready(page) => page,
            Step::Wait(rv) => panic!("waits for {rv}"),
        }
    }

    fn list_step(
        &mut self,
        id: InstanceId,
        version: ListVersion,
        (limit, start): (Option<usize>, &str),
    ) -> Result<Step<Page>, Status> {
        let resource = self.resource("configmaps").unwrap();
        let query = ListQuery {
            resource,
            namespace: None,
            selection: Selection::everything(),
            version,
            limit,
            start: start.to_owned(),
        };
        self.list(id, &query, Patience::Waits)
    }

    fn open(&mut self, id: InstanceId, from: WatchFrom, labels: &str) -> Result<Watch, Status> {
        let resource = self.resource("configmaps").unwrap();
        let query = WatchQuery {
            resource,
            namespace: None,
            selection: Selection {
                labels: LabelSelector::parse(labels).unwrap(),
                fields: FieldSelector::everything(),
            },
            from,
            bookmarks: Bookmarks::WithEndMark,
        };
        match self.watch(id, &query, Patience::Exhausted)? {
            Step::Ready(watch) => Ok(watch),
            Step::Wait(rv) => panic!("waits for {rv}"),
        }
    }

    fn said(&mut self, id: InstanceId, watch: &mut Watch) -> Vec<String> {
        let (items, _) = self.read_on(id, watch, usize::MAX);
        items
            .iter()
            .map(|item| match item {
                WatchItem::Change { event, object } => {
                    let event = format!("{event:?}").to_uppercase();
                    format!("{event} {} {}", object.key().name(), object.rv())
                }
                WatchItem::Bookmark { rv, marks_end } => format!("BOOKMARK {marks_end:?} {rv}"),
            })
            .collect()
    }
}

fn names(page: &Page) -> Vec<&str> {
    page.items.iter().map(|object| object.key().name()).collect()
}

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

#[test]
fn a_seed_repeats_the_log() {
    let run = |seed| {
        let mut cluster = Cluster::new(ClusterConfig { seed, ..Default::default() });
        for name in ["b", "a"] {
            cluster.put("configmaps", name, "");
        }
        let page = cluster.listed(FIRST, ListVersion::Any, None);
        page.items.iter().map(|object| object.bytes().clone()).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn objects_have_the_bytes_of_their_kind() {
    let mut cluster = cluster();
    let built_in = cluster.put("configmaps", "web", r#","labels":{"b":"1","a":"<2>"}"#);
    let text = format!(
        "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"web\",\"namespace\":\"default\",\
         \"uid\":\"{}\",\"resourceVersion\":\"{}\",\"creationTimestamp\":\"2026-01-01T00:00:50Z\",\
         \"labels\":{{\"a\":\"\\u003c2\\u003e\",\"b\":\"1\"}}}}}}",
        built_in.uid(),
        built_in.rv(),
    );
    assert_eq!(String::from_utf8_lossy(built_in.bytes()), text);
    let item = built_in.item().concat();
    assert!(item.starts_with(b"{\"metadata\":{\"name\":\"web\""), "{}", String::from_utf8_lossy(&item));
    let custom = cluster.put("gauges.metering.weir.test", "g", "");
    let text = String::from_utf8_lossy(custom.bytes()).into_owned();
    assert!(
        text.starts_with(r#"{"apiVersion":"metering.weir.test/v1","kind":"Gauge","metadata":{"creation"#),
        "{text}"
    );
    assert_eq!(custom.item().concat(), custom.bytes().to_vec());
}

#[test]
fn a_write_that_changes_nothing_leaves_no_event() {
    let mut cluster = cluster();
    let before = cluster.put("configmaps", "web", "").rv();
    let written = cluster.patch("configmaps", "web", r#"{"metadata":{"uid":null}}"#).unwrap();
    assert!(written.event.is_none());
    assert_eq!(written.object.rv(), before);
    assert_eq!(cluster.log().head(), before);
}

#[test]
fn writes_that_cannot_be_are_refused() {
    let mut cluster = cluster();
    cluster.put("configmaps", "web", "");
    let resource = cluster.resource("configmaps").unwrap();
    let again = Op::Create {
        resource,
        namespace: Some("default".into()),
        body: node(r#"{"metadata":{"name":"web"}}"#),
    };
    let status = cluster.apply(again).unwrap_err();
    assert_eq!((status.code, &*status.message), (409, "configmaps \"web\" already exists"));
    let status = cluster.patch("configmaps", "web", r#"{"metadata":{"resourceVersion":"7"}}"#).unwrap_err();
    assert_eq!((status.code, &*status.reason), (409, "Conflict"));
    let status = cluster.patch("configmaps", "nope", "{}").unwrap_err();
    assert_eq!((status.code, &*status.message), (404, "configmaps \"nope\" not found"));
    let nowhere = Op::Create {
        resource,
        namespace: Some("nowhere".into()),
        body: node(r#"{"metadata":{"name":"a"}}"#),
    };
    assert_eq!(cluster.apply(nowhere).unwrap_err().message, "namespaces \"nowhere\" not found");
}

#[test]
fn finalizers_hold_an_object() {
    let mut cluster = cluster();
    let created = cluster.put("configmaps", "web", r#","finalizers":["weir.test/hold"]"#).rv();
    let mut watch = cluster.open(FIRST, WatchFrom::After(created), "").unwrap();
    let written = cluster.remove("configmaps", "web");
    assert_eq!(written.event.unwrap().event, EventType::Modified);
    let last = cluster.patch("configmaps", "web", r#"{"metadata":{"finalizers":null}}"#).unwrap();
    let gone = last.event.unwrap();
    assert_eq!(gone.event, EventType::Deleted);
    assert!(String::from_utf8_lossy(gone.object.bytes()).contains("weir.test/hold"));
    let head = cluster.log().head().get();
    let said = cluster.said(FIRST, &mut watch);
    assert_eq!(said, [format!("MODIFIED web {}", head - 1), format!("DELETED web {head}")]);
}

#[test]
fn order_is_that_of_the_storage_keys() {
    let mut cluster = cluster();
    let namespaces = cluster.resource("namespaces").unwrap();
    let config_maps = cluster.resource("configmaps").unwrap();
    for namespace in ["a", "a-b"] {
        let body = node(&format!(r#"{{"metadata":{{"name":"{namespace}"}}}}"#));
        cluster.apply(Op::Create { resource: namespaces, namespace: None, body }).unwrap();
        let body = node(&format!(r#"{{"metadata":{{"name":"in-{namespace}"}}}}"#));
        cluster.apply(Op::Create { resource: config_maps, namespace: Some(namespace.into()), body }).unwrap();
    }
    assert_eq!(names(&cluster.listed(FIRST, ListVersion::Any, None)), ["in-a-b", "in-a"]);
}

#[test]
fn a_lagging_instance_waits_or_shows_the_past() {
    let mut cluster = cluster();
    let old = cluster.put("configmaps", "a", "").rv();
    cluster.inject(Fault::Pace(SECOND, Pace::Held));
    let new = cluster.put("configmaps", "b", "").rv();
    assert_eq!(names(&cluster.listed(FIRST, ListVersion::Any, None)), ["a", "b"]);
    let past = cluster.listed(SECOND, ListVersion::Any, None);
    assert_eq!((names(&past), past.rv), (vec!["a"], old));
    assert!(
        matches!(cluster.list_step(SECOND, ListVersion::Consistent(new), (None, "")), Ok(Step::Wait(rv)) if rv == new)
    );
    cluster.inject(Fault::Pace(SECOND, Pace::Current));
    assert_eq!(names(&cluster.listed(SECOND, ListVersion::Consistent(new), None)), ["a", "b"]);
}

#[test]
fn a_delayed_instance_stays_so_many_revisions_behind() {
    let mut cluster = cluster();
    cluster.inject(Fault::Pace(FIRST, Pace::Behind(2)));
    for name in ["a", "b", "c"] {
        cluster.put("configmaps", name, "");
    }
    assert_eq!(names(&cluster.listed(FIRST, ListVersion::Any, None)), ["a"]);
}

#[test]
fn a_quiet_collection_shows_an_old_revision_until_asked() {
    let mut cluster = cluster();
    let own = cluster.put("configmaps", "a", "").rv();
    let foreign = cluster.put("secrets", "s", "").rv();
    assert_eq!(cluster.listed(FIRST, ListVersion::Any, None).rv, own);
    assert_eq!(cluster.listed(FIRST, ListVersion::Consistent(foreign), None).rv, foreign);
    assert_eq!(cluster.listed(FIRST, ListVersion::Any, None).rv, foreign);
}

#[test]
fn pages_are_one_state() {
    let mut cluster = cluster();
    for name in ["a", "b", "c", "d", "e"] {
        cluster.put("configmaps", name, "");
    }
    let head = cluster.log().head();
    let first = cluster.listed(FIRST, ListVersion::Consistent(head), Some(2));
    assert_eq!((names(&first), first.remaining), (vec!["a", "b"], Some(3)));
    let next = first.next.unwrap();
    assert_eq!((&next.token, next.spelling), (&ContinueToken::after("default/b", head), KeySpelling::Slash));
    cluster.remove("configmaps", "d");
    cluster.put("configmaps", "bb", "");
    let token = ListVersion::Token { at: head, any: AnyState::NotAsked };
    let Ok(Step::Ready(rest)) = cluster.list_step(FIRST, token, (Some(3), &next.token.start)) else {
        panic!("no page")
    };
    assert_eq!((names(&rest), rest.rv, &rest.next), (vec!["c", "d", "e"], head, &None));
}

#[test]
fn resource_version_zero_ignores_the_limit() {
    let mut cluster = cluster();
    for name in ["a", "b", "c"] {
        cluster.put("configmaps", name, "");
    }
    let page = cluster.listed(FIRST, ListVersion::Any, Some(1));
    assert_eq!((page.items.len(), page.next), (3, None));
}

#[test]
fn compaction_makes_exact_reads_and_tokens_410() {
    let mut cluster = cluster();
    let old = cluster.put("configmaps", "a", "").rv();
    cluster.put("configmaps", "b", "");
    assert_eq!(names(&cluster.listed(FIRST, ListVersion::Exact(old), None)), ["a"]);
    cluster.inject(Fault::Compact);
    let status = cluster.list_step(FIRST, ListVersion::Exact(old), (None, "")).unwrap_err();
    assert_eq!((status.code, &*status.reason, status.continue_token), (410, "Expired", None));
    let token = ListVersion::Token { at: old, any: AnyState::NotAsked };
    let status = cluster.list_step(FIRST, token, (None, "default/a\0")).unwrap_err();
    let fresh = ContinueToken::decode(&status.continue_token.unwrap()).unwrap();
    assert_eq!((fresh.rv, fresh.start.as_str()), (TokenVersion::Latest, "default/a\0"));
}

#[test]
fn compaction_spares_what_a_held_instance_shows() {
    let mut cluster = cluster();
    cluster.put("configmaps", "a", "");
    cluster.inject(Fault::Pace(SECOND, Pace::Held));
    cluster.remove("configmaps", "a");
    cluster.inject(Fault::Compact);
    assert_eq!(names(&cluster.listed(SECOND, ListVersion::Any, None)), ["a"]);
    assert_eq!(names(&cluster.listed(FIRST, ListVersion::Any, None)), Vec::<&str>::new());
}

#[test]
fn a_watch_resumes_after_its_revision() {
    let mut cluster = cluster();
    let first = cluster.put("configmaps", "a", "").rv();
    let second = cluster.put("configmaps", "b", "").rv();
    let mut watch = cluster.open(FIRST, WatchFrom::After(first), "").unwrap();
    assert_eq!(cluster.said(FIRST, &mut watch), [format!("ADDED b {second}")]);
    assert!(cluster.said(FIRST, &mut watch).is_empty());
    let third = cluster.remove("configmaps", "a").event.unwrap().rv;
    assert_eq!(cluster.said(FIRST, &mut watch), [format!("DELETED a {third}")]);
}

#[test]
fn a_watch_list_ends_its_state_with_a_mark() {
    let mut cluster = cluster();
    cluster.put("configmaps", "b", "");
    cluster.put("configmaps", "a", "");
    let head = cluster.log().head();
    let mut watch = cluster.open(FIRST, WatchFrom::Initial(ListVersion::Consistent(head)), "").unwrap();
    let expected = [
        format!("ADDED a {head}"),
        format!("ADDED b {}", head.get() - 1),
        format!("BOOKMARK Initial {head}"),
    ];
    assert_eq!(cluster.said(FIRST, &mut watch), expected);
}

#[test]
fn a_state_in_small_batches_is_whole_and_in_order() {
    let mut cluster = cluster();
    for name in ["a", "b", "c"] {
        cluster.put("configmaps", name, "");
    }
    let mut watch = cluster.open(FIRST, WatchFrom::Initial(ListVersion::Any), "").unwrap();
    cluster.put("configmaps", "d", "");
    let mut said = Vec::new();
    loop {
        let (items, then) = cluster.read_on(FIRST, &mut watch, 1);
        said.extend(items.into_iter().map(|item| match item {
            WatchItem::Change { object, .. } => object.key().name().to_owned(),
            WatchItem::Bookmark { marks_end, .. } => format!("{marks_end:?}"),
        }));
        if then == Then::Idle {
            break;
        }
    }
    assert_eq!(said, ["a", "b", "c", "Initial", "d"]);
}

#[test]
fn selectors_turn_changes_into_comings_and_goings() {
    let mut cluster = cluster();
    let start = cluster.log().head();
    let mut watch = cluster.open(FIRST, WatchFrom::After(start), "app=web").unwrap();
    let head = cluster.put("configmaps", "a", "").rv().get();
    cluster.patch("configmaps", "a", r#"{"metadata":{"labels":{"app":"web"}}}"#).unwrap();
    cluster.patch("configmaps", "a", r#"{"data":{"k":"v"}}"#).unwrap();
    cluster.patch("configmaps", "a", r#"{"metadata":{"labels":{"app":"db"}}}"#).unwrap();
    cluster.remove("configmaps", "a");
    let expected = [
        format!("ADDED a {}", head + 1),
        format!("MODIFIED a {}", head + 2),
        format!("DELETED a {}", head + 3),
    ];
    assert_eq!(cluster.said(FIRST, &mut watch), expected);
}

#[test]
fn what_leaves_a_selector_shows_its_last_matching_content() {
    let mut cluster = cluster();
    cluster.put("configmaps", "a", r#","labels":{"app":"web"}"#);
    let start = cluster.log().head();
    let mut watch = cluster.open(FIRST, WatchFrom::After(start), "app=web").unwrap();
    cluster.patch("configmaps", "a", r#"{"metadata":{"labels":{"app":"db"}}}"#).unwrap();
    let (items, _) = cluster.read_on(FIRST, &mut watch, 10);
    let [WatchItem::Change { event: EventType::Deleted, object }] = &items[..] else { panic!("{items:?}") };
    assert_eq!(object.rv(), start.next());
    assert_eq!(object.labels()["app"], "web");
}

#[test]
fn a_restarted_instance_answers_410_for_all_that_was() {
    let mut cluster = cluster();
    let old = cluster.put("configmaps", "a", "").rv();
    let head = cluster.put("configmaps", "b", "").rv();
    let mut open = cluster.open(SECOND, WatchFrom::After(old), "").unwrap();
    cluster.inject(Fault::Restart(SECOND));
    assert!(matches!(cluster.read_on(SECOND, &mut open, 10), (items, Then::Broken) if items.is_empty()));
    let status = cluster.open(SECOND, WatchFrom::After(old), "").unwrap_err();
    assert_eq!((status.code, &*status.message), (410, &*format!("too old resource version: {old} ({head})")));
    assert!(cluster.open(SECOND, WatchFrom::After(head), "").is_ok());
    assert!(cluster.open(FIRST, WatchFrom::After(old), "").is_ok());
}

#[test]
fn an_overwritten_history_is_410_and_ends_slow_watches() {
    let mut cluster = Cluster::new(ClusterConfig { watch_history: 2, ..Default::default() });
    let first = cluster.put("configmaps", "a", "").rv();
    let mut slow = cluster.open(FIRST, WatchFrom::After(first), "").unwrap();
    for name in ["b", "c", "d"] {
        cluster.put("configmaps", name, "");
    }
    let lowest = first.next();
    let status = cluster.open(FIRST, WatchFrom::After(first), "").unwrap_err();
    assert_eq!(status.message, format!("too old resource version: {first} ({lowest})"));
    assert!(cluster.open(FIRST, WatchFrom::After(lowest), "").is_ok());
    assert_eq!(cluster.read_on(FIRST, &mut slow, 10).1, Then::Ended);
}

#[test]
fn a_watch_in_the_future_skips_what_comes_before() {
    let mut cluster = cluster();
    let head = cluster.log().head().get();
    let mut watch = cluster.open(FIRST, WatchFrom::After(rv(head + 1)), "").unwrap();
    cluster.put("configmaps", "a", "");
    cluster.put("configmaps", "b", "");
    assert_eq!(cluster.said(FIRST, &mut watch), [format!("ADDED b {}", head + 2)]);
}

#[test]
fn a_state_in_the_future_is_504() {
    let mut cluster = cluster();
    let head = cluster.log().head();
    let status =
        cluster.open(FIRST, WatchFrom::Initial(ListVersion::NotOlderThan(rv(9_999))), "").unwrap_err();
    let text = format!("Timeout: Too large resource version: 9999, current: {head}");
    assert_eq!((status.code, &*status.message), (504, &*text));
}

#[test]
fn bookmarks_promise_only_what_was_said() {
    let mut cluster = cluster();
    let start = cluster.log().head();
    let mut watch = cluster.open(FIRST, WatchFrom::After(start), "").unwrap();
    assert!(cluster.bookmark(FIRST, &watch).is_none(), "nothing has moved");
    let own = cluster.put("configmaps", "a", "").rv();
    assert!(cluster.bookmark(FIRST, &watch).is_none(), "an event is still to come");
    cluster.said(FIRST, &mut watch);
    let foreign = cluster.put("secrets", "s", "").rv();
    let promised = |item| match item {
        Some(WatchItem::Bookmark { rv, marks_end: EndMark::No }) => rv,
        other => panic!("{other:?}"),
    };
    assert_eq!(promised(cluster.bookmark(FIRST, &watch)), own);
    cluster.notice_progress();
    assert_eq!(promised(cluster.bookmark(FIRST, &watch)), foreign);
}

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
