//! Who holds what: a node answers for the whole of what it is asked or not at all, and is a replica of a shard only if it
//! holds the whole of it.

use weir_core::interest::Scope;
use weir_core::message::{
    CountRequest, Credit, FromNode, LogRequest, Open, OpenId, SnapshotRequest, ToNode, Unanswered,
};
use weir_core::{History, SlotSet};
use weir_proxy::merge::ShardIndex;
use weir_shard_node::node::SessionId;
use weir_tests::model::Wanted;

use crate::script::{Script, pod_in, rv, wide};

const OTHER: SessionId = SessionId(9);

#[test]
fn f12_a_node_answers_for_all_that_it_is_asked_or_not_at_all() {
    let mut script = Script::new(2, 8);
    script.write(0, "a");
    script.feed(0, 2);
    let interest = Wanted::everything().interest;
    let (history, slots) = (History::FIRST, SlotSet::ALL);
    let store = script.nodes[0].store();
    let log = LogRequest { history, interest: interest.clone(), slots, after: rv(1), to: rv(2) };
    assert_eq!(store.log(&log).unwrap_err(), Unanswered::NotMine);
    let snapshot =
        SnapshotRequest { history, interest: interest.clone(), slots, at: rv(2), from: None, max_objects: 9 };
    assert_eq!(store.snapshot(&snapshot).unwrap_err(), Unanswered::NotMine);
    let count =
        CountRequest { history, scope: Scope::default(), slots, at: rv(2), from: None, at_most: usize::MAX };
    assert_eq!(store.count(&count).unwrap_err(), Unanswered::NotMine);
    script.nodes[0].attach(OTHER);
    let open = ToNode::Open(Open { id: OpenId(7), interest, slots, credit: Credit(1) });
    let said = script.nodes[0].on_session(OTHER, open);
    assert!(matches!(said.as_slice(), [(OTHER, FromNode::NotMine(OpenId(7)))]), "{said:?}");
    assert_eq!(script.nodes[0].interests(), 0);
}

/// Two shards; the nodes hold shard 0, shard 1 and half of shard 0.
fn half_held() -> Script {
    let shards: Vec<_> = (0..2).map(|index| SlotSet::of_shard(index, 2)).collect();
    let held = [shards[0], shards[1], SlotSet::of_shard(0, 4)];
    let mut script = Script::unconnected(shards, &held, (8, wide()));
    (0..3).for_each(|node| script.come(node));
    script
}

#[test]
fn f12_who_holds_a_part_of_a_shard_is_no_replica_of_it() {
    let mut script = half_held();
    let id = script.open(1);
    (0..2).for_each(|node| script.talk(node));
    assert!(script.to_nodes[2].is_empty());
    script.lose(0);
    assert_eq!(script.merges.holes(), [ShardIndex(0)], "the half that is there is no answer");
    let lost = pod_in(SlotSet::of_shard(1, 4), "a");
    script.upstream.put(lost);
    (1..3).for_each(|node| script.feed(node, 2));
    (1..3).for_each(|node| script.hear(node));
    assert_eq!((script.promised(id), script.too_old.len()), (1, 0), "it waits, and promises nothing");
    script.feed(0, 2);
    script.attach(0);
    script.talk(0);
    while !script.asks.is_empty() {
        script.answer();
    }
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
}

#[test]
fn f12_who_no_longer_holds_a_shard_is_left_for_one_that_does() {
    let (mut script, id) = Script::replicated(1, 8);
    script.lose_session(0);
    script.talk(1);
    // The node holds less than when the session began, and says so to the next registration.
    script.avoid(1);
    let Some(ToNode::Open(open)) = script.to_nodes[0].pop_front() else {
        panic!("a registration is on its way")
    };
    script.from_nodes[0].push_back(FromNode::NotMine(open.id));
    script.hear(0);
    script.talk(1);
    script.write(0, "a");
    script.feed(0, 2);
    script.hear(0);
    assert_eq!(script.promised(id), 1, "what it says counts for no range any more");
    script.feed(1, 2);
    script.talk(1);
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
}
