//! The drain under paused time: watches end spread over the time, later news only shorten it, and clients are waited for.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Drain;

const LENGTH: Duration = Duration::from_secs(30);

/// After how much of a drain of 1,000 watches each of them ends, in order, in milliseconds.
async fn ends(drain: &Drain) -> Vec<u128> {
    let mut watches = JoinSet::new();
    for _ in 0..1_000 {
        let mut turn = drain.turn();
        watches.spawn(async move {
            turn.come().await;
            assert!(turn.has_come());
        });
    }
    tokio::time::sleep(LENGTH).await;
    assert_eq!(watches.len(), 1_000);
    assert!(watches.try_join_next().is_none(), "nobody leaves before the drain");
    let begun = Instant::now();
    drain.begin(LENGTH);
    let mut ends = Vec::new();
    while let Some(ended) = watches.join_next().await {
        ended.unwrap();
        ends.push(begun.elapsed().as_millis());
    }
    ends
}

#[tokio::test(start_paused = true)]
async fn watches_end_spread_over_the_time() {
    let ends = ends(&Drain::new()).await;
    // A tenth of the time is left for bytes on their way. In each of the others a ninth of the watches ends: 111, with a
    // deviation of 10, so that seven of those are never seen.
    assert!(ends.last().is_some_and(|last| *last <= 27_000), "{ends:?}");
    for tenth in 0..9 {
        let range = tenth * 3_000..(tenth + 1) * 3_000;
        let count = ends.iter().filter(|end| range.contains(*end)).count();
        assert!((41..=181).contains(&count), "{count} of 1,000 in {range:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_drain_gets_a_moment_of_what_is_left() {
    let drain = Drain::new();
    drain.begin(LENGTH);
    tokio::time::sleep(LENGTH / 2).await;
    for _ in 0..100 {
        let start = Instant::now();
        let mut turn = drain.turn();
        turn.come().await;
        assert!(start.elapsed() <= LENGTH, "{:?}", start.elapsed());
    }
    tokio::time::sleep(LENGTH).await;
    assert!(drain.turn().has_come(), "there is nothing left");
}

#[tokio::test(start_paused = true)]
async fn who_has_not_shown_the_state_stays_nearly_to_the_end() {
    let drain = Drain::new();
    let mut turn = drain.turn();
    let start = Instant::now();
    drain.begin(LENGTH);
    turn.latest().await;
    assert_eq!(start.elapsed().as_millis(), 28_500);
    assert!(turn.has_come());
}

#[tokio::test(start_paused = true)]
async fn the_time_only_becomes_shorter() {
    let drain = Drain::new();
    let mut turn = drain.turn();
    let start = Instant::now();
    drain.begin(LENGTH);
    drain.begin(10 * LENGTH);
    let (mut other, waiting) = (drain.turn(), drain.clone());
    let mut out = JoinSet::new();
    out.spawn(async move {
        let _client = waiting.client();
        waiting.out().await;
    });
    tokio::task::yield_now().await;
    drain.begin(Duration::ZERO);
    assert!(turn.has_come() && other.has_come());
    other.latest().await;
    out.join_next().await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn it_is_over_when_the_last_client_is_out_or_the_time_is() {
    for (stays, over) in [(0, 3), (1, 3), (20, 20), (100, 30)] {
        let drain = Drain::new();
        let start = Instant::now();
        let client = drain.client();
        let mut clients = JoinSet::new();
        clients.spawn(async move {
            tokio::time::sleep(Duration::from_secs(stays)).await;
            drop(client);
        });
        drain.begin(LENGTH);
        drain.out().await;
        // New clients are let in for a tenth of the time, so it is never over before.
        assert_eq!(start.elapsed().as_secs(), over, "a client that stays {stays} s");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_watch_that_has_gone() {
    let drain = Drain::new();
    let turns: Vec<_> = (0..10).map(|_| drain.turn()).collect();
    assert_eq!(drain.0.state.lock().waiting.len(), 10);
    drop(turns);
    assert!(drain.0.state.lock().waiting.is_empty());
    let mut turn = drain.turn();
    drain.begin(Duration::ZERO);
    turn.come().await;
    drop(turn);
    assert!(drain.0.state.lock().waiting.is_empty());
}
