//! Watches.

use std::time::Duration;

use crate::client::End;
use crate::fixture::Fixture;

fn kind_of(line: &str) -> &str {
    line.trim_start_matches("{\"type\":\"").split('"').next().unwrap()
}

#[tokio::test]
async fn a_watch_goes_on_from_its_revision() {
    let fixture = Fixture::start().await;
    let head = fixture.head();
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={head}");
    let mut watch = fixture.client(0).get(&path).await;
    assert_eq!((watch.code, watch.headers["content-type"].as_str()), (200, "application/json"));
    let rv = fixture.create("configmaps", "web");
    let line = watch.line().await.unwrap();
    let start = "{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":";
    assert!(line.starts_with(start) && line.contains(&format!("\"resourceVersion\":\"{rv}\"")), "{line}");
}

#[tokio::test]
async fn a_watch_list_marks_the_end_of_the_state() {
    let fixture = Fixture::start().await;
    fixture.create("gauges.metering.weir.test", "g");
    let rv = fixture.head();
    let path = "/apis/metering.weir.test/v1/gauges?watch=1&sendInitialEvents=true\
        &resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = fixture.client(0).get(path).await;
    assert_eq!(kind_of(&watch.line().await.unwrap()), "ADDED");
    let mark = format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"apiVersion\":\"metering.weir.test/v1\",\"kind\":\"Gauge\",\"metadata\":\
         {{\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}},\"resourceVersion\":\"{rv}\"}}}}}}"
    );
    assert_eq!(watch.line().await.unwrap(), mark);
}

#[tokio::test]
async fn bookmarks_come_when_the_revision_has_moved() {
    let fixture = Fixture::with(|config| config.timing.bookmark_period = Duration::from_millis(5)).await;
    let head = fixture.head();
    let path = format!("/api/v1/pods?watch=1&resourceVersion={head}&allowWatchBookmarks=true");
    let mut watch = fixture.client(0).get(&path).await;
    let rv = fixture.create("configmaps", "web");
    fixture.sim.with(weir_sim::Cluster::notice_progress);
    let bookmark = format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":\
         {{\"resourceVersion\":\"{rv}\"}},\"spec\":{{\"containers\":null}},\"status\":{{}}}}}}"
    );
    assert_eq!(watch.line().await.unwrap(), bookmark);
}

#[tokio::test]
async fn an_old_revision_is_an_error_event() {
    let fixture = Fixture::start().await;
    let old = fixture.create("configmaps", "a");
    let head = fixture.create("configmaps", "b");
    fixture.sim.instance(0).restart();
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={old}");
    let mut watch = fixture.client(0).get(&path).await;
    let error = format!(
        "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"status\":\
         \"Failure\",\"message\":\"too old resource version: {old} ({head})\",\"reason\":\"Expired\",\"code\":410}}}}"
    );
    assert_eq!((watch.code, watch.line().await.unwrap()), (200, error));
    assert_eq!(watch.line().await, Err(End::Whole));
    let mut other = fixture.client(1).get(&path).await;
    assert_eq!(kind_of(&other.line().await.unwrap()), "ADDED");
}

#[tokio::test]
async fn a_watch_ends_at_its_time_without_a_word() {
    let fixture = Fixture::start().await;
    let mut watch = fixture.client(0).get("/api/v1/pods?watch=1&timeoutSeconds=1").await;
    assert_eq!(watch.line().await, Err(End::Whole));
    let mut over = fixture.client(0).get("/api/v1/configmaps?watch=1&timeoutSeconds=-1").await;
    assert_eq!((over.code, over.line().await), (200, Err(End::Whole)));
}

#[tokio::test]
async fn a_stream_is_cut_after_so_many_events() {
    let fixture = Fixture::start().await;
    let config_maps = fixture.sim.resource("configmaps").unwrap();
    let head = fixture.head();
    for name in ["a", "b", "c"] {
        fixture.create("configmaps", name);
    }
    fixture.sim.instance(0).cut_after(config_maps, 2);
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={head}");
    let mut watch = fixture.client(0).get(&path).await;
    for _ in 0..2 {
        assert_eq!(kind_of(&watch.line().await.unwrap()), "ADDED");
    }
    assert_eq!(watch.line().await, Err(End::Broken));
}

#[tokio::test]
async fn a_restart_ends_streams_and_a_held_instance_says_nothing() {
    let fixture = Fixture::start().await;
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={}", fixture.head());
    let mut watches = [fixture.client(0).get(&path).await, fixture.client(1).get(&path).await];
    fixture.sim.instance(1).hold();
    fixture.create("configmaps", "a");
    assert_eq!(kind_of(&watches[0].line().await.unwrap()), "ADDED");
    fixture.sim.instance(1).restart();
    assert_eq!(watches[1].line().await, Err(End::Broken));
    fixture.sim.instance(0).end_streams();
    assert_eq!(watches[0].line().await, Err(End::Whole));
}

#[tokio::test]
async fn a_frozen_instance_answers_when_it_is_thawed() {
    let fixture = Fixture::start().await;
    fixture.sim.instance(0).freeze();
    let client = fixture.client(0);
    let mut late = tokio::task::JoinSet::new();
    late.spawn(async move { client.text("/version").await });
    assert_eq!(fixture.client(1).text("/version").await.0, 200);
    assert!(late.try_join_next().is_none());
    fixture.sim.instance(0).thaw();
    assert_eq!(late.join_next().await.unwrap().unwrap().0, 200);
}

#[tokio::test]
async fn the_death_of_an_instance_breaks_its_streams() {
    let mut fixture = Fixture::start().await;
    let path = format!("/api/v1/configmaps?watch=1&resourceVersion={}", fixture.head());
    let mut watch = fixture.client(0).get(&path).await;
    fixture.handles.remove(0).shutdown().await;
    assert_eq!(watch.line().await, Err(End::Broken));
}

#[tokio::test]
async fn the_old_watch_paths_send_the_state() {
    let fixture = Fixture::start().await;
    fixture.create("configmaps", "a");
    fixture.create("configmaps", "b");
    let mut watch = fixture.client(0).get("/api/v1/watch/namespaces/default/configmaps/b").await;
    let line = watch.line().await.unwrap();
    assert!(line.contains("\"name\":\"b\"") && kind_of(&line) == "ADDED", "{line}");
}
