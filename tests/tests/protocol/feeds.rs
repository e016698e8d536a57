//! What a feed says, and what a store believes of it.

use weir_core::message::{Change, FeedMessage, InterestEvent, ListChunk, ListId, LogRequest};
use weir_core::statement::Statement;
use weir_core::{History, SlotSet, SourceId};
use weir_shard_node::feed::ring::{Next, Ring, RingBounds, Standing, SubscriberId};
use weir_tests::model::Wanted;

use crate::script::{Script, rv};

fn log(
    script: &Script,
    after: u64,
    to: u64,
) -> Result<Statement<InterestEvent>, weir_core::message::Unanswered> {
    script.nodes[0].store().log(&LogRequest {
        history: History::FIRST,
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

const ME: SubscriberId = SubscriberId(0);
const OTHER: SubscriberId = SubscriberId(1);

fn ring() -> Ring {
    Ring::new(RingBounds { log_bytes: 1 << 20, list_bytes: 1 << 20 })
}

fn at(after: u64) -> Standing {
    Standing::at(History::FIRST, rv(after))
}

/// The next statement for a subscriber, which is what it takes.
fn next(ring: &mut Ring, id: SubscriberId) -> Option<Statement<Change>> {
    match ring.next(id) {
        Next::Message(message) => match &*message {
            FeedMessage::Statement(said) => Some(said.clone()),
            FeedMessage::List(_) | FeedMessage::Restored(_) => panic!("{message:?} instead of a statement"),
        },
        Next::Nothing => None,
        Next::Behind => panic!("the ring has room"),
    }
}

#[test]
fn f1_a_feed_that_runs_hands_a_newcomer_nothing_that_begins_behind_a_gap() {
    let mut script = Script::new(2, 8);
    script.write(0, "a");
    script.write(1, "b");
    let said = |script: &Script, after, to| {
        let changes = script.upstream.changes(rv(after), rv(to)).to_vec();
        Statement::new(SourceId(1), rv(after), rv(to), changes).unwrap()
    };
    // The feed has run for another shard and was at 2 when this one came, which is at 1.
    let mut ring = ring();
    ring.begin(rv(2));
    ring.subscribe(ME, at(script.frontier(0)));
    ring.push(said(&script, 2, 3));
    assert!(next(&mut ring, ME).is_none(), "(2, 3] says nothing about what was before");
    ring.begin_backfill(rv(1));
    ring.push_backfill(said(&script, 1, 3));
    let statement = next(&mut ring, ME).unwrap();
    script.tell(0, &FeedMessage::Statement(statement)).unwrap();
    assert_eq!((script.frontier(0), script.nodes[0].store().holdings().live_objects), (3, 1));
}

#[test]
fn f2_a_subscriber_behind_the_feed_is_not_left_waiting_and_holds_up_nobody() {
    let statement = |after, to| Statement::nothing(SourceId(1), rv(after), rv(to));
    let mut ring = ring();
    ring.begin(rv(4));
    ring.push(statement(4, 5));
    ring.subscribe(ME, at(0));
    ring.subscribe(OTHER, at(4));
    let wanted = ring.wanted();
    assert_eq!(
        (wanted.log, wanted.list),
        (Some(rv(0)), false),
        "the log from there on, beside the main watch"
    );
    // A quiet mirror: nothing would ever come. A busy one: nothing that leads it on.
    ring.begin_backfill(rv(0));
    assert!(!ring.push_backfill(statement(0, 3)));
    ring.push(statement(5, 6));
    assert!(ring.push_backfill(statement(3, 6)), "it has met the main watch and ends");
    let led = |ring: &mut Ring, id| {
        std::iter::from_fn(|| next(ring, id)).map(|said| said.to().get()).collect::<Vec<_>>()
    };
    assert_eq!(led(&mut ring, OTHER), [5, 6], "the other has heard it once");
    assert_eq!(led(&mut ring, ME).last(), Some(&6));
    ring.push(statement(6, 7));
    assert_eq!((led(&mut ring, ME), led(&mut ring, OTHER)), (vec![7], vec![7]));
}

#[test]
fn f2_a_list_for_a_node_without_content_ends_nothing_of_the_others() {
    let mut script = Script::new(1, 8);
    let id = script.open(1);
    script.talk(0);
    script.write(0, "a");
    let mut ring = ring();
    ring.begin(rv(1));
    ring.subscribe(ME, at(1));
    ring.subscribe(OTHER, Standing::nothing(History::FIRST));
    assert!(ring.wanted().list);
    ring.begin_list(ListId(1));
    ring.push_list(ListChunk {
        list: ListId(1),
        at: rv(2),
        seq: 0,
        is_last: true,
        objects: script.upstream.objects(rv(2)),
    });
    assert!(next(&mut ring, ME).is_none(), "it is newer than what this one has");
    assert!(matches!(ring.next(OTHER), Next::Message(_)));
    ring.push(
        Statement::new(SourceId(1), rv(1), rv(2), script.upstream.changes(rv(1), rv(2)).to_vec()).unwrap(),
    );
    let statement = next(&mut ring, ME).unwrap();
    script.tell(0, &FeedMessage::Statement(statement)).unwrap();
    script.hear(0);
    assert_eq!((script.too_old.len(), script.promised(id)), (0, 2));
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
