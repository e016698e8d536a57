//! Ticks of a feed: a write brings the stream to the present, many that wait share few, and one that fails fails nothing else.

use futures_util::future::join_all;
use tokio::time::Instant;

use super::fed::{APART, Fed, read_to};
use super::{FIRST, Standing};

#[tokio::test]
async fn a_tick_brings_a_quiet_feed_to_the_present() {
    let fed = Fed::start(20).await;
    fed.create_tick();
    let one = fed.feed.open(Standing::at(FIRST, fed.written()));
    fed.connected().await;
    fed.write_others(50);
    assert!(fed.feed.can_tick());
    let written = fed.feed.tick().await.expect("a tick");
    assert_eq!(written, fed.written(), "it is the newest change of a pod");
    fed.reached(written).await;
    assert_eq!(read_to(&one, written).await.lists, 0, "and comes by the stream");
    assert_eq!(fed.ticks(), [200]);
    let counters = fed.feed.counters();
    assert_eq!((counters.ticks.get(), counters.failed_ticks.get()), (1, 0));
}

#[tokio::test]
async fn who_comes_while_a_tick_is_under_way_gets_the_next_and_all_share_it() {
    let fed = Fed::start(21).await;
    fed.create_tick();
    let _one = fed.feed.open(Standing::at(FIRST, fed.written()));
    fed.connected().await;
    fed.ticks();
    let began = Instant::now();
    let before = fed.feed.tick().await.expect("a tick");
    // Whoever asks now may have seen what was acknowledged since.
    let all = join_all((0..200).map(|_| fed.feed.tick())).await;
    assert!(all.iter().all(|tick| *tick > Some(before)), "{before} {all:?}");
    for _ in 0..8 {
        fed.feed.tick().await.expect("a tick");
    }
    let ticks = fed.ticks();
    assert_eq!(ticks, [200; 10], "two hundred share one");
    assert!(began.elapsed() >= APART * 9, "{:?}", began.elapsed());
}

#[tokio::test]
async fn nobody_who_has_gone_is_ticked_for() {
    let fed = Fed::start(22).await;
    fed.create_tick();
    let _one = fed.feed.open(Standing::at(FIRST, fed.written()));
    fed.connected().await;
    loop {
        let began = Instant::now();
        fed.feed.tick().await.expect("a tick");
        fed.ticks();
        let left = tokio::time::timeout(APART / 20, fed.feed.tick()).await;
        // The next one was not due yet, unless the machine had no time for the first.
        if left.is_err() && began.elapsed() < APART {
            break;
        }
    }
    let left = Instant::now();
    while left.elapsed() < APART * 2 {
        fed.feed.newest(false).await.expect("the feed asks");
    }
    assert!(fed.ticks().is_empty(), "nobody is left who waits");
}

#[tokio::test]
async fn a_tick_that_fails_ends_nothing_and_is_not_tried_again_soon() {
    for code in [403, 404, 409, 422, 429] {
        let fed = Fed::start(23).await;
        // Without the object upstream says 404 by itself.
        if code != 404 {
            fed.create_tick();
            fed.sim.instance(0).refuse(weir_sim::Fits::verb("patch"), 1, code);
        }
        let _one = fed.feed.open(Standing::at(FIRST, fed.written()));
        fed.connected().await;
        let all = join_all((0..5).map(|_| fed.feed.tick())).await;
        assert_eq!(all, [None; 5], "{code}");
        assert!(!fed.feed.can_tick() && fed.feed.tick().await.is_none(), "{code}");
        assert!(fed.feed.newest(false).await.is_some(), "{code}: the connection goes on");
        assert_eq!(fed.ticks(), [code]);
        let counters = fed.feed.counters();
        assert_eq!((counters.ticks.get(), counters.failed_ticks.get(), counters.watches.get()), (1, 1, 1));
    }
}

#[tokio::test]
async fn a_tick_without_an_answer_is_given_up() {
    let fed = Fed::start(24).await;
    fed.create_tick();
    let _one = fed.feed.open(Standing::at(FIRST, fed.written()));
    fed.connected().await;
    fed.sim.instance(0).freeze();
    assert_eq!(fed.feed.tick().await, None);
    fed.sim.instance(0).thaw();
    assert!(!fed.feed.can_tick());
    assert!(fed.feed.newest(false).await.is_some(), "the connection goes on");
}
