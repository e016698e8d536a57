//! Where the ring leads subscribers, what it lets the reader know that they lack, and that it never waits for them.

mod lists;
mod play;

use weir_core::SourceId;

use super::*;
use crate::testing::{Pod, rv};

const ME: SubscriberId = SubscriberId(0);
const OTHER: SubscriberId = SubscriberId(1);
const FIRST: History = History::FIRST;
const SECOND: History = History::new(1);

fn said(after: u64, to: u64) -> Statement<Change> {
    Statement::nothing(SourceId(1), rv(after), rv(to))
}

fn large(after: u64) -> Statement<Change> {
    let pod = Pod { padding: 1_000, ..Pod::new("ns", "a", "u") };
    Statement::new(SourceId(1), rv(after), rv(after + 1), vec![pod.put(after + 1)]).unwrap()
}

fn chunk((list, at): (u64, u64), seq: u32, is_last: bool) -> ListChunk {
    ListChunk { list: ListId(list), at: rv(at), seq, is_last, objects: Vec::new() }
}

fn at(after: u64) -> Standing {
    Standing::at(FIRST, rv(after))
}

const NOTHING: Standing = Standing::nothing(FIRST);

fn bounded(log_bytes: usize, list_bytes: usize) -> Ring {
    Ring::new(RingBounds { log_bytes, list_bytes })
}

/// A ring whose main watch has said this, from where the first statement begins.
fn ring(statements: impl IntoIterator<Item = (u64, u64)>) -> Ring {
    let mut ring = bounded(1 << 20, 1 << 20);
    for (after, to) in statements {
        ring.begin(rv(after));
        ring.push(said(after, to));
    }
    ring
}

/// A list in one chunk, for those that wait for it.
fn list(ring: &mut Ring, (id, at): (u64, u64)) {
    ring.begin_list(ListId(id));
    ring.push_list(chunk((id, at), 0, true));
}

/// Everything that the subscriber finds, in words.
fn read(ring: &mut Ring, id: SubscriberId) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        match ring.next(id) {
            Next::Nothing => return found,
            Next::Behind => {
                found.push("behind".to_owned());
                return found;
            }
            Next::Message(message) => found.push(match &*message {
                FeedMessage::Statement(said) => format!("({}, {}]", said.after(), said.to()),
                FeedMessage::List(chunk) => format!("list {} part {}", chunk.list.0, chunk.seq),
                FeedMessage::Restored(history) => format!("restored {history}"),
            }),
        }
    }
}

fn wants_log(after: u64) -> Wanted {
    Wanted { log: Some(rv(after)), ..Wanted::default() }
}

const WANTS_LIST: Wanted = Wanted { history: None, log: None, list: true, ahead: None };

#[test]
fn a_subscriber_goes_on_from_its_own_position() {
    let mut ring = ring([(2, 4), (4, 7)]);
    ring.subscribe(ME, at(5));
    assert_eq!(read(&mut ring, ME), ["(4, 7]"]);
    ring.push(said(7, 8));
    assert_eq!(read(&mut ring, ME), ["(7, 8]"]);
    ring.subscribe(ME, at(8));
    assert_eq!(read(&mut ring, ME), [""; 0], "level with the feed");
    assert!(ring.wanted().is_nothing());
}

#[test]
fn a_subscriber_ahead_of_the_feed_waits_for_it_and_upstream_is_asked_whether_it_has_come_so_far() {
    let mut ring = ring([(4, 7)]);
    ring.subscribe(ME, at(9));
    assert_eq!(ring.wanted(), Wanted { ahead: Some(rv(9)), ..Wanted::default() });
    ring.vouch(rv(9));
    assert!(ring.wanted().is_nothing(), "another instance was faster");
    ring.push(said(7, 8));
    assert_eq!(read(&mut ring, ME), [""; 0]);
    ring.push(said(8, 10));
    assert_eq!(read(&mut ring, ME), ["(8, 10]"]);
}

#[test]
fn f2_what_the_ring_lacks_is_read_beside_the_main_watch() {
    let mut ring = ring([(4, 7)]);
    ring.subscribe(ME, at(3));
    ring.subscribe(OTHER, at(2));
    assert_eq!(ring.wanted(), wants_log(2), "one backfill serves all, from the lowest position");
    ring.begin_backfill(rv(2));
    assert!(ring.wanted().is_nothing(), "it is being read");
    ring.push(said(7, 9));
    assert_eq!(read(&mut ring, ME), [""; 0], "what the main watch says does not lead it on");
    assert!(!ring.push_backfill(said(2, 5)));
    assert_eq!(
        read(&mut ring, ME),
        ["(2, 5]", "(4, 7]", "(7, 9]"],
        "the main watch's own, as soon as it can"
    );
    assert!(ring.push_backfill(said(5, 9)), "it has met the main watch");
    assert_eq!(read(&mut ring, OTHER), ["(2, 5]", "(4, 7]", "(7, 9]"]);
    assert!(ring.wanted().is_nothing());
}

