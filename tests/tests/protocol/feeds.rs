//! What a feed says, and what a store believes of it.

use weir_core::message::{FeedMessage, InterestEvent, LogRequest};
use weir_core::statement::Statement;
use weir_core::{SlotSet, SourceId};
use weir_shard_node::feed::ring::{Lack, Next, Ring, SubscriberId};
use weir_tests::model::Wanted;

use crate::script::{Script, rv};

fn log(
    script: &Script,
    after: u64,
    to: u64,
) -> Result<Statement<InterestEvent>, weir_core::message::Unanswered> {
    script.nodes[0].store().log(&LogRequest {
        history: weir_core::History::FIRST,
        interest: Wanted::everything().interest,
        slots: SlotSet::ALL,
        after: rv(after),
        to: rv(to),
    })
}

#[test]
fn f1_a_batch_that_begins_behind_a_gap_moves_no_frontier() {
    let mut script = Script::new(2, 8);
    script.write(0, "a");
    script.write(1, "b");
    let gap = script.feed_from(0, 2, 3).unwrap_err();
    assert_eq!((gap.position, gap.after), (rv(1), rv(2)));
    assert_eq!(
        script.frontier(0),
        1,
        "the feed was at 2 when this shard came, and has not said what was before"
    );
    script.feed_from(0, 1, 3).unwrap();
    assert_eq!((script.frontier(0), script.nodes[0].store().holdings().live_objects), (3, 1));
}

#[test]
fn f1_two_feeds_at_different_positions_leave_a_prefix_of_the_log() {
    let mut script = Script::new(1, 8);
    script.write_pods(0, 0..4);
    script.feed_from(0, 1, 3).unwrap();
    assert!(script.feed_from(0, 4, 5).is_err(), "the other feed is ahead");
    script.feed_from(0, 1, 2).unwrap();
    assert_eq!(script.frontier(0), 3, "a feed behind changes nothing");
    script.feed_from(0, 2, 5).unwrap();
    let said = log(&script, 1, 9).unwrap();
    assert_eq!(said.to(), rv(5));
    assert_eq!(said.events().iter().map(|event| event.rv.get()).collect::<Vec<_>>(), [2, 3, 4, 5]);
}

#[test]
fn f2_a_subscriber_behind_the_ring_is_not_left_waiting() {
    let mut ring = Ring::new(1 << 20);
    let statement = |after, to| FeedMessage::Statement(Statement::nothing(SourceId(1), rv(after), rv(to)));
    ring.push(statement(4, 5));
    assert_eq!(
        ring.subscribe(SubscriberId(0), Some(rv(0))),
        Some(Lack::Log(rv(0))),
        "the feed has to go back"
    );
    assert_eq!(ring.subscribe(SubscriberId(1), Some(rv(4))), None);
    // The feed goes back: what it says again leads the one on and does not disturb the other.
    ring.push(statement(0, 5));
    let Next::Message(said) = ring.next(SubscriberId(0)) else { panic!("something was said") };
    assert!(matches!(&*said, FeedMessage::Statement(said) if said.after() == rv(0)));
}

#[test]
fn g17_a_relisted_store_has_no_log_from_before_its_list() {
    let mut script = Script::new(1, 8);
    script.write(0, "a");
    script.list(0);
    let unanswered = log(&script, 1, 2).unwrap_err();
    assert_eq!(
        unanswered,
        weir_core::message::Unanswered::TooOld { floor: rv(2) },
        "an empty log proves nothing"
    );
}

#[test]
fn f8_a_list_behind_a_gap_makes_up_no_event() {
    let mut script = Script::new(1, 8);
    let id = script.open(1);
    script.talk(0);
    script.write(0, "a");
    let gone = script.write(0, "b");
    assert_eq!(gone, 3);
    script.upstream.delete(&weir_core::ObjectKey::new("ns", "b"));
    script.list(0);
    script.hear(0);
    assert!(script.released.is_empty(), "neither the creation of a nor anything of b");
    assert_eq!(script.too_old, [id], "its clients list again");
    assert_eq!((script.frontier(0), script.nodes[0].interests()), (4, 0));
}

#[test]
fn f8_a_list_that_is_no_news_is_ignored() {
    let mut script = Script::new(1, 8);
    let id = script.open(1);
    script.talk(0);
    script.write(0, "a");
    script.feed(0, 2);
    script.list(0);
    script.hear(0);
    assert_eq!(
        (script.too_old.len(), script.promised(id)),
        (0, 2),
        "a list at the frontier replaces nothing"
    );
}
