//! The order of what a session says, by which a proxy knows what counts for which registration.

use weir_core::History;
use weir_core::message::{FeedMessage, NamesEdit};
use weir_proto::session::{Names, Open, ToNode};

use super::super::super::testing::{Node, open, registration};
use crate::testing::Pod;

#[tokio::test(start_paused = true)]
async fn live_stands_before_the_events_that_count_for_it() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    pods.state((10, 11), vec![Pod::new("ns", "early", "u0").put(11)]);
    peer.open(mirror, 1, 9).await;
    assert_eq!(peer.said().await, "(10, 11]");
    assert_eq!(peer.said().await, "live 1 at 11");
    pods.state((11, 13), vec![Pod::new("ns", "a", "u1").put(12)]);
    peer.open(mirror, 2, 9).await;
    assert_eq!(peer.said().await, "(11, 13] 12:Added->1");
    assert_eq!(peer.said().await, "live 2 at 13");
    pods.state((13, 14), vec![Pod::new("ns", "a", "u1").put(14)]);
    assert_eq!(peer.said().await, "(13, 14] 14:Modified->1,Modified->2");
}

#[tokio::test(start_paused = true)]
async fn g6_an_id_that_is_registered_is_not_taken_again() {
    let (node, _pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 9).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    peer.open(mirror, 1, 9).await;
    let status = peer.end().await;
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(status.message(), "open: id 1 is in use");
}

#[tokio::test(start_paused = true)]
async fn g7_left_stands_at_the_last_word_that_counted() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 1).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    // One statement has both: what was paid for, and what was not.
    pods.state((10, 14), vec![Pod::new("ns", "a", "u1").put(11), Pod::new("ns", "b", "u2").put(13)]);
    assert_eq!(peer.said().await, "(10, 11] 11:Added->1");
    assert_eq!(peer.said().await, "left 1 at 11");
    assert_eq!(peer.said().await, "(11, 14]");
    // Credit for what is gone is dropped, and the registration stays gone.
    peer.credit(mirror, 1, 100).await;
    pods.state((14, 15), vec![Pod::new("ns", "c", "u3").put(15)]);
    assert_eq!(peer.said().await, "(14, 15]");
}

#[tokio::test(start_paused = true)]
async fn g8_a_frontier_never_overtakes_an_event_that_waits() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 9).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    // All of it waits for one flush.
    pods.state((10, 11), Vec::new());
    pods.state((11, 12), Vec::new());
    pods.state((12, 13), vec![Pod::new("ns", "a", "u1").put(13)]);
    pods.state((13, 14), Vec::new());
    pods.state((14, 15), Vec::new());
    for said in ["(10, 12]", "(12, 13] 13:Added->1", "(13, 15]"] {
        assert_eq!(peer.said().await, said);
    }
}

#[tokio::test(start_paused = true)]
async fn g10_left_stands_before_the_frontier_that_no_longer_counts() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 0).await;
    peer.open(mirror, 2, 5).await;
    for said in ["live 1 at 10", "live 2 at 10"] {
        assert_eq!(peer.said().await, said);
    }
    pods.state((10, 12), vec![Pod::new("ns", "a", "u1").put(12)]);
    for said in ["left 1 at 10", "(10, 12] 12:Added->2"] {
        assert_eq!(peer.said().await, said);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_names_is_answered_in_order() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    let key = |name: &str| weir_core::ObjectKey::new("ns", name);
    let everything = (weir_core::interest::Interest::everything(), weir_core::SlotSet::ALL, 2);
    let open = Open { names: Some(vec![key("a")]), ..open(mirror, 1, everything) };
    peer.say(&ToNode::Open(open)).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    let pod = |name: &str, at| Pod::new("ns", name, &format!("uid-{name}")).put(at);
    pods.state((10, 12), vec![pod("a", 11), pod("b", 12)]);
    assert_eq!(peer.said().await, "(10, 12] 11:Added->1");
    let change = |edit, added: &[&str], removed: &[&str]| {
        let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
        let registration = registration(mirror, 1);
        ToNode::Names(Names { registration, edit, added: keys(added), removed: keys(removed) })
    };
    peer.say(&change(NamesEdit::FIRST, &["b"], &["a"])).await;
    assert_eq!(peer.said().await, "named 1 by 1 at 12");
    pods.state((12, 14), vec![pod("a", 13), pod("b", 14)]);
    assert_eq!(peer.said().await, "(12, 14] 14:Modified->1");
    // The credit is the set's, and its end is that of all names.
    pods.state((14, 15), vec![pod("b", 15)]);
    for said in ["left 1 at 14", "(14, 15]"] {
        assert_eq!(peer.said().await, said);
    }
    peer.say(&change(NamesEdit::FIRST.next(), &["a"], &[])).await;
    pods.state((15, 16), vec![pod("a", 16)]);
    assert_eq!(peer.said().await, "(15, 16]");
}

#[tokio::test(start_paused = true)]
async fn f8_registrations_end_before_the_frontier_of_a_new_list() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 9).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    pods.list(20, vec![Pod::new("ns", "a", "u1").object(19)]);
    for said in ["too old 1", "(10, 20]", "floor 20"] {
        assert_eq!(peer.said().await, said);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restored_upstream_ends_registrations_and_its_floor_is_told_anew() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 9).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    pods.hear(FeedMessage::Restored(History::new(1)));
    // The list of the new history is there before the old one's end is said; its revision happens to be the same.
    pods.list(10, Vec::new());
    for said in ["restored 10 to 1", "(0, 10]", "floor 10"] {
        assert_eq!(peer.said().await, said);
    }
    peer.open(mirror, 2, 9).await;
    assert_eq!(peer.said().await, "live 2 at 10");
}

#[tokio::test(start_paused = true)]
async fn mirrors_share_flushes_and_keep_their_own_order() {
    let node = Node::new(weir_core::SlotSet::ALL);
    let mirrors: Vec<_> = (1..=3).map(|number| node.mirror(&format!("kind{number}s"), number)).collect();
    mirrors.iter().for_each(|mirror| mirror.list(10, Vec::new()));
    let mut peer = node.session().await;
    for number in 1..=3 {
        assert_eq!(peer.attach(&format!("kind{number}s")).await.mirror.get(), number);
    }
    for _ in 0..9 {
        peer.part().await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    mirrors.iter().for_each(|mirror| mirror.state((10, 11), Vec::new()));
    let before = node.metrics.flushes.get();
    for number in 1..=3 {
        let (mirror, said) = peer.part().await;
        assert_eq!(
            (mirror.get(), super::super::super::testing::brief(&said)),
            (number, "(10, 11]".to_owned())
        );
    }
    assert_eq!(node.metrics.flushes.get(), before + 1);
}
