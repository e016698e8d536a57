//! How sessions begin, what they carry, and every way in which they end.

use std::time::Duration;

use tonic::Code;
use weir_core::message::OpenId;
use weir_core::{History, SlotSet};
use weir_daemon::StopCause;
use weir_daemon::peer::Caller;
use weir_proto::Spoken;
use weir_proto::session::{Attached, FromNode, MirrorNumber, ToNode, Unmirrored};

use super::super::super::testing::{Mirror, Node, facts, open, resource};
use super::super::SessionId;
use crate::testing::Pod;
use weir_core::interest::Interest;

/// Waits until the node has no registration of its first session.
async fn forgotten(pods: &Mirror, id: u64) {
    let is_gone = async {
        while pods.cell().registered(SessionId(1), OpenId(id)).count > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), is_gone).await.expect("the registration ends");
}

#[tokio::test(start_paused = true)]
async fn a_session_from_hello_to_its_end() {
    let (node, pods) = Node::with_pods(vec![Pod::new("ns", "a", "u").object(9)]);
    let mut peer = node.session().await;
    let attached = peer.attach("pods").await;
    let Attached { mirror, spec, facts, history } = attached;
    assert_eq!((mirror.get(), spec.resource, history), (1, resource("pods"), History::FIRST));
    assert!(facts.is_none());
    for said in ["history 0", "(10, 10]", "floor 10"] {
        assert_eq!(peer.said().await, said);
    }
    peer.open(mirror, 1, 9).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    pods.state((10, 11), vec![Pod::new("ns", "a", "u").delete(11)]);
    assert_eq!(peer.said().await, "(10, 11] 11:Deleted->1");
    peer.close(mirror, 1).await;
    forgotten(&pods, 1).await;
    pods.state((11, 12), vec![Pod::new("ns", "a", "u2").put(12)]);
    assert_eq!(peer.said().await, "(11, 12]");
    peer.say(&ToNode::Detach(mirror)).await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    pods.state((12, 13), Vec::new());
    assert!(matches!(peer.next().await.unwrap(), FromNode::Flush(parts) if parts.is_empty()));
    // Again, from where the node stands now.
    assert_eq!(peer.attach("pods").await.mirror, mirror);
    for said in ["history 0", "(13, 13]", "floor 10"] {
        assert_eq!(peer.said().await, said);
    }
    assert_eq!(node.metrics.sessions.get(), 1);
    drop(peer);
    let is_over = async {
        while node.metrics.sessions.get() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), is_over).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_of_other_protocols_is_refused() {
    let node = Node::new(SlotSet::ALL);
    let mut peer = node.silent_session(Caller::Proxy).await.unwrap();
    peer.say(&ToNode::Hello(Spoken::new(7, 9).unwrap())).await;
    let status = peer.end().await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("protocols 7 to 9"), "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_newer_peer_that_speaks_ours_too_is_welcome() {
    let node = Node::new(SlotSet::ALL);
    let mut peer = node.silent_session(Caller::Trusted).await.unwrap();
    peer.say(&ToNode::Hello(Spoken::new(1, 9).unwrap())).await;
    assert!(
        matches!(peer.next().await.unwrap(), FromNode::Welcome { protocol, .. } if protocol.number() == 1)
    );
}

