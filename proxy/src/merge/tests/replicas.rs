//! What a range believes of the replicas that it could follow: who refused it, until when, and who may be asked again.

use super::*;

#[test]
fn a_replica_that_begins_anew_behind_the_range_leads_it_on() {
    let mut merges = replicated();
    let (id, _) = live(&mut merges, 2);
    merges.on_node(NodeIndex(0), said(2, 9, &[]));
    let (node, open) = opens(&merges.on_session_lost(NodeIndex(0))).remove(0);
    merges.on_node(node, FromNode::Live { id: open.id, at: rv(1) });
    // It is behind and lists at 7; the range is at 9, of which the list leaves nothing out.
    let (again, open) = opens(&merges.on_node(node, FromNode::TooOld(open.id))).remove(0);
    assert_eq!((node, again), (NodeIndex(2), NodeIndex(2)));
    assert!(merges.on_node(node, said(1, 7, &[])).is_empty());
    assert!(merges.on_node(node, FromNode::Live { id: open.id, at: rv(7) }).is_empty(), "nothing is missing");
    merges.on_node(node, said(7, 12, &[]));
    merges.on_node(NodeIndex(1), said(2, 20, &[]));
    assert_eq!(merges.frontier_of(id), Some(rv(12)));
    merges.check(0);
}

#[test]
fn a_log_that_is_not_held_ends_nothing_and_is_asked_for_again() {
    let mut merges = merges(1, 9);
    merges.on_node(NodeIndex(0), said(1, 5, &[]));
    let (id, outputs) = merges.open(everything(), rv(1));
    let (node, open) = opens(&outputs).remove(0);
    merges.on_node(node, FromNode::Live { id: open.id, at: rv(5) });
    assert!(merges.on_log(asked(0, id, 0), Err(Unanswered::NotMine)).is_empty());
    assert!(matches!(merges.ask_again().as_slice(), [Output::AskLog(..)]));
    assert_eq!(merges.holes(), Vec::new());
    merges.check(0);
}

#[test]
fn a_refusal_ends_with_the_session_of_who_refused() {
    let mut merges = replicated();
    let (id, outputs) = merges.open(everything(), rv(1));
    let first = opens(&outputs).remove(0);
    merges.on_node(first.0, FromNode::Live { id: first.1.id, at: rv(2) });
    let outputs = merges.on_log(asked(0, id, 0), Err(Unanswered::TooOld { floor: rv(2) }));
    assert_eq!((first.0, opens(&outputs)[0].0), (NodeIndex(0), NodeIndex(2)));
    // The first one comes back, with what another replica gave it, before the second is lost.
    merges.on_session(NodeIndex(0), SlotSet::of_shard(0, 2));
    merges.on_node(NodeIndex(0), said(0, 3, &[]));
    let outputs = merges.on_session_lost(NodeIndex(2));
    assert_eq!(opens(&outputs)[0].0, NodeIndex(0), "{outputs:?}");
    merges.check(0);
}

#[test]
fn nothing_that_any_shard_has_said_may_be_resumed_after_a_restore() {
    let restored = FromNode::Restored { highest: rv(40), history: History::new(1) };
    for message in [restored, FromNode::History(History::new(1))] {
        let mut merges = merges(2, 9);
        merges.on_node(NodeIndex(0), said(1, 40, &[]));
        merges.on_node(NodeIndex(1), said(1, 60, &[]));
        let outputs = merges.on_node(NodeIndex(0), message);
        assert!(
            matches!(outputs.as_slice(), [Output::Restored(highest)] if *highest == rv(60)),
            "{outputs:?}"
        );
    }
}
