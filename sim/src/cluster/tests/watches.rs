//! Watches: where they begin, what they see, and how they end.

use super::*;

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