#[tokio::test(start_paused = true)]
async fn only_proxies_have_sessions() {
    let node = Node::new(SlotSet::ALL);
    let refused = node.silent_session(Caller::Shard { index: 0, count: 4 }).await;
    assert_eq!(refused.err().unwrap().code(), Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn what_is_learned_is_told_before_the_frontier_of_the_list() {
    let node = Node::new(SlotSet::ALL);
    let pods = node.mirror("pods", 1);
    let mut peer = node.session().await;
    assert!(peer.attach("pods").await.facts.is_none());
    for said in ["history 0", "(0, 0]"] {
        assert_eq!(peer.said().await, said);
    }
    pods.facts.send_replace(Some(facts("PodList")));
    pods.list(10, Vec::new());
    let learned = loop {
        match peer.next().await.unwrap() {
            FromNode::Learned(mirror, facts) => break (mirror.get(), facts.list_kind),
            FromNode::Flush(parts) => assert!(parts.is_empty()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(learned, (1, "PodList".into()));
    for said in ["(0, 10]", "floor 10"] {
        assert_eq!(peer.said().await, said);
    }
    let mut later = node.session().await;
    assert_eq!(&*later.attach("pods").await.facts.unwrap().list_kind, "PodList");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_takes_its_time_holds_up_no_other() {
    let (node, pods) = Node::with_pods(Vec::new());
    node.mirrors.announce(resource("slows"));
    let mut peer = node.session().await;
    peer.say(&ToNode::Attach(resource("slows"))).await;
    assert_eq!(peer.attach("pods").await.mirror.get(), 1);
    for said in ["history 0", "(10, 10]", "floor 10"] {
        assert_eq!(peer.said().await, said);
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    pods.state((10, 11), Vec::new());
    assert_eq!(peer.said().await, "(10, 11]");
    node.mirror("slows", 2);
    let attached = loop {
        match peer.next().await.unwrap() {
            FromNode::Attached(attached) => break attached,
            FromNode::Flush(parts) => assert!(parts.is_empty()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(attached.mirror.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_mirror_that_ends_is_told_and_may_come_back_under_another_number() {
    let (node, _pods) = Node::with_pods(Vec::new());
    let (mut peer, _) = node.session_of("pods").await;
    node.mirrors.remove(&resource("pods"));
    let reason = loop {
        match peer.next().await.unwrap() {
            FromNode::Unmirrored { mirror, reason } if mirror == resource("pods") => break reason,
            FromNode::Flush(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reason, Unmirrored::NotServed);
    // What crossed that news is for nobody.
    peer.open(MirrorNumber::new(1).unwrap(), 5, 9).await;
    peer.credit(MirrorNumber::new(1).unwrap(), 5, 9).await;
    node.mirror("pods", 2).list(30, Vec::new());
    assert_eq!(peer.attach("pods").await.mirror.get(), 2);
    for said in ["history 0", "(30, 30]", "floor 30"] {
        assert_eq!(peer.said().await, said);
    }
}

#[tokio::test(start_paused = true)]
async fn slots_that_are_not_held_are_refused_one_by_one() {
    let node = Node::new(SlotSet::of_shard(0, 2));
    let pods = node.mirror("pods", 1);
    pods.list(10, Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    for (id, slots) in [(1, SlotSet::ALL), (2, SlotSet::of_shard(1, 2)), (3, SlotSet::of_shard(1, 4))] {
        let open = open(mirror, id, (Interest::everything(), slots, 9));
        peer.say(&ToNode::Open(open)).await;
    }
    for said in ["not mine 1", "not mine 2", "live 3 at 10"] {
        assert_eq!(peer.said().await, said);
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_hangs_up_leaves_nothing_behind() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 9).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    assert_eq!(pods.cell().registered(SessionId(1), OpenId(1)).count, 1);
    drop(peer);
    forgotten(&pods, 1).await;
    let mut other = node.session().await;
    other.attach("pods").await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stops_says_so() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 9).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    node.lifecycle.stop(StopCause::Asked);
    let status = peer.end().await;
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the process stops"));
    forgotten(&pods, 1).await;
    let stopped = node.lifecycle.stopped(Duration::from_secs(5)).await;
    assert!(stopped.left.is_empty(), "{stopped:?}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_no_more_is_left_and_the_store_goes_on() {
    let (node, pods) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    peer.open(mirror, 1, 1_000_000).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    for at in 11..15_000 {
        pods.state((at - 1, at), vec![Pod::new("ns", "a", "u").put(at)]);
        tokio::time::sleep(Duration::from_millis(1)).await;
        if pods.cell().registered(SessionId(1), OpenId(1)).count == 0 {
            break;
        }
    }
    let at = pods.cell().window().unwrap().frontier.get();
    assert!((9_000..12_000).contains(&at), "left after some 10 s and {at} events");
    let status = peer.end().await;
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(status.message(), "the peer has taken no message for 10 s");
}