#[test]
fn a_backfill_reaches_nobody_who_does_not_need_it() {
    let mut ring = ring([(4, 7)]);
    ring.subscribe(ME, at(7));
    ring.subscribe(OTHER, at(2));
    ring.begin_backfill(rv(2));
    ring.push_backfill(said(2, 7));
    assert_eq!(read(&mut ring, ME), [""; 0]);
}

#[test]
fn a_backfill_that_broke_off_is_wanted_from_where_its_readers_are() {
    let mut ring = ring([(8, 9)]);
    ring.subscribe(ME, at(2));
    ring.begin_backfill(rv(2));
    ring.push_backfill(said(2, 5));
    ring.disconnect();
    assert!(ring.wanted().is_nothing(), "it has not read what there is");
    assert_eq!(read(&mut ring, ME), ["(2, 5]"]);
    assert_eq!(ring.wanted(), wants_log(5));
    ring.subscribe(OTHER, at(1));
    ring.begin_backfill(rv(1));
    ring.push_backfill(said(1, 8));
    assert_eq!(read(&mut ring, ME), ["(1, 8]", "(8, 9]"], "a lower one comes by where it is");
    ring.unsubscribe(OTHER);
    assert!(ring.push_backfill(said(8, 8)), "nobody wants more of it");
}

#[test]
fn a_backfill_waits_for_its_fastest_reader_only_and_passes_one_that_reads_nothing() {
    let mut ring = bounded(3_000, 1);
    ring.begin(rv(50));
    ring.subscribe(ME, at(1));
    ring.begin_backfill(rv(1));
    let bytes = bytes_of_statement(&large(1));
    let mut after = 1;
    while ring.has_backfill_room(bytes) {
        ring.push_backfill(large(after));
        after += 1;
    }
    assert!(after < 5, "it is alone and has not read: nothing of it may be lost");
    ring.subscribe(OTHER, at(1));
    assert!(!ring.has_backfill_room(bytes));
    for _ in 0..3 {
        read(&mut ring, OTHER);
        assert!(ring.has_backfill_room(bytes), "the other one has read");
        ring.push_backfill(large(after));
        assert!(ring.backfill.bytes() <= 3_000);
        after += 1;
    }
    assert_eq!(read(&mut ring, ME), [""; 0], "what it lost is read again, with nothing of its own to do");
    ring.end_backfill();
    assert_eq!(ring.wanted(), wants_log(1));
    ring.begin_backfill(rv(1));
    ring.push_backfill(large(1));
    ring.pass_time(Duration::ZERO);
    ring.pass_time(PATIENCE);
    assert_eq!(read(&mut ring, ME), ["behind"], "others may want their own");
}

#[test]
fn a_part_of_a_backfill_that_is_larger_than_the_ring_drives_out_nothing_unread() {
    let mut ring = bounded(1, 1);
    ring.begin(rv(50));
    ring.subscribe(ME, at(1));
    ring.begin_backfill(rv(1));
    ring.push_backfill(said(1, 3));
    assert!(!ring.has_backfill_room(1_000));
    assert_eq!(read(&mut ring, ME), ["(1, 3]"]);
    assert!(ring.has_backfill_room(1_000));
}

#[test]
fn a_log_that_upstream_no_longer_has_makes_a_list_for_those_who_need_it_only() {
    let mut ring = ring([(8, 9)]);
    ring.subscribe(ME, at(2));
    ring.subscribe(OTHER, at(9));
    ring.begin_backfill(rv(2));
    ring.expire_backfill();
    assert_eq!(ring.wanted(), WANTS_LIST);
    list(&mut ring, (1, 12));
    assert_eq!(read(&mut ring, ME), ["list 1 part 0"]);
    assert_eq!(read(&mut ring, OTHER), [""; 0]);
    ring.push(said(9, 14));
    assert_eq!(read(&mut ring, ME), ["(9, 14]"]);
    assert_eq!(read(&mut ring, OTHER), ["(9, 14]"]);
}

#[test]
fn a_feed_without_content_begins_where_its_subscribers_are() {
    let mut ring = ring([]);
    assert!(ring.wanted().is_nothing());
    ring.subscribe(ME, at(8));
    ring.subscribe(OTHER, at(6));
    assert_eq!(ring.wanted(), wants_log(6));
    ring.begin(rv(6));
    assert!(ring.wanted().ahead.is_some() && ring.wanted().log.is_none());
    ring.push(said(6, 9));
    assert_eq!([read(&mut ring, ME), read(&mut ring, OTHER)], [["(6, 9]"], ["(6, 9]"]]);
    ring.subscribe(ME, NOTHING);
    assert_eq!(ring.wanted(), WANTS_LIST, "and lists for those without anything");
}

