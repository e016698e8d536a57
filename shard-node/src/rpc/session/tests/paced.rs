//! When a session speaks. The clock of these tests moves only when everybody waits.

use std::time::Duration;

use tokio::time::Instant;
use weir_core::{ResourceVersion, WindowBounds};
use weir_proto::session::{FromNode, ToNode};

use super::super::super::testing::Node;
use crate::testing::Pod;

fn millis(from: Instant) -> u128 {
    from.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn a_quiet_session_speaks_at_once_and_a_busy_one_gathers() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 10_000).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    tokio::time::sleep(Duration::from_millis(5)).await;
    let start = Instant::now();
    pods.state((10, 11), vec![Pod::new("ns", "a", "u").put(11)]);
    assert_eq!(peer.said().await, "(10, 11] 11:Added->1");
    assert_eq!(millis(start), 0, "it was quiet");
    pods.state((11, 12), vec![Pod::new("ns", "a", "u").put(12)]);
    assert_eq!(peer.said().await, "(11, 12] 12:Modified->1");
    assert!((2..=3).contains(&millis(start)), "{} ms", millis(start));
}

#[tokio::test(start_paused = true)]
async fn a_frontier_is_said_at_once_only_where_somebody_waits_for_it() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    let start = Instant::now();
    let mut feed = 11..;
    let mut goes_on = || {
        let at = feed.next().unwrap();
        pods.state((at - 1, at), Vec::new());
    };
    goes_on();
    goes_on();
    assert_eq!(peer.said().await, "(10, 12]");
    assert!((25..=26).contains(&millis(start)), "{} ms", millis(start));
    // Before it is there, and two steps early.
    peer.say(&ToNode::Reach(mirror, ResourceVersion::new(14))).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    let start = Instant::now();
    goes_on();
    goes_on();
    assert_eq!(peer.said().await, "(12, 14]");
    assert_eq!(millis(start), 0);
    // When it is there and waits for its time.
    goes_on();
    tokio::time::sleep(Duration::from_millis(5)).await;
    peer.say(&ToNode::Reach(mirror, ResourceVersion::new(15))).await;
    assert_eq!(peer.said().await, "(14, 15]");
    assert!((5..=6).contains(&millis(start)), "{} ms", millis(start));
    // Nobody waits any more.
    goes_on();
    assert_eq!(peer.said().await, "(15, 16]");
    assert!((30..=32).contains(&millis(start)), "{} ms", millis(start));
}

#[tokio::test(start_paused = true)]
async fn under_load_a_flush_comes_every_two_milliseconds_and_carries_everything() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 10_000).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    let before = node.metrics.flushes.get();
    let feed = async {
        for at in 11..=210 {
            pods.state((at - 1, at), vec![Pod::new("ns", "a", "u").put(at)]);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let hear = async {
        for at in 11..=210 {
            let kind = if at == 11 { "Added" } else { "Modified" };
            assert_eq!(peer.said().await, format!("({}, {at}] {at}:{kind}->1", at - 1));
        }
    };
    tokio::join!(feed, hear);
    let flushes = node.metrics.flushes.get() - before;
    assert!((60..=105).contains(&flushes), "{flushes} flushes in 200 ms");
}

#[tokio::test(start_paused = true)]
async fn a_session_without_news_gives_a_sign_of_life_every_quarter_of_a_second() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, _) = node.session_of("pods").await;
    let mut last = Instant::now();
    for _ in 0..20 {
        let FromNode::Flush(parts) = peer.next().await.unwrap() else { panic!("no flush") };
        assert!(parts.is_empty());
        assert!((249..=252).contains(&millis(last)), "{} ms", millis(last));
        last = Instant::now();
    }
    assert!(node.metrics.heartbeats.get() >= 20);
    // Something said counts as a sign.
    tokio::time::sleep(Duration::from_millis(200)).await;
    pods.state((10, 11), Vec::new());
    assert_eq!(peer.said().await, "(10, 11]");
    let said = Instant::now();
    assert!(matches!(peer.next().await.unwrap(), FromNode::Flush(parts) if parts.is_empty()));
    assert!((249..=252).contains(&millis(said)), "{} ms", millis(said));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_carries_nothing_gives_signs_of_life_too() {
    let node = Node::new(weir_core::SlotSet::ALL);
    let mut peer = node.session().await;
    for _ in 0..3 {
        assert!(matches!(peer.next().await.unwrap(), FromNode::Flush(parts) if parts.is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_floor_that_moves_all_the_time_is_said_now_and_then() {
    let bounds = WindowBounds { max_events: 1, min_age: Duration::ZERO, ..WindowBounds::default() };
    let node = Node::new(weir_core::SlotSet::ALL);
    let pods = node.mirror_within("pods", 1, bounds);
    pods.list(10, Vec::new());
    let (mut peer, _) = node.session_of("pods").await;
    let start = Instant::now();
    let (mut frontier, mut floors) = (10, Vec::new());
    let mut at = 10;
    while millis(start) < 2_000 {
        at += 1;
        pods.state((at - 1, at), vec![Pod::new("ns", "a", "u").put(at)]);
        while frontier < at {
            match peer.said().await.strip_prefix("floor ") {
                Some(floor) => floors.push(floor.parse::<u64>().unwrap()),
                None => frontier += 1,
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!((9..=11).contains(&floors.len()), "{floors:?}");
    assert!(floors.is_sorted(), "{floors:?}");
    let window = pods.cell().window().unwrap();
    // It stands still, and so the peer learns where within one look.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let floor = format!("floor {}", window.floor);
    assert_eq!(peer.said().await, floor);
}
