//! The rules of the simulated apiserver without a socket: writes, reads, watches, and every fault.

mod faults;
mod watches;

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
