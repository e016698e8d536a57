//! Options: every combination gets the answer that upstream gives, byte for byte, refusals included. Both are asked in a
//! quiet world in which the newest revision is one of the collection, so there is one right answer.

use futures_util::future::join_all;

use crate::client::{Client, Whole};
use crate::truth::Collection;
use crate::world::World;

/// A world in which nothing moves and the mirror of config maps is at upstream's newest revision.
async fn quiet(seed: u64) -> (World, Collection) {
    let world = World::start(seed).await;
    world.churn(60);
    world.create("team-0", "last");
    let maps = world.collection("configmaps");
    world.settled(&maps).await;
    (world, maps)
}

/// The same requests at weir and at upstream, many at once; ordinary bookmarks, which come by chance, left out.
async fn both(world: &World, paths: &[String]) -> Vec<(Whole, Whole)> {
    let ask = async |client: Client| join_all(paths.iter().map(|path| client.get(path))).await;
    let (ours, theirs) = tokio::join!(ask(world.client.clone()), ask(world.upstream(0)));
    ours.into_iter().zip(theirs).collect()
}

fn without_plain_bookmarks(answer: &Whole) -> String {
    let is_plain =
        |line: &&str| line.starts_with(r#"{"type":"BOOKMARK""#) && !line.contains("initial-events-end");
    let lines: Vec<_> = answer.text().split_inclusive('\n').filter(|line| !is_plain(line)).collect();
    lines.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_with_any_options_are_upstreams_own() {
    let (world, maps) = quiet(91).await;
    let head = world.head().get();
    let mut paths = Vec::new();
    for version in [String::new(), "0".to_owned(), (head - 20).to_string(), head.to_string()] {
        for initial in ["", "&sendInitialEvents=true", "&sendInitialEvents=false"] {
            for matching in ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"] {
                for bookmarks in ["", "&allowWatchBookmarks=true"] {
                    paths.push(format!(
                        "{}?watch=1&timeoutSeconds=1&resourceVersion={version}{initial}{matching}{bookmarks}",
                        maps.path(Some("team-0"))
                    ));
                }
            }
        }
    }
    for (path, (ours, theirs)) in paths.iter().zip(both(&world, &paths).await) {
        let (code, text) = (theirs.code, without_plain_bookmarks(&theirs));
        assert_eq!((ours.code, without_plain_bookmarks(&ours)), (code, text), "{path}");
        let needs_proof = path.contains("resourceVersion=&") || path.ends_with("resourceVersion=");
        assert!(ours.is_mirrored() || needs_proof, "{path}: {}", ours.answered_by());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg03_lists_with_any_options_are_upstreams_own() {
    let (world, maps) = quiet(92).await;
    let head = world.head().get();
    let mut paths = Vec::new();
    for version in [String::new(), "0".to_owned(), (head - 20).to_string(), head.to_string(), "x".to_owned()]
    {
        for matching in ["", "NotOlderThan", "Exact", "Nonsense"] {
            for more in
                ["", "&limit=2", "&labelSelector=tier%3Dfront&limit=1", "&fieldSelector=metadata.name%3Dlast"]
            {
                paths.push(format!(
                    "{}?resourceVersion={version}&resourceVersionMatch={matching}{more}",
                    maps.path(Some("team-0"))
                ));
            }
        }
    }
    for (path, (ours, theirs)) in paths.iter().zip(both(&world, &paths).await) {
        assert_eq!((ours.code, ours.text()), (theirs.code, theirs.text()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_upstreams_own() {
    let (world, maps) = quiet(93).await;
    let queries = [
        "limit=x",
        "limit=-1",
        "continue=nonsense",
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0",
        "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9hIn0&limit=2",
        "continue=a&resourceVersion=5",
        "labelSelector=a%3D%3D%3Db",
        "labelSelector=!",
        "fieldSelector=spec.nodeName%3Da",
        "fieldSelector=a",
        "resourceVersion=-1",
        "resourceVersion=18446744073709551616",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=NotOlderThan&resourceVersion=",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "sendInitialEvents=true",
        "watch=1&sendInitialEvents=true",
        "watch=1&sendInitialEvents=x",
        "watch=1&resourceVersionMatch=NotOlderThan",
        "watch=1&continue=a",
        "watch=1&timeoutSeconds=x",
        "watch=1&timeoutSeconds=-1",
        "watch=1&timeoutSeconds=-1&resourceVersion=0",
        "watch=x&resourceVersion=0",
        "watch=1&labelSelector=a%3D%3D%3Db&resourceVersion=0",
        "timeout=x&resourceVersion=0",
        "timeoutSeconds=x&resourceVersion=0",
    ];
    // A list takes no notice of the last option, and a watch that is none of the refusals ends.
    let path = |query: &&str| match query.contains("timeoutSeconds") {
        true => format!("{}?{query}", maps.path(None)),
        false => format!("{}?{query}&timeoutSeconds=1", maps.path(None)),
    };
    let paths: Vec<_> = queries.iter().map(path).collect();
    for (path, (ours, theirs)) in paths.iter().zip(both(&world, &paths).await) {
        assert_eq!((ours.code, ours.text()), (theirs.code, theirs.text()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se06_the_old_paths_of_watches_are_upstreams_own() {
    let (world, _) = quiet(94).await;
    let head = world.head();
    let mut paths = Vec::new();
    for path in [
        "/api/v1/watch/configmaps",
        "/api/v1/watch/namespaces/team-0/configmaps",
        "/api/v1/watch/namespaces/team-0/configmaps/settings-0",
        "/api/v1/watch/namespaces/team-0/configmaps/absent",
        "/api/v1/watch/nodes/node-1",
        "/api/v1/watch/namespaces/team-0",
        "/api/v1/watch/namespaces",
        "/apis/metering.weir.test/v1/watch/namespaces/team-0/gauges",
    ] {
        for query in
            ["resourceVersion=0", "", &format!("resourceVersion={head}"), "watch=0", "resourceVersion=1"]
        {
            paths.push(format!("{path}?timeoutSeconds=1&{query}"));
        }
    }
    for (path, (ours, theirs)) in paths.iter().zip(both(&world, &paths).await) {
        assert_eq!((ours.code, ours.text()), (theirs.code, theirs.text()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ct02_a_watch_lasts_as_long_as_it_was_asked_to() {
    let (world, maps) = quiet(95).await;
    let began = tokio::time::Instant::now();
    let path = format!("{}?watch=1&resourceVersion={}&timeoutSeconds=2", maps.path(None), world.head());
    let rest = world.client.watch(&path).await.mirrored().rest().await;
    let lasted = began.elapsed().as_secs_f64();
    assert_eq!(rest, [crate::stream::Event::End]);
    assert!((1.99..4.0).contains(&lasted), "{lasted} s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ng12_answers_to_people_are_indented_as_upstreams() {
    let (world, maps) = quiet(96).await;
    let head = world.head();
    let exact = format!("resourceVersion={head}&resourceVersionMatch=Exact");
    for agent in ["curl/8.5.0", "Mozilla/5.0 (X11)", "Go-http-client/1.1", "kubectl/v1.37.2"] {
        let ours = world.client.with_header("user-agent", agent);
        let theirs = world.upstream(0).with_header("user-agent", agent);
        for query in ["", "&pretty=false", "&pretty=true", "&pretty=1", "&pretty=0", "&limit=1&pretty=x"] {
            for path in [
                format!("{}?{exact}{query}", maps.path(Some("team-0"))),
                format!("{}/last?resourceVersion=0{query}", maps.path(Some("team-0"))),
                format!("{}?{exact}{query}&labelSelector=a%3D%3D%3Db", maps.path(None)),
            ] {
                let (ours, theirs) = (ours.get(&path).await, theirs.get(&path).await);
                assert_eq!((ours.code, ours.text()), (theirs.code, theirs.text()), "{agent} {path}");
            }
        }
    }
}
