//! Joining an interest while the log goes on, and coming back to it.

use weir_core::message::{FromNode, ToNode, Unanswered};
use weir_core::statement::Statement;

use crate::script::{Script, rv, wide};

/// One node at 2, whose pod was written at 2; a client at 1 has opened everything and the node has heard of it.
fn one_behind() -> (Script, weir_proxy::merge::InterestId) {
    let mut script = Script::new(1, 8);
    script.write(0, "a");
    script.feed(0, 2);
    script.hear(0);
    let id = script.open(1);
    script.arrive(0);
    (script, id)
}

#[test]
fn f10_the_mirrors_frontier_does_not_count_for_an_interest_before_its_log_is_here() {
    let (mut script, id) = one_behind();
    script.hear(0);
    assert_eq!(script.promised(id), 1, "the session said 2, the event at 2 was not fetched yet");
    script.answer();
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
}

#[test]
fn f10_an_event_between_registration_and_replay_is_not_lost() {
    let (mut script, id) = one_behind();
    script.write(0, "b");
    script.feed(0, 3);
    script.hear(0);
    assert_eq!(script.released, [0; 0], "what is live waits for what lies before");
    script.answer();
    assert_eq!((script.promised(id), script.released.as_slice()), (3, &[2, 3][..]));
}

#[test]
fn g1_live_frontiers_count_only_from_where_the_position_has_reached_the_registration() {
    let mut script = Script::new(2, 8);
    script.write(0, "a");
    (0..2).for_each(|node| script.feed(node, 2));
    (0..2).for_each(|node| script.hear(node));
    let id = script.open(1);
    (0..2).for_each(|node| script.talk(node));
    assert_eq!(script.promised(id), 1, "both are live at 2, nothing is fetched");
    script.answer();
    assert_eq!(script.promised(id), 1, "one range is still at 1");
    script.answer();
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
}

#[test]
fn g2_registering_and_saying_where_are_one_step() {
    let mut script = Script::new(1, 8);
    let id = script.open(1);
    script.arrive(0);
    assert!(matches!(script.from_nodes[0].front(), Some(FromNode::Live { at, .. }) if *at == rv(1)));
    script.write(0, "a");
    script.feed(0, 2);
    script.hear(0);
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]), "the next event is said");
}

#[test]
fn g3_the_log_of_a_lagging_node_states_no_further_than_its_frontier() {
    let (mut script, id) = one_behind();
    script.hear(0);
    let ask = script.asks.pop_front().unwrap();
    let lagging = Script::new(1, 8);
    let short = lagging.nodes[0].store().log(&ask.request).unwrap();
    assert_eq!((short.after(), short.to()), (rv(1), rv(1)), "it stands at 1");
    script.give(&ask, Ok(short));
    assert_eq!(script.promised(id), 1);
    assert!(script.released.is_empty());
    script.answer();
    assert_eq!(script.released, [2], "asked again, and answered by one that has it");
}

#[test]
fn g4_the_floor_is_checked_for_every_answer_of_the_log() {
    let bounds = weir_core::WindowBounds { max_events: 2, ..wide() };
    let mut script = Script::with_bounds(1, 8, bounds);
    script.write_pods(0, 0..2);
    script.feed(0, 3);
    script.hear(0);
    let id = script.open(1);
    script.talk(0);
    let mut first = script.asks.pop_front().unwrap();
    // The first answer goes as far as 2; until the second one is asked for, the window moves past it.
    first.request.to = rv(2);
    let answer = script.nodes[0].store().log(&first.request);
    script.give(&first, answer);
    assert_eq!(script.released, [2]);
    script.write_pods(0, 2..6);
    script.feed(0, 7);
    let next = script.asks.pop_front().unwrap();
    assert_eq!(script.nodes[0].store().log(&next.request).unwrap_err(), Unanswered::TooOld { floor: rv(5) });
    script.give(&next, Err(Unanswered::TooOld { floor: rv(5) }));
    assert_eq!(script.too_old, [id], "ended, instead of going on behind a hole");
}

#[test]
fn g5_a_log_that_is_too_old_ends_the_interest_and_moves_nothing() {
    let (mut script, id) = one_behind();
    script.hear(0);
    let ask = script.asks.pop_front().unwrap();
    script.give(&ask, Err(Unanswered::TooOld { floor: rv(2) }));
    assert_eq!((script.too_old.as_slice(), script.released.as_slice()), (&[id][..], &[][..]));
    assert_eq!(script.merges.frontier_of(id), None);
    assert!(matches!(script.to_nodes[0].pop_front(), Some(ToNode::Close(_))));
}

