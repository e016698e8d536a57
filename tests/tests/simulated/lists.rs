//! Lists: byte for byte what upstream says at the same revision, and one snapshot however many pages it takes.

use std::time::Duration;

use weir_core::ResourceVersion;
use weir_tests::checker::Listing;

use crate::client::Client;
use crate::truth::{Choice, Collection, Sixteenths};
use crate::world::World;

const COLLECTIONS: [&str; 4] = ["pods", "configmaps", "nodes", "gauges.metering.weir.test"];

/// All pages of a list whose first one is asked for with these options.
async fn pages(client: &Client, choice: &Choice, more: &str) -> Listing {
    let mut listing = Listing::default();
    let mut token = String::new();
    loop {
        let path = match &*token {
            "" => choice.path(more),
            token => choice.path(&format!("limit=7&continue={token}")),
        };
        let page = client.get(&path).await;
        let page = if token.is_empty() { page.fresh() } else { page.mirrored() };
        let (meta, items) = choice.collection.items(&page);
        if listing.items.is_empty() {
            listing.at = meta.at();
        }
        assert_eq!(meta.at(), listing.at, "one snapshot");
        listing.items.extend(items);
        token = meta.token;
        if token.is_empty() {
            return listing;
        }
    }
}

/// Both answers to the same request for an exact state.
async fn same_bytes(world: &World, choice: &Choice, at: ResourceVersion, more: &str) {
    let path = choice.path(&format!("resourceVersion={at}&resourceVersionMatch=Exact&{more}"));
    let ours = world.client.get(&path).await.mirrored();
    let theirs = world.upstream(0).get(&path).await;
    assert_eq!(theirs.code, 200, "{}", theirs.text());
    assert_eq!(ours.text(), theirs.text(), "{path}");
}

fn selections(collection: &Collection) -> Vec<Choice> {
    let all = || Choice::all(collection);
    let mut choices = vec![all(), all().tier("front"), all().not_tier("back"), all().named("node-1")];
    if collection.path(Some("a")).contains("nodes") {
        return choices;
    }
    choices.push(all().in_namespace("team-1"));
    choices.push(all().in_namespace("team-0").tier("back"));
    choices.push(all().in_namespace("nowhere"));
    choices
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_upstreams_own_bytes_at_its_revision() {
    let world = World::start(11).await;
    world.churn(300);
    for name in COLLECTIONS {
        let collection = world.collection(name);
        world.settled(&collection).await;
        let mark = world.mark();
        for choice in selections(&collection) {
            let any = world.client.get(&choice.path("resourceVersion=0")).await.mirrored();
            let (meta, items) = collection.items(&any);
            let listing = Listing { at: meta.at(), items, ..Listing::default() };
            collection.truth(&world.sim).check_list(&choice, &listing);
            for more in ["", "limit=3", "pretty=true", "limit=5&pretty=1"] {
                same_bytes(&world, &choice, meta.at(), more).await;
            }
            let exact = choice.path(&format!("resourceVersion={}&resourceVersionMatch=Exact", meta.at()));
            assert_eq!(any.text(), world.client.get(&exact).await.mirrored().text());
        }
        world.answered_by_weir(mark);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg07_pages_under_churn_are_one_snapshot() {
    let world = World::start(12).await;
    let churning = world.churning(Duration::from_millis(1));
    let pods = world.collection("pods");
    let uids = Sixteenths { from: 3, to: 12 };
    let mut lists = Vec::new();
    for choice in [Choice::all(&pods), Choice::all(&pods).tier("front"), Choice::all(&pods).uids(uids)] {
        for first in ["limit=7", "limit=7&resourceVersion=1&resourceVersionMatch=NotOlderThan"] {
            let (head, mark) = (world.head(), world.mark());
            let mut listing = pages(&world.client, &choice, first).await;
            if first == "limit=7" {
                listing.not_older_than = head;
            } else {
                world.answered_by_weir(mark);
            }
            lists.push((choice.clone(), listing));
        }
    }
    churning.stop(&world).await;
    let truth = pods.truth(&world.sim);
    for (choice, listing) in &lists {
        truth.check_list(choice, listing);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg10_every_page_says_how_many_are_left_as_upstreams_does() {
    let world = World::start(13).await;
    world.churn(300);
    for name in COLLECTIONS {
        let collection = world.collection(name);
        world.settled(&collection).await;
        for choice in [Choice::all(&collection), Choice::all(&collection).tier("front")] {
            let first = world.client.get(&choice.path("resourceVersion=0")).await.mirrored();
            let at = collection.items(&first).0.at();
            let mut query = format!("limit=3&resourceVersion={at}&resourceVersionMatch=Exact");
            loop {
                let path = choice.path(&query);
                let ours = world.client.get(&path).await.mirrored();
                assert_eq!(ours.text(), world.upstream(0).get(&path).await.text(), "{path}");
                let token = collection.items(&ours).0.token;
                if token.is_empty() {
                    break;
                }
                query = format!("limit=3&continue={token}");
            }
        }
    }
}
