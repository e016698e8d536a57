//! Going on at another replica: from one that is ahead or behind, with events that wait, and while the old one still speaks.
//! A range keeps its position and its buffer; what an old registration says means nothing, whenever it comes.

use weir_core::ObjectKey;
use weir_core::message::{FromNode, ToNode};

use crate::script::{Script, rv};

/// What the proxy is about to tell a node, in words.
fn under_way(script: &Script, node: usize) -> Vec<&'static str> {
    let words = script.to_nodes[node].iter().map(|message| match message {
        ToNode::Open(_) => "open",
        ToNode::Close(_) => "close",
        ToNode::Credit(..) => "credit",
        ToNode::OpenNames(..) | ToNode::Names(_) => "names",
    });
    words.collect()
}

/// Two shards with two replicas each. The event at 2 of shard 0 waits for shard 1, which is at 1.
fn one_waits() -> (Script, weir_proxy::merge::InterestId) {
    let (mut script, id) = Script::replicated(2, 8);
    script.let_one_wait();
    (script, id)
}

#[test]
fn f9_an_event_that_waits_is_released_once_when_its_replica_is_lost() {
    let (mut script, id) = one_waits();
    script.feed(2, 2);
    script.lose(0);
    assert_eq!(under_way(&script, 2), ["open"]);
    script.talk(2);
    script.feed(1, 2);
    script.hear(1);
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
    assert!(script.asks.is_empty(), "nothing before its position is fetched");
}

#[test]
fn f9_a_late_message_of_the_replica_that_was_left_moves_nothing() {
    let (mut script, id) = one_waits();
    script.write(0, "b");
    script.feed(0, 3);
    script.avoid(0);
    assert_eq!((under_way(&script, 0), under_way(&script, 2)), (vec!["close"], vec!["open"]));
    script.hear(0);
    script.feed(1, 3);
    script.hear(1);
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]), "(2, 3] was not taken");
    script.feed(2, 3);
    script.talk(2);
    while !script.asks.is_empty() {
        script.answer();
    }
    assert_eq!((script.promised(id), script.released.as_slice()), (3, &[2, 3][..]));
}

#[test]
fn f9_a_late_event_of_the_replica_that_was_left_does_not_cover_the_one_before_it() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write(0, "a");
    script.feed(0, 2);
    script.write(0, "b");
    script.feed(0, 3);
    script.avoid(0);
    // The event at 2 comes while nobody is registered, the one at 3 once the other replica leads.
    script.hear_one(0);
    script.talk(1);
    script.hear_one(0);
    assert_eq!((script.promised(id), script.released.as_slice()), (1, &[][..]));
    script.feed(1, 3);
    script.hear(1);
    assert_eq!((script.promised(id), script.released.as_slice()), (3, &[2, 3][..]));
}

#[test]
fn f9_what_waited_for_the_log_is_fetched_again_elsewhere() {
    let (mut script, _) = Script::replicated(1, 8);
    script.write(0, "a");
    script.feed(0, 2);
    script.hear(0);
    let behind = script.open(1);
    script.talk(0);
    script.write(0, "b");
    script.feed(0, 3);
    script.hear(0);
    assert_eq!((script.promised(behind), script.asks.len()), (1, 1), "the event at 3 waits for the one at 2");
    script.asks.clear();
    script.feed(1, 3);
    script.lose(0);
    script.talk(1);
    script.answer();
    assert_eq!((script.promised(behind), script.released.as_slice()), (3, &[2, 3, 2, 3][..]));
}

#[test]
fn f10_a_node_that_comes_back_with_less_has_not_said_what_it_said_before() {
    let (mut script, _) = Script::replicated(1, 8);
    script.write_pods(0, 0..3);
    script.feed(0, 4);
    script.hear(0);
    script.lose(1);
    script.crash(0);
    script.released.clear();
    script.list_at(0, rv(2));
    script.attach(0);
    script.hear(0);
    let late = script.open(2);
    script.talk(0);
    assert_eq!((script.promised(late), script.merges.frontier()), (2, rv(4)), "nothing of (2, 4] has come");
    script.feed(0, 4);
    script.hear(0);
    assert_eq!((script.promised(late), script.released.as_slice()), (4, &[3, 4][..]));
}

#[test]
fn a_range_ahead_of_the_replica_that_it_moves_to_waits_for_it() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write_pods(0, 0..3);
    script.feed(0, 4);
    script.hear(0);
    script.lose(0);
    script.talk(1);
    assert_eq!((script.promised(id), script.merges.frontier()), (4, rv(4)), "the replica is at 1");
    script.feed(1, 3);
    script.hear(1);
    assert_eq!((script.promised(id), script.released.as_slice()), (4, &[2, 3, 4][..]), "nothing comes twice");
    script.write(0, "a");
    script.feed(1, 5);
    script.hear(1);
    assert_eq!((script.promised(id), script.released.as_slice()), (5, &[2, 3, 4, 5][..]));
    assert!(script.asks.is_empty(), "a log of what the range has is not asked for");
}

#[test]
fn f10_what_another_replica_has_said_does_not_count_for_the_range() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write(0, "a");
    script.feed(1, 2);
    script.hear(1);
    assert_eq!((script.promised(id), script.merges.frontier()), (1, rv(2)), "it follows the other one");
    script.lose(0);
    assert_eq!(script.promised(id), 1, "nothing of (1, 2] is fetched");
    script.talk(1);
    assert_eq!(script.promised(id), 1);
    script.answer();
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
}