#[test]
fn reading_from_upstream_waits_for_nobody() {
    let mut ring = bounded(3_000, 1);
    ring.begin(rv(1));
    ring.subscribe(ME, at(1));
    ring.subscribe(OTHER, at(1));
    for after in 1..20 {
        ring.push(large(after));
        assert!(ring.log.bytes() <= 3_000, "{}", ring.log.bytes());
        assert_eq!(read(&mut ring, OTHER), [format!("({after}, {}]", after + 1)]);
    }
    assert_eq!(read(&mut ring, ME), ["behind"]);
    assert_eq!(read(&mut ring, ME), ["behind"], "until it subscribes again");
    assert!(ring.wanted().is_nothing(), "a replica may have what it lacks");
    ring.subscribe(ME, at(1));
    assert_eq!(ring.wanted(), wants_log(1));
    assert_eq!(read(&mut ring, ME), [""; 0], "it waits, and subscribes no more");
}

#[test]
fn what_everybody_has_read_stays_for_late_ones_up_to_half_of_the_bound() {
    let mut ring = bounded(9_000, 1);
    ring.begin(rv(1));
    ring.subscribe(ME, at(1));
    for after in 1..8 {
        ring.push(large(after));
    }
    ring.pass_time(Duration::ZERO);
    assert!(!ring.log.is_half_empty(), "it has not read them");
    read(&mut ring, ME);
    ring.pass_time(Duration::ZERO);
    assert!(ring.log.is_half_empty() && ring.log.bytes() > 3_000, "{}", ring.log.bytes());
}

#[test]
fn the_end_of_a_history_is_told_first_and_once() {
    let mut ring = ring([(3, 9)]);
    ring.subscribe(ME, at(9));
    ring.restored(SECOND);
    assert_eq!(ring.position(), None);
    assert_eq!(ring.wanted(), WANTS_LIST, "whoever was of the old history has nothing");
    list(&mut ring, (2, 5));
    ring.begin(rv(5));
    ring.push(said(5, 12));
    assert_eq!(read(&mut ring, ME), ["restored 1", "list 2 part 0", "(5, 12]"]);
    // By its number alone it could go on from (5, 12], and would mix two histories.
    ring.subscribe(OTHER, at(9));
    assert_eq!(read(&mut ring, OTHER), ["restored 1", "list 2 part 0", "(5, 12]"]);
    ring.subscribe(OTHER, Standing::at(SECOND, rv(9)));
    assert_eq!(read(&mut ring, OTHER), ["(5, 12]"]);
    ring.subscribe(OTHER, Standing::nothing(SECOND));
    assert_eq!(read(&mut ring, OTHER), ["list 2 part 0", "(5, 12]"]);
}

#[test]
fn a_feed_hears_of_a_history_that_it_has_missed() {
    let mut ring = ring([(3, 9)]);
    ring.subscribe(ME, Standing::at(SECOND, rv(5)));
    ring.subscribe(OTHER, at(9));
    assert_eq!(ring.wanted(), Wanted { history: Some(SECOND), ..Wanted::default() });
    ring.push(said(9, 11));
    assert_eq!(read(&mut ring, ME), [""; 0], "what the feed says is of an old history");
    assert_eq!(read(&mut ring, OTHER), ["(9, 11]"]);
    ring.restored(SECOND);
    assert_eq!(ring.wanted(), Wanted { log: Some(rv(5)), list: true, ..Wanted::default() });
    ring.begin(rv(5));
    ring.push(said(5, 6));
    assert_eq!(read(&mut ring, ME), ["(5, 6]"], "its content counts");
    assert_eq!(read(&mut ring, OTHER), ["restored 1"]);
}

#[test]
fn a_history_of_which_something_false_was_told_ends_once() {
    let mut ring = ring([(3, 9)]);
    ring.subscribe(ME, at(9));
    ring.doubt(FIRST);
    assert!(ring.take_wants_more());
    assert_eq!(ring.wanted(), Wanted { history: Some(SECOND), ..Wanted::default() });
    ring.restored(SECOND);
    assert_eq!(ring.wanted(), WANTS_LIST, "what was read counts for nothing");
    ring.doubt(FIRST);
    assert_eq!(ring.wanted(), WANTS_LIST, "others find out later, and it has ended already");
    ring.doubt(SECOND);
    assert_eq!(ring.wanted().history, Some(SECOND.next()));
}
