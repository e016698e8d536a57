//! A reader in front of a simulated apiserver, over real sockets: what it asks upstream for, and what its subscribers get.

mod fed;
mod ticks;

use std::time::Duration;

use weir_core::History;

use super::super::ring::{Next, Standing};
use super::super::subscription::Subscription;
use super::ReaderLimits;
use fed::{Fed, Got, LIMIT, got, read_to};

const FIRST: History = History::FIRST;
const NOTHING: Standing = Standing::nothing(FIRST);

#[tokio::test]
async fn subscribers_without_content_need_one_list() {
    let fed = Fed::start(1).await;
    let [one, other] = [NOTHING, NOTHING].map(|standing| fed.feed.open(standing));
    let at = fed.written();
    assert!(read_to(&one, at).await.lists > 0 && read_to(&other, at).await.lists > 0);
    fed.write(20);
    let at = fed.written();
    assert_eq!((read_to(&one, at).await.lists, read_to(&other, at).await.lists), (0, 0));
    assert_eq!(fed.lists(), 1);
    assert_eq!(fed.counted(), [1, 0, 1, 0, 0]);
    assert_eq!(fed.feed.subscribers(), 2);
    drop(other);
    assert_eq!(fed.feed.subscribers(), 1, "who is gone is not waited for");
    assert!(fed.feed.source().is_some() && fed.feed.position() >= Some(at));
}

#[tokio::test]
async fn a_feed_begins_where_its_subscribers_are_and_lists_nothing() {
    let fed = Fed::start(2).await;
    let at = fed.written();
    fed.write(50);
    let one = fed.feed.open(Standing::at(FIRST, at));
    let read = read_to(&one, fed.written()).await;
    assert_eq!((read.lists, read.first_after), (0, Some(at)));
    assert_eq!(fed.lists(), 0);
    assert_eq!(fed.counted(), [0, 0, 1, 0, 0]);
    let facts = fed.feed.facts().borrow().clone().unwrap();
    assert_eq!(&*facts.list_kind, "PodList", "what answers repeat is known all the same");
}

#[tokio::test]
async fn a_late_subscriber_is_listed_for_beside_the_main_watch() {
    let fed = Fed::start(3).await;
    let one = fed.feed.open(Standing::at(FIRST, fed.written()));
    fed.write(10);
    read_to(&one, fed.written()).await;
    let late = fed.feed.open(NOTHING);
    fed.write(10);
    let at = fed.written();
    assert_eq!(read_to(&one, at).await.lists, 0, "a list would end all its interests");
    assert_eq!(read_to(&late, at).await.lists, 1);
    let later = fed.feed.open(NOTHING);
    assert_eq!(read_to(&later, at).await.lists, 1);
    assert_eq!(fed.lists(), 1, "the same for all that come soon");
    assert_eq!(fed.counted(), [1, 1, 1, 0, 0], "and the main watch went on");
}

#[tokio::test]
async fn f2_a_subscriber_behind_the_ring_is_backfilled_beside_the_main_watch() {
    let fed = Fed::start(4).await;
    let behind = fed.written();
    fed.write(50);
    let one = fed.feed.open(Standing::at(FIRST, fed.written()));
    fed.write(10);
    read_to(&one, fed.written()).await;
    let late = fed.feed.open(Standing::at(FIRST, behind));
    fed.write(10);
    let at = fed.written();
    let read = read_to(&late, at).await;
    assert_eq!((read.lists, read.first_after), (0, Some(behind)));
    assert_eq!(read_to(&one, at).await.lists, 0);
    let [lists, _, watches, backfills, _] = fed.counted();
    assert_eq!((lists, watches, backfills), (0, 1, 1));
}

#[tokio::test]
async fn f2_a_subscriber_behind_a_quiet_mirror_comes_to_the_main_watch_too() {
    let fed = Fed::start(5).await;
    fed.write(50);
    let at = fed.written();
    let one = fed.feed.open(Standing::at(FIRST, at));
    // What others wrote moves the main watch by a bookmark, and nothing happens to pods.
    fed.write_others(50);
    let behind = fed.feed.open(Standing::at(FIRST, at));
    fed.catch_up().await;
    let position = fed.feed.position().unwrap();
    assert!(position > at);
    assert_eq!(read_to(&one, position).await.lists, 0);
    assert_eq!(read_to(&behind, position).await.lists, 0);
    let late = fed.feed.open(Standing::at(FIRST, fed.first()));
    let read = read_to(&late, position).await;
    assert_eq!((read.lists, read.first_after), (0, Some(fed.first())));
}

#[tokio::test]
async fn a_log_that_upstream_no_longer_has_makes_a_list_for_the_late_one_only() {
    let fed = Fed::start(6).await;
    let behind = fed.written();
    fed.write(20);
    let one = fed.feed.open(Standing::at(FIRST, fed.written()));
    fed.write(5);
    read_to(&one, fed.written()).await;
    fed.forget_history();
    let late = fed.feed.open(Standing::at(FIRST, behind));
    fed.write(5);
    let at = fed.written();
    assert_eq!(read_to(&late, at).await.lists, 1);
    assert_eq!(read_to(&one, at).await.lists, 0);
    let [lists, late_lists, _, backfills, _] = fed.counted();
    assert_eq!((lists, late_lists, backfills), (1, 1, 1));
}

