//! Merges, message by message. The traces of the protocol are played with real nodes elsewhere; here nodes are words.

use weir_core::interest::Scope;
use weir_core::message::EventKind;
use weir_core::selector::LabelSelector;
use weir_core::shard_selector::ShardSelector;
use weir_core::statement::SourceId;

mod replicas;

use super::*;
use crate::hub::tests::event;

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

/// One node a shard, each of which has come to 1.
fn merges(nodes: usize, credit: u32) -> Merges {
    let shards = (0..nodes).map(|index| SlotSet::of_shard(index, nodes));
    let mut merges = Merges::new(shards.clone().collect(), Credit(credit));
    for (index, slots) in shards.enumerate() {
        merges.on_session(NodeIndex(index), slots);
        merges.on_node(NodeIndex(index), said(0, 1, &[]));
    }
    merges
}

/// Two shards with two replicas each: nodes 0 and 2 hold the first, 1 and 3 the second. All have come to 1; the first two are
/// ahead by a revision and so are chosen.
fn replicated() -> Merges {
    let shards: Vec<_> = (0..2).map(|index| SlotSet::of_shard(index, 2)).collect();
    let mut merges = Merges::new(shards.clone(), Credit(9));
    for index in 0..4 {
        merges.on_session(NodeIndex(index), shards[index % 2]);
        merges.on_node(NodeIndex(index), said(0, if index < 2 { 2 } else { 1 }, &[]));
    }
    merges
}

fn said(after: u64, to: u64, events: &[(u64, OpenId)]) -> FromNode {
    let deliveries = events.iter().map(|(at, open)| Delivery {
        rv: rv(*at),
        present: Some(event(*at, 0).object),
        gone: None,
        tags: vec![(*open, EventKind::Added)],
    });
    FromNode::Said(Statement::new(SourceId(1), rv(after), rv(to), deliveries.collect()).unwrap())
}

fn opens(outputs: &[Output]) -> Vec<(NodeIndex, Open)> {
    let opens = outputs.iter().filter_map(|output| match output {
        Output::Send(node, ToNode::Open(open)) => Some((*node, open.clone())),
        _ => None,
    });
    opens.collect()
}

fn released(outputs: &[Output]) -> Vec<u64> {
    let events = outputs.iter().filter_map(|output| match output {
        Output::Release(_, events) => Some(events.iter().map(|event| event.rv.get())),
        _ => None,
    });
    events.flatten().collect()
}

fn asked(node: usize, interest: InterestId, shard: usize) -> Asked {
    Asked { node: NodeIndex(node), interest, shard: ShardIndex(shard) }
}

fn everything() -> Arc<Interest> {
    Arc::new(Interest::everything())
}

/// Opens everything at `after` and makes it live there.
fn live(merges: &mut Merges, after: u64) -> (InterestId, Vec<OpenId>) {
    let (id, outputs) = merges.open(everything(), rv(after));
    let opens = opens(&outputs);
    for (node, open) in &opens {
        assert!(merges.on_node(*node, FromNode::Live { id: open.id, at: rv(after) }).is_empty());
    }
    (id, opens.into_iter().map(|(_, open)| open.id).collect())
}

#[test]
fn the_ranges_of_an_interest_cover_it_and_do_not_overlap() {
    let ranges =
        ["'0x0000000000000000', '0x10000000000000000'", "'0x3100000000000000', '0x3180000000000000'"];
    for (nodes, range) in [1, 3, 16].into_iter().flat_map(|nodes| ranges.map(|range| (nodes, range))) {
        let shard = ShardSelector::parse(&format!("shardRange(object.metadata.uid, {range})")).unwrap();
        let interest = Interest::new(Scope::default(), LabelSelector::everything(), Vec::new(), Some(shard));
        let wanted = interest.slots();
        let mut merges = merges(nodes, 9);
        let (_, outputs) = merges.open(Arc::new(interest), rv(1));
        let mut covered = SlotSet::EMPTY;
        for (node, open) in opens(&outputs) {
            assert!(SlotSet::of_shard(node.0, nodes).covers(&open.slots), "asked of who holds it");
            assert!(covered.intersection(&open.slots).is_empty() && !open.slots.is_empty());
            covered = covered.union(&open.slots);
        }
        assert_eq!(covered, wanted, "{nodes} {range}");
    }
}

