//! Credit: what a node may send before the proxy has released it, and what happens when it is used up.

use weir_core::message::{FromNode, ToNode};

use crate::script::{Script, rv};

/// Two nodes and credit for one event; node 1 hangs at 1 and node 0 has sent the event at 2.
fn used_up() -> (Script, weir_proxy::merge::InterestId) {
    let mut script = Script::new(2, 1);
    let id = script.open(1);
    (0..2).for_each(|node| script.talk(node));
    script.write(0, "a");
    script.feed(0, 2);
    script.hear(0);
    (script, id)
}

#[test]
fn g7_left_says_the_last_position_that_was_said_not_the_frontier() {
    let (mut script, _) = used_up();
    script.upstream.skip();
    script.write(0, "b");
    script.feed(0, 4);
    let said: Vec<_> = script.from_nodes[0].iter().collect();
    let [FromNode::Left { at, .. }, FromNode::Said(frontier)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(
        (*at, frontier.to(), frontier.events().len()),
        (rv(2), rv(4), 0),
        "the event at 4 was withheld"
    );
}

#[test]
fn g7_an_event_withheld_in_the_middle_of_a_statement() {
    let mut script = Script::new(1, 2);
    script.open(1);
    script.talk(0);
    script.write_pods(0, 0..4);
    script.feed(0, 5);
    let said: Vec<_> = script.from_nodes[0].iter().collect();
    let [FromNode::Said(first), FromNode::Left { at, .. }, FromNode::Said(rest)] = said.as_slice() else {
        panic!("{said:?}")
    };
    assert_eq!((first.after(), first.to(), first.events().len()), (rv(1), rv(3), 2));
    assert_eq!((*at, rest.after(), rest.to(), rest.events().len()), (rv(3), rv(3), rv(5), 0));
}

#[test]
fn g10_behind_left_the_frontier_does_not_count() {
    let (mut script, id) = used_up();
    script.write(0, "b");
    (0..2).for_each(|node| script.feed(node, 3));
    script.hear(0);
    assert_eq!(script.promised(id), 1, "node 1 is still at 1");
    script.hear(1);
    assert_eq!(
        (script.promised(id), script.released.as_slice()),
        (2, &[2][..]),
        "not 3: that event was withheld"
    );
    (0..2).for_each(|node| script.talk(node));
    while !script.asks.is_empty() {
        script.answer();
    }
    assert_eq!(
        (script.promised(id), script.released.as_slice()),
        (3, &[2, 3][..]),
        "and comes when there is room"
    );
}

#[test]
fn a_range_stays_away_while_its_buffer_is_full() {
    let (mut script, _) = used_up();
    script.write(0, "b");
    script.feed(0, 3);
    script.hear(0);
    assert!(script.to_nodes[0].is_empty(), "one event is buffered, and there is credit for one");
    script.feed(1, 2);
    script.hear(1);
    assert!(matches!(script.to_nodes[0].front(), Some(ToNode::Open(_))), "released, so there is room");
}

#[test]
fn g8_a_frontier_stands_behind_the_events_before_it() {
    let mut script = Script::new(1, 8);
    script.open(1);
    script.talk(0);
    script.write(0, "a");
    script.feed(0, 2);
    script.upstream.skip();
    script.feed(0, 3);
    script.upstream.skip();
    script.feed(0, 4);
    let mut position = rv(1);
    for said in &script.from_nodes[0] {
        let FromNode::Said(statement) = said else { panic!("{said:?}") };
        assert_eq!(statement.after(), position, "each begins where the last one ended");
        assert!(statement.events().iter().all(|event| event.rv > statement.after()));
        position = statement.to();
    }
    assert_eq!(position, rv(4));
}

#[test]
fn g9_what_waits_takes_no_room_from_the_log_that_frees_it() {
    let mut script = Script::new(1, 1);
    script.write_pods(0, 0..2);
    script.feed(0, 3);
    script.hear(0);
    let id = script.open(1);
    script.arrive(0);
    script.write(0, "b");
    script.feed(0, 4);
    script.hear(0);
    let mut ask = script.asks.pop_front().expect("the log before 3 is missing");
    ask.request.to = rv(2);
    let first = script.nodes[0].store().log(&ask.request);
    script.give(&ask, first);
    assert_eq!(
        script.asks.len(),
        1,
        "the event at 4 waits and has used all credit; only the rest of the log can free it"
    );
    script.answer();
    assert_eq!((script.promised(id), script.released.as_slice()), (4, &[2, 3, 4][..]));
}

#[test]
fn g9_an_empty_log_frees_what_waits_too() {
    let mut script = Script::new(1, 1);
    script.upstream.skip();
    script.feed(0, 2);
    script.hear(0);
    let id = script.open(1);
    script.arrive(0);
    script.write(0, "b");
    script.write(0, "c");
    script.feed(0, 4);
    script.hear(0);
    script.answer();
    assert_eq!(script.released, [3], "the event at 4 had no credit");
    script.talk(0);
    while !script.asks.is_empty() {
        script.answer();
    }
    assert_eq!((script.promised(id), script.released.as_slice()), (4, &[3, 4][..]));
}

#[test]
fn g11_one_interest_out_of_credit_holds_nobody_back() {
    let (mut script, short) = used_up();
    let other = script.open(2);
    script.talk(0);
    script.talk(1);
    script.write(0, "b");
    (0..2).for_each(|node| script.feed(node, 3));
    (0..2).for_each(|node| script.hear(node));
    assert_eq!(script.promised(other), 3, "the session's frontier went on");
    assert_eq!(script.promised(short), 2, "for the other it did not");
}

#[test]
fn f14_two_mirrors_whose_ranges_wait_for_each_other_come_to_an_end() {
    // On session 0 events of mirror A stand before the frontier that mirror B waits for, and the reverse on session 1.
    let mut mirrors = [Script::new(2, 1), Script::new(2, 1)];
    let mut ids = Vec::new();
    for mirror in &mut mirrors {
        ids.push(mirror.open(1));
        (0..2).for_each(|node| mirror.talk(node));
    }
    for (busy, mirror) in mirrors.iter_mut().enumerate() {
        mirror.write_pods(busy, 0..3);
        mirror.feed(busy, 4);
        mirror.hear(busy);
        assert!(mirror.from_nodes[busy].is_empty(), "every message was taken, whatever there was room for");
    }
    for (busy, mirror) in mirrors.iter_mut().enumerate() {
        mirror.feed(1 - busy, 4);
        for _ in 0..8 {
            (0..2).for_each(|node| mirror.talk(node));
            while !mirror.asks.is_empty() {
                mirror.answer();
            }
        }
        assert_eq!((mirror.promised(ids[busy]), mirror.released.as_slice()), (4, &[2, 3, 4][..]));
    }
}

#[test]
fn only_what_was_sent_under_a_registration_gives_its_credit_back() {
    let mut script = Script::new(1, 4);
    script.write_pods(0, 0..20);
    script.feed(0, 21);
    script.hear(0);
    script.open(1);
    script.talk(0);
    while !script.asks.is_empty() {
        script.answer();
    }
    assert_eq!(script.released.len(), 20);
    assert!(script.to_nodes[0].is_empty(), "twenty events of the log used no credit");
}