#[test]
fn too_old_counts_for_the_position_it_was_asked_for() {
    let (mut script, id) = one_behind();
    script.hear(0);
    let ask = script.asks.pop_front().unwrap();
    let answer = script.nodes[0].store().log(&ask.request);
    script.give(&ask, answer);
    // The question was repeated, and its second answer comes when the window has moved past where it was asked.
    script.give(&ask, Err(Unanswered::TooOld { floor: rv(2) }));
    assert!(script.too_old.is_empty());
    assert_eq!(script.promised(id), 2);
}

#[test]
fn g6_a_live_of_an_earlier_registration_means_nothing() {
    let mut script = Script::new(1, 8);
    let id = script.open(1);
    script.arrive(0);
    let stale = script.from_nodes[0].pop_front().unwrap();
    assert!(matches!(stale, FromNode::Live { .. }));
    // The session is replaced before that Live is read; meanwhile an event passes that nobody is registered for.
    script.lose_session(0);
    script.write(0, "a");
    script.feed(0, 2);
    script.from_nodes[0].push_front(stale);
    script.hear(0);
    assert_eq!(script.promised(id), 1, "the frontier 2 does not count for a registration that is over");
    script.talk(0);
    script.answer();
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
}

#[test]
fn g6_ids_are_never_used_twice() {
    let mut script = Script::new(1, 8);
    script.open(1);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let Some(ToNode::Open(open)) = script.to_nodes[0].pop_front() else {
            panic!("a range is registered")
        };
        assert!(seen.insert(open.id));
        script.lose_session(0);
    }
}

/// Two nodes; the event at 2 of node 0 waits for node 1, which is at 1.
fn one_waits() -> (Script, weir_proxy::merge::InterestId) {
    let mut script = Script::new(2, 8);
    let id = script.open(1);
    (0..2).for_each(|node| script.talk(node));
    script.let_one_wait();
    (script, id)
}

#[test]
fn f9_a_range_that_is_opened_again_goes_on_from_its_own_position() {
    let (mut script, id) = one_waits();
    script.lose_session(0);
    let Some(ToNode::Open(_)) = script.to_nodes[0].front() else { panic!("the range is registered again") };
    script.talk(0);
    script.feed(1, 2);
    script.hear(1);
    assert_eq!(script.released, [2], "once, though the new registration could have said it too");
    assert!(script.asks.is_empty(), "nothing before its position is fetched");
    assert_eq!(script.promised(id), 2);
}

#[test]
fn f9_a_late_message_of_the_old_session_moves_nothing() {
    let (mut script, id) = one_waits();
    script.write(0, "b");
    script.feed(0, 3);
    let late = script.from_nodes[0].pop_front().unwrap();
    script.lose_session(0);
    script.from_nodes[0].clear();
    script.from_nodes[0].push_back(late);
    script.hear(0);
    assert_eq!(script.promised(id), 1);
    script.attach(0);
    script.talk(0);
    while !script.asks.is_empty() {
        script.answer();
    }
    script.feed(1, 3);
    script.hear(1);
    assert_eq!(script.released, [2, 3]);
}

#[test]
fn a_node_that_cannot_answer_is_asked_again_when_it_says_something() {
    for unanswered in [Unanswered::Empty, Unanswered::NotReached { frontier: rv(1) }] {
        let (mut script, _) = one_behind();
        script.hear(0);
        let ask = script.asks.pop_front().unwrap();
        script.give(&ask, Err(unanswered));
        assert!(script.asks.is_empty(), "asking at once would go round in a circle");
        script.feed(0, 3);
        script.hear(0);
        script.answer();
        assert_eq!(script.released, [2]);
    }
}

#[test]
fn answers_that_repeat_release_nothing_twice() {
    let (mut script, id) = one_behind();
    script.hear(0);
    let ask = script.asks.pop_front().unwrap();
    for _ in 0..3 {
        let answer: Statement<_> = script.nodes[0].store().log(&ask.request).unwrap();
        script.give(&ask, Ok(answer));
    }
    assert_eq!((script.promised(id), script.released.as_slice()), (2, &[2][..]));
}