#[test]
fn two_moves_and_back_while_every_old_message_is_alive() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write(0, "a");
    script.feed(0, 2);
    script.hear(0);
    script.write(0, "b");
    script.feed(0, 3);
    // The event at 3 is under way from the first replica when it is left, and still is when the range comes back.
    script.avoid(0);
    assert_eq!(under_way(&script, 1), ["open"]);
    script.arrive(1);
    script.feed(1, 2);
    assert!(matches!(script.from_nodes[1].front(), Some(FromNode::Live { at, .. }) if *at == rv(1)));
    script.avoid(1);
    assert_eq!((under_way(&script, 0), under_way(&script, 1)), (vec!["close", "open"], vec!["close"]));
    script.hear(0);
    script.hear(1);
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]), "both spoke to nobody");
    script.write(0, "c");
    script.feed(0, 4);
    script.hear(0);
    assert_eq!(script.promised(id), 2, "the registration that this was said to is over");
    script.talk(0);
    script.talk(1);
    while !script.asks.is_empty() {
        script.answer();
    }
    assert_eq!((script.promised(id), script.released.as_slice()), (4, &[2, 3, 4][..]));
    assert_eq!(
        (script.nodes[0].interests(), script.nodes[1].interests()),
        (1, 0),
        "no registration is left over"
    );
}

#[test]
fn g6_the_live_of_a_registration_that_was_left_means_nothing_to_the_next_one_at_the_same_node() {
    let (mut script, id) = Script::replicated(1, 8);
    script.lose_session(0);
    script.feed(1, 1);
    script.talk(1);
    script.avoid(1);
    script.arrive(0);
    let is_live = |said: &FromNode| matches!(said, FromNode::Live { at, .. } if *at == rv(1));
    assert!(script.from_nodes[0].iter().any(is_live), "on its way");
    // The range goes away and comes back; the node hears of the first, and an event passes that nobody is registered for.
    script.write(0, "a");
    script.feed(1, 2);
    script.hear(1);
    script.avoid(0);
    script.lose(1);
    assert_eq!(under_way(&script, 0), ["close", "open"]);
    script.arrive(0);
    script.feed(0, 2);
    script.hear(0);
    assert_eq!(script.promised(id), 1, "the old Live and the frontier behind it do not go together");
    script.talk(0);
    script.answer();
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
}

#[test]
fn g3_the_log_is_asked_of_the_replica_that_said_where_the_registration_begins() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write(0, "a");
    script.feed(0, 2);
    script.hear(0);
    let behind = script.open(1);
    script.talk(0);
    let late = script.asks.pop_front().expect("the log before 2 is missing");
    assert_eq!((late.asked.node.0, late.request.to), (0, rv(2)));
    script.lose(0);
    script.talk(1);
    assert!(script.asks.is_empty(), "the other replica begins at 1, and so does the client");
    assert_eq!((script.promised(behind), script.promised(id)), (1, 2));
    // The answer was under way: it is a statement, and as true as before.
    let answer = script.nodes[0].store().log(&late.request);
    script.give(&late, answer);
    assert_eq!(script.promised(behind), 2);
    script.feed(1, 2);
    script.hear(1);
    assert_eq!(script.released, [2, 2], "once for each of the two interests");
}

#[test]
fn f8_a_replica_that_listed_alone_leads_nobody_across_the_gap() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write(0, "a");
    script.write(0, "b");
    script.upstream.delete(&ObjectKey::new("ns", "b"));
    script.list(0);
    script.feed(1, 4);
    script.hear(0);
    assert_eq!((under_way(&script, 1), script.too_old.len()), (vec!["open"], 0));
    script.talk(1);
    script.answer();
    assert_eq!(
        (script.promised(id), script.released.as_slice()),
        (4, &[2, 3, 4][..]),
        "also what came and went"
    );
}

#[test]
fn f8_a_list_behind_the_position_of_a_range_takes_nothing_from_it() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write_pods(0, 0..4);
    script.feed(0, 5);
    script.hear(0);
    script.lose(0);
    script.talk(1);
    script.list_at(1, rv(3));
    script.talk(1);
    assert_eq!(
        (script.promised(id), script.too_old.len()),
        (5, 0),
        "the list is older than what the range has"
    );
    script.feed(1, 5);
    script.write(0, "a");
    script.feed(1, 6);
    script.talk(1);
    assert_eq!((script.promised(id), script.released.as_slice()), (6, &[2, 3, 4, 5, 6][..]));
}

#[test]
fn an_interest_is_too_old_when_the_last_replica_has_said_so() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write(0, "a");
    script.list(0);
    script.hear(0);
    assert!(script.too_old.is_empty());
    script.arrive(1);
    script.list(1);
    script.hear(1);
    assert_eq!((script.too_old.as_slice(), script.released.as_slice()), (&[id][..], &[][..]));
}

#[test]
fn a_refusal_counts_for_the_position_that_was_refused() {
    let (mut script, id) = Script::replicated(1, 8);
    script.write(0, "a");
    script.list(0);
    script.hear(0);
    script.talk(1);
    script.feed(1, 2);
    script.hear(1);
    assert_eq!(script.released, [2]);
    script.lose(1);
    script.write(0, "b");
    script.feed(0, 3);
    script.talk(0);
    while !script.asks.is_empty() {
        script.answer();
    }
    assert_eq!(
        (script.promised(id), script.released.as_slice()),
        (3, &[2, 3][..]),
        "2 is the list's own revision"
    );
}