#[test]
fn an_event_waits_until_every_range_has_come_as_far() {
    let mut merges = merges(3, 9);
    let (id, open) = live(&mut merges, 1);
    assert!(merges.awaited().is_empty());
    assert_eq!(released(&merges.on_node(NodeIndex(0), said(1, 5, &[(2, open[0]), (4, open[0])]))), [0; 0]);
    assert_eq!(merges.awaited(), [(NodeIndex(1), rv(4)), (NodeIndex(2), rv(4))].into());
    assert_eq!(released(&merges.on_node(NodeIndex(1), said(1, 3, &[(3, open[1])]))), [0; 0]);
    assert_eq!(released(&merges.on_node(NodeIndex(2), said(1, 9, &[(9, open[2])]))), [2, 3]);
    assert_eq!(merges.frontier_of(id), Some(rv(3)));
    assert_eq!(merges.awaited(), [(NodeIndex(0), rv(9)), (NodeIndex(1), rv(9))].into());
    assert_eq!(released(&merges.on_node(NodeIndex(1), said(3, 9, &[]))), [4]);
    assert_eq!(merges.awaited(), [(NodeIndex(0), rv(9))].into());
    assert_eq!(released(&merges.on_node(NodeIndex(0), said(5, 9, &[(8, open[0])]))), [8, 9]);
    assert!(merges.awaited().is_empty());
    merges.check(0);
}

#[test]
fn an_interest_without_events_costs_nothing_when_a_frontier_moves() {
    let mut merges = merges(2, 9);
    let ids: Vec<_> = (0..100).map(|_| live(&mut merges, 1).0).collect();
    for node in 0..2 {
        assert!(merges.on_node(NodeIndex(node), said(1, 7, &[])).is_empty());
    }
    assert!(ids.iter().all(|id| merges.frontier_of(*id) == Some(rv(7))));
}

#[test]
fn credit_is_given_back_in_halves() {
    let mut merges = merges(1, 8);
    let (_, open) = live(&mut merges, 1);
    let mut given = Vec::new();
    for at in 2..18 {
        let outputs = merges.on_node(NodeIndex(0), said(at - 1, at, &[(at, open[0])]));
        given.extend(outputs.into_iter().filter_map(|output| match output {
            Output::Send(_, ToNode::Credit(_, Credit(more))) => Some(more),
            _ => None,
        }));
    }
    assert_eq!(given, [4; 4], "sixteen events, four messages");
}

#[test]
fn a_skipped_event_gives_its_credit_back() {
    let mut merges = merges(1, 2);
    let (_, outputs) = merges.open(everything(), rv(9));
    let (node, open) = opens(&outputs).remove(0);
    merges.on_node(node, FromNode::Live { id: open.id, at: rv(1) });
    // The client is ahead of the node; what the node says up to there is known.
    let outputs = merges.on_node(node, said(1, 2, &[(2, open.id)]));
    assert!(matches!(outputs.as_slice(), [Output::Send(_, ToNode::Credit(_, Credit(1)))]), "{outputs:?}");
    assert_eq!(released(&merges.on_node(node, said(2, 12, &[(9, open.id), (12, open.id)]))), [12]);
}

#[test]
fn closing_tells_every_node_and_later_words_mean_nothing() {
    let mut merges = merges(2, 9);
    let (id, open) = live(&mut merges, 1);
    let outputs = merges.close(id);
    let closes = outputs.iter().filter(|output| matches!(output, Output::Send(_, ToNode::Close(_))));
    assert_eq!((closes.count(), outputs.len(), merges.len()), (2, 2, 0));
    assert!(merges.on_node(NodeIndex(0), said(1, 3, &[(2, open[0])])).is_empty());
    assert!(merges.on_node(NodeIndex(0), FromNode::Left { id: open[0], at: rv(3) }).is_empty());
    assert!(merges.on_log(asked(0, id, 0), Err(Unanswered::Empty)).is_empty());
    assert!(merges.close(id).is_empty());
    merges.check(0);
}

#[test]
fn too_old_ends_the_interest_everywhere_when_no_other_node_can_lead_on() {
    let mut merges = merges(2, 9);
    let (id, open) = live(&mut merges, 1);
    let outputs = merges.on_node(NodeIndex(1), FromNode::TooOld(open[1]));
    assert!(matches!(outputs.last(), Some(Output::Ended(ended, End::TooOld)) if *ended == id));
    assert!(outputs.iter().any(|output| matches!(output, Output::Send(NodeIndex(0), ToNode::Close(_)))));
    assert!(merges.is_empty());
    merges.check(0);
}