#[tokio::test]
async fn a_list_that_upstream_forced_goes_to_all() {
    let fed = Fed::start(7).await;
    let standing = Standing::at(FIRST, fed.written());
    let [one, other] = [standing, standing].map(|standing| fed.feed.open(standing));
    fed.write(5);
    let at = fed.written();
    read_to(&one, at).await;
    read_to(&other, at).await;
    // The log that the feed has not read is gone at every instance.
    fed.hold(|| fed.write(20));
    let at = fed.written();
    assert_eq!((read_to(&one, at).await.lists, read_to(&other, at).await.lists), (1, 1));
    assert_eq!(fed.lists(), 1);
    assert_eq!(fed.counted()[1], 0, "it is the main watch's own");
}

#[tokio::test]
async fn a_subscriber_that_does_not_read_slows_nobody() {
    let fed = Fed::bounded(8, 300_000).await;
    let standing = Standing::at(FIRST, fed.written());
    let [slow, one] = [standing, standing].map(|standing| fed.feed.open(standing));
    fed.write(1);
    let stopped = fed.written();
    read_to(&slow, stopped).await;
    read_to(&one, stopped).await;
    for _ in 0..20 {
        fed.write(50);
        assert_eq!(read_to(&one, fed.written()).await.lists, 0);
    }
    assert!(matches!(got(&slow).await, Got::Behind), "the ring went past it");
    slow.again(Standing::at(FIRST, stopped));
    let read = read_to(&slow, fed.written()).await;
    assert_eq!((read.lists, read.first_after), (0, Some(stopped)), "and it comes back from where it was");
    assert_eq!(fed.counted()[2], 1, "without a word to the main watch");
}

#[tokio::test]
async fn the_end_of_a_history_is_found_and_told() {
    let fed = Fed::start(9).await;
    fed.sim.back_up();
    let one = fed.feed.open(NOTHING);
    read_to(&one, fed.written()).await;
    fed.write(30);
    read_to(&one, fed.written()).await;
    fed.restore();
    assert!(matches!(got(&one).await, Got::Restored(history) if history == FIRST.next()));
    fed.write(5);
    assert_eq!(read_to(&one, fed.written()).await.lists, 1);
    assert_eq!((fed.feed.history(), fed.counted()[4]), (FIRST.next(), 1));
}

#[tokio::test]
async fn a_feed_hears_of_another_history_from_its_subscriber() {
    let fed = Fed::start(10).await;
    let one = fed.feed.open(NOTHING);
    fed.write(5);
    let at = fed.written();
    read_to(&one, at).await;
    let told = fed.feed.open(Standing::at(FIRST.next(), at));
    assert!(matches!(got(&one).await, Got::Restored(history) if history == FIRST.next()));
    fed.write(5);
    assert_eq!(read_to(&told, fed.written()).await.lists, 0, "what it has counts");
    assert_eq!(read_to(&one, fed.written()).await.lists, 1);
    assert_eq!(fed.feed.history(), FIRST.next());
}

#[tokio::test]
async fn a_subscriber_ahead_of_upstream_shows_that_its_history_is_over() {
    for is_late in [false, true] {
        let fed = Fed::start(11).await;
        let one = is_late.then(|| fed.feed.open(NOTHING));
        if let Some(one) = &one {
            read_to(one, fed.written()).await;
        }
        let ahead = weir_core::ResourceVersion::new(fed.written().get() + 1_000);
        let subscription = fed.feed.open(Standing::at(FIRST, ahead));
        assert!(matches!(got(&subscription).await, Got::Restored(_)), "late: {is_late}");
        fed.write(5);
        assert_eq!(read_to(&subscription, fed.written()).await.lists, 1);
    }
}

#[tokio::test]
async fn a_subscriber_ahead_of_a_lagging_instance_only_waits() {
    let fed = Fed::start(12).await;
    let one = fed.feed.open(NOTHING);
    fed.write(5);
    read_to(&one, fed.written()).await;
    fed.sim.instance(0).hold();
    fed.write(20);
    let ahead = fed.feed.open(Standing::at(FIRST, fed.written()));
    let silent = tokio::time::timeout(LIMIT / 20, got(&ahead)).await;
    assert!(silent.is_err(), "nothing leads it on yet");
    fed.sim.instance(0).catch_up();
    fed.write(5);
    assert_eq!(read_to(&ahead, fed.written()).await.lists, 0);
    assert_eq!(fed.counted()[4], 0);
}

/// What comes next for a subscriber, in time.
async fn next(subscription: &Subscription) -> Next {
    tokio::time::timeout(LIMIT, subscription.next()).await.expect("in time")
}

#[tokio::test]
async fn a_frontier_that_stands_still_is_moved_on_by_itself() {
    let limits = ReaderLimits { look_every: Duration::from_millis(20), ..ReaderLimits::default() };
    let fed = Fed::limited(30, 1 << 20, limits).await;
    let one = fed.feed.open(Standing::at(FIRST, fed.written()));
    fed.connected().await;
    fed.write_others(50);
    let head = fed.sim.read(|cluster| cluster.log().head());
    fed.reached(head).await;
    assert_eq!(read_to(&one, head).await.lists, 0);
}
