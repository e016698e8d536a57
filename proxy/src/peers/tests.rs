//! Peers against nodes of which every word is scripted: who comes and goes, who speaks another protocol, who hangs, and who
//! says what no node would say.

mod hostile;
mod scripted;

use tonic::Status;
use weir_core::GroupVersionResource;
use weir_core::object::ObjectSchema;
use weir_daemon::StopCause;
use weir_proto::session::{FromNode, MirrorNumber, ToNode};
use weir_proto::{Encoded, wire};

use super::*;
use scripted::{Node, Session, peers, until};

fn shard(index: usize) -> SlotSet {
    SlotSet::of_shard(index, 2)
}

/// Unknown field 1000 of any message, with the value 1.
const UNKNOWN: [u8; 3] = [0xc0, 0x3e, 0x01];

#[tokio::test]
async fn members_come_and_go_and_a_session_outlives_its_name() {
    let (peers, lifecycle) = peers(2);
    let (first, second) = (Node::start(), Node::start());
    let mut pace = Pace::default();
    assert_eq!(peers.holes(), [0, 1]);
    peers.follow(std::slice::from_ref(&first.address));
    let session = first.welcome(shard(0)).await;
    until("the first is there", || peers.sessions_up() == 1).await;
    assert_eq!(peers.holes(), [1]);
    let mut changed = peers.changed();
    peers.follow(&[first.address.clone(), second.address.clone()]);
    assert!(changed.has_changed().unwrap());
    changed.mark_unchanged();
    let _other = second.welcome(shard(1)).await;
    until("the second is there", || peers.holes().is_empty()).await;
    peers.follow(std::slice::from_ref(&second.address));
    changed.mark_unchanged();
    peers.compare(&mut pace);
    assert_eq!((peers.all().len(), peers.holes()), (2, Vec::new()), "its answers are as good as ever");
    drop(session);
    until("the first is gone", || peers.sessions_up() == 1).await;
    peers.compare(&mut pace);
    assert!(changed.has_changed().unwrap());
    assert_eq!((peers.all().len(), peers.holes(), peers.sessions_lost()), (1, vec![0], 1));
    peers.follow(&[first.address.clone(), second.address.clone()]);
    let _again = first.welcome(shard(0)).await;
    until("the first is back", || peers.holes().is_empty()).await;
    let indices: Vec<_> = peers.all().iter().map(|peer| peer.index()).collect();
    assert!(indices.contains(&1) && indices.contains(&2), "a number is not used again: {indices:?}");
    lifecycle.stop(StopCause::Asked);
}

#[tokio::test]
async fn ds01_a_node_that_comes_back_with_other_slots_is_no_node_of_its_old_ones() {
    let (peers, lifecycle) = peers(2);
    let node = Node::start();
    peers.follow(std::slice::from_ref(&node.address));
    for slots in [shard(0), shard(1), SlotSet::of_shard(1, 3), SlotSet::ALL] {
        let session = node.welcome(slots).await;
        until("a session", || peers.all()[0].slots() == Some(slots)).await;
        let holes: Vec<_> = (0..2).filter(|index| !slots.covers(&shard(*index))).collect();
        assert_eq!(peers.holes(), holes);
        drop(session);
        until("no session", || peers.sessions_up() == 0).await;
        assert_eq!(peers.holes(), [0, 1]);
    }
    lifecycle.stop(StopCause::Asked);
}

#[tokio::test]
async fn ds09_a_node_that_speaks_no_common_protocol_is_left_and_tried_again() {
    let (peers, lifecycle) = peers(1);
    let node = Node::start();
    peers.follow(std::slice::from_ref(&node.address));
    node.session().await.refuse(Status::failed_precondition("protocols 2 to 3 are spoken here")).await;
    // A welcome that chooses protocol 2, and one that chooses none.
    for chosen in [vec![0x0a, 0x02, 0x08, 0x02], vec![0x0a, 0x00]] {
        let session = node.session().await;
        session.say_bytes(chosen).await;
        session.left().await;
        assert_eq!((peers.sessions_up(), peers.sessions_lost()), (0, 0), "there was no session");
    }
    let _session = node.welcome(SlotSet::ALL).await;
    until("a session", || peers.sessions_up() == 1).await;
    lifecycle.stop(StopCause::Asked);
}

#[tokio::test]
async fn ds09_what_a_newer_node_says_besides_is_ignored() {
    let (peers, lifecycle) = peers(1);
    let node = Node::start();
    peers.follow(std::slice::from_ref(&node.address));
    let session = node.session().await;
    let encoded = |message: &FromNode| {
        let Encoded::Bytes(bytes) = Encoded::once(&wire::FromNode::from(message)) else { unreachable!() };
        bytes.to_vec()
    };
    session.say_bytes([encoded(&scripted::welcome(SlotSet::ALL)), UNKNOWN.to_vec()].concat()).await;
    until("a session", || peers.sessions_up() == 1).await;
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/tests/golden");
    let mut said = 1;
    for number in 1.. {
        let Ok(bytes) = std::fs::read(format!("{golden}/FromNode.{number}.bin")) else { break };
        let message =
            FromNode::read(Encoded::Bytes(bytes.clone().into()).open().unwrap(), &ObjectSchema::bare());
        if matches!(message, Ok(FromNode::Welcome { .. })) {
            continue;
        }
        session.say_bytes([bytes, UNKNOWN.to_vec()].concat()).await;
        said += 1;
    }
    assert!(said > 3, "the wire of the release before");
    until("all is heard", || peers.all()[0].beats() == said).await;
    assert_eq!((peers.sessions_up(), peers.sessions_lost()), (1, 0));
    lifecycle.stop(StopCause::Asked);
}

/// All beat once, and are heard.
async fn beat(peers: &Peers, sessions: &[&Session]) {
    let heard = |peers: &Peers| peers.all().iter().map(|peer| peer.beats()).sum::<u64>();
    let goal = heard(peers) + sessions.len() as u64;
    for session in sessions {
        session.beat().await;
    }
    until("the beats are heard", || heard(peers) >= goal).await;
}

#[tokio::test]
async fn a_node_that_says_nothing_is_left_while_others_beat_and_not_when_all_are_silent() {
    let (peers, lifecycle) = peers(1);
    let nodes = [Node::start(), Node::start(), Node::start()];
    let mut pace = Pace::default();
    let addresses: Vec<_> = nodes.iter().map(|node| node.address.clone()).collect();
    peers.follow(&addresses);
    let mut sessions = Vec::new();
    for node in &nodes {
        sessions.push(node.welcome(SlotSet::ALL).await);
    }
    until("three sessions", || peers.sessions_up() == 3).await;
    for _ in 0..30 {
        peers.compare(&mut pace);
    }
    beat(&peers, &sessions.iter().collect::<Vec<_>>()).await;
    assert_eq!((peers.sessions_up(), peers.sessions_lost()), (3, 0), "nobody is at fault");
    let mut steps = 0;
    while peers.sessions_lost() == 0 {
        assert!(steps < 40, "it is left after some steps");
        steps += 1;
        beat(&peers, &[&sessions[0], &sessions[1]]).await;
        peers.compare(&mut pace);
        tokio::task::yield_now().await;
    }
    assert!(steps >= 4, "not at the first silence: {steps}");
    let silent = sessions.pop().unwrap();
    silent.left().await;
    let _again = nodes[2].welcome(SlotSet::ALL).await;
    until("it is back", || peers.sessions_up() == 3).await;
    assert_eq!(peers.sessions_lost(), 1, "the others are as before");
    lifecycle.stop(StopCause::Asked);
}