#[test]
fn who_does_not_hold_what_it_said_is_no_replica() {
    let mut merges = merges(2, 9);
    let (_, open) = live(&mut merges, 1);
    merges.on_node(NodeIndex(1), FromNode::NotMine(open[1]));
    assert_eq!((merges.holes(), merges.len()), (vec![ShardIndex(1)], 1), "the interest waits");
    merges.check(0);
}

#[test]
fn the_frontier_falls_only_when_history_goes_back() {
    let shards: Vec<_> = (0..2).map(|index| SlotSet::of_shard(index, 2)).collect();
    let mut merges = Merges::new(shards.clone(), Credit(9));
    assert_eq!(merges.frontier(), rv(0));
    merges.on_session(NodeIndex(0), shards[0]);
    merges.on_node(NodeIndex(0), said(0, 50, &[]));
    assert_eq!((merges.frontier(), merges.holes()), (rv(0), vec![ShardIndex(1)]));
    merges.on_session(NodeIndex(1), shards[1]);
    merges.on_node(NodeIndex(1), said(0, 40, &[]));
    assert_eq!((merges.frontier(), merges.holes()), (rv(40), Vec::new()));
    let (id, _) = live(&mut merges, 40);
    merges.on_session(NodeIndex(1), shards[1]);
    merges.on_node(NodeIndex(1), said(0, 30, &[]));
    assert_eq!(
        (merges.frontier(), merges.frontier_of(id)),
        (rv(40), Some(rv(40))),
        "the new session is behind"
    );
    let (early, _) = live(&mut merges, 30);
    let why = "what the old session said does not count on the new one";
    assert_eq!(merges.frontier_of(early), Some(rv(30)), "{why}");
    let outputs =
        merges.on_node(NodeIndex(0), FromNode::Restored { highest: rv(50), history: History::new(1) });
    assert!(
        matches!(outputs.as_slice(), [.., Output::Ended(_, End::Restored), Output::Restored(highest)] if *highest == rv(50))
    );
    assert_eq!((merges.frontier(), merges.len()), (rv(0), 0));
    // A node that has not noticed serves nothing, and one that has says so once.
    merges.on_node(NodeIndex(1), said(30, 60, &[]));
    merges.on_node(NodeIndex(0), said(0, 7, &[]));
    assert_eq!((merges.frontier(), merges.holes()), (rv(0), vec![ShardIndex(1)]));
    let outputs =
        merges.on_node(NodeIndex(1), FromNode::Restored { highest: rv(60), history: History::new(1) });
    let why = "somebody may have been shown what this node had come to";
    assert!(
        matches!(outputs.as_slice(), [Output::Refused(highest)] if *highest == rv(60)),
        "{why}: {outputs:?}"
    );
    let outputs =
        merges.on_node(NodeIndex(1), FromNode::Restored { highest: rv(60), history: History::new(1) });
    assert!(outputs.is_empty(), "{outputs:?}");
    merges.on_node(NodeIndex(1), said(0, 8, &[]));
    assert_eq!((merges.frontier(), merges.holes()), (rv(7), Vec::new()));
}

#[test]
fn f9_a_quiet_range_keeps_what_its_old_session_had_said() {
    let mut merges = merges(1, 9);
    let (id, _) = live(&mut merges, 1);
    merges.on_node(NodeIndex(0), said(1, 100, &[]));
    merges.on_session(NodeIndex(0), SlotSet::ALL);
    assert_eq!(merges.frontier_of(id), Some(rv(100)));
    let outputs = merges.on_node(NodeIndex(0), said(0, 100, &[]));
    let (node, open) = opens(&outputs).remove(0);
    let outputs = merges.on_node(node, FromNode::Live { id: open.id, at: rv(100) });
    assert!(outputs.is_empty(), "nothing of (1, 100] is fetched again: {outputs:?}");
}

#[test]
fn a_lost_node_is_followed_by_a_replica_from_the_position_of_the_range() {
    let mut merges = replicated();
    let (id, open) = live(&mut merges, 2);
    merges.on_node(NodeIndex(0), said(2, 9, &[(5, open[0])]));
    let outputs = merges.on_session_lost(NodeIndex(0));
    let moved = opens(&outputs);
    assert_eq!(moved.len(), 1, "one range has moved: {outputs:?}");
    assert_eq!((moved[0].0, merges.moves()), (NodeIndex(2), 1));
    // The replica is behind; what it says again up to 9 is known, and the buffered event is released once.
    merges.on_node(NodeIndex(2), FromNode::Live { id: moved[0].1.id, at: rv(3) });
    assert_eq!(released(&merges.on_node(NodeIndex(2), said(3, 8, &[(5, moved[0].1.id)]))), [0; 0]);
    assert_eq!(released(&merges.on_node(NodeIndex(1), said(2, 20, &[(7, open[1])]))), [5, 7]);
    assert_eq!((merges.frontier_of(id), merges.frontier()), (Some(rv(9)), rv(8)));
    assert_eq!(released(&merges.on_node(NodeIndex(2), said(8, 12, &[(11, moved[0].1.id)]))), [11]);
    merges.check(0);
}

#[test]
fn the_frontier_stays_where_it_was_when_the_furthest_replica_is_lost() {
    let mut merges = replicated();
    merges.on_node(NodeIndex(0), said(2, 50, &[]));
    merges.on_node(NodeIndex(1), said(2, 60, &[]));
    assert_eq!(merges.frontier(), rv(50));
    merges.on_session_lost(NodeIndex(0));
    assert_eq!(merges.frontier(), rv(50));
    let (id, _) = merges.open(everything(), rv(50));
    assert_eq!(merges.frontier_of(id), Some(rv(50)), "the replica has yet to come there");
    merges.on_node(NodeIndex(2), said(1, 70, &[]));
    assert_eq!(merges.frontier(), rv(60));
}

#[test]
fn a_replica_is_asked_before_an_interest_is_too_old() {
    let mut merges = replicated();
    let (id, outputs) = merges.open(everything(), rv(1));
    let first = opens(&outputs);
    let outputs = merges.on_node(first[0].0, FromNode::Live { id: first[0].1.id, at: rv(2) });
    assert!(matches!(outputs.as_slice(), [Output::AskLog(..)]), "{outputs:?}");
    let outputs = merges.on_log(asked(0, id, 0), Err(Unanswered::TooOld { floor: rv(2) }));
    let second = opens(&outputs);
    assert_eq!(second[0].0, NodeIndex(2), "{outputs:?}");
    assert!(matches!(outputs[0], Output::Send(NodeIndex(0), ToNode::Close(_))));
    merges.check(0);
    // Late words of the first one mean nothing; when the second refuses too, nobody can lead on.
    assert!(merges.on_log(asked(0, id, 0), Err(Unanswered::TooOld { floor: rv(9) })).is_empty());
    let outputs = merges.on_node(NodeIndex(2), FromNode::TooOld(second[0].1.id));
    assert!(matches!(outputs.last(), Some(Output::Ended(ended, End::TooOld)) if *ended == id), "{outputs:?}");
    merges.check(0);
}

#[test]
fn a_node_that_others_went_on_without_is_left_and_taken_again_when_it_has_caught_up() {
    let mut merges = replicated();
    let (_, open) = live(&mut merges, 2);
    merges.on_node(NodeIndex(2), said(1, 40, &[]));
    let outputs = merges.avoid(NodeIndex(0));
    assert_eq!(opens(&outputs)[0].0, NodeIndex(2));
    assert!(matches!(outputs[0], Output::Send(NodeIndex(0), ToNode::Close(closed)) if closed == open[0]));
    assert!(merges.on_node(NodeIndex(0), said(2, 30, &[(30, open[0])])).is_empty(), "it means nothing");
    merges.check(0);
    // It is all that there is when the other one is lost.
    assert_eq!(opens(&merges.on_session_lost(NodeIndex(2)))[0].0, NodeIndex(0));
    merges.check(0);
}

#[test]
fn an_interest_waits_for_a_shard_without_a_node() {
    let mut merges = merges(2, 9);
    let (id, _) = live(&mut merges, 1);
    assert!(merges.on_session_lost(NodeIndex(1)).is_empty());
    assert_eq!((merges.holes(), merges.frontier_of(id)), (vec![ShardIndex(1)], Some(rv(1))));
    let outputs = merges.on_session(NodeIndex(7), SlotSet::of_shard(1, 2));
    assert!(outputs.is_empty(), "it may hold nothing: {outputs:?}");
    assert_eq!(opens(&merges.on_node(NodeIndex(7), said(0, 5, &[])))[0].0, NodeIndex(7));
    merges.check(0);
}
