//! Lists: who reads them, who shares them, and what they wait for.

use super::*;

const THIRD: SubscriberId = SubscriberId(2);

fn objects(((list, at), seq, is_last): ((u64, u64), u32, bool)) -> ListChunk {
    let pod = Pod { padding: 1_000, ..Pod::new("ns", "a", "u") };
    ListChunk { objects: vec![pod.object(at)], ..chunk((list, at), seq, is_last) }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_late_list_reaches_nobody_who_has_content() {
    let mut ring = ring([(2, 4)]);
    ring.subscribe(ME, at(4));
    ring.subscribe(OTHER, NOTHING);
    assert_eq!(ring.wanted(), WANTS_LIST);
    list(&mut ring, (1, 9));
    assert_eq!(read(&mut ring, ME), [""; 0], "it would end all its interests");
    assert_eq!(read(&mut ring, OTHER), ["list 1 part 0"]);
    assert_eq!(ring.position(), Some(rv(4)), "the main watch goes on from where it was");
    ring.push(said(4, 11));
    assert_eq!([read(&mut ring, ME), read(&mut ring, OTHER)], [["(4, 11]"], ["(4, 11]"]]);
}

#[test]
fn behind_a_late_list_a_subscriber_is_led_on_by_a_backfill_where_the_ring_is_past_it() {
    let mut ring = bounded(1, 1 << 20);
    ring.begin(rv(4));
    ring.subscribe(ME, NOTHING);
    list(&mut ring, (1, 5));
    ring.push(said(4, 9));
    ring.push(said(9, 12));
    assert_eq!(read(&mut ring, ME), ["list 1 part 0"]);
    assert_eq!(ring.wanted(), wants_log(5));
    ring.begin_backfill(rv(5));
    ring.push_backfill(said(5, 12));
    assert_eq!(read(&mut ring, ME), ["(5, 12]"]);
}

#[test]
fn whoever_comes_while_a_list_is_read_shares_it_if_its_beginning_is_there() {
    let mut ring = bounded(1, 2_500);
    ring.begin(rv(4));
    ring.subscribe(ME, NOTHING);
    ring.begin_list(ListId(1));
    ring.push_list(objects(((1, 9), 0, false)));
    ring.subscribe(OTHER, NOTHING);
    ring.push_list(objects(((1, 9), 1, false)));
    read(&mut ring, ME);
    assert_eq!(read(&mut ring, OTHER), ["list 1 part 0", "list 1 part 1"]);
    assert!(ring.has_list_room(1_000), "both have read");
    ring.push_list(objects(((1, 9), 2, false)));
    ring.subscribe(THIRD, NOTHING);
    assert!(!ring.wanted().list, "one list at a time");
    ring.push_list(objects(((1, 9), 3, true)));
    assert_eq!(read(&mut ring, OTHER), ["list 1 part 2", "list 1 part 3"]);
    assert_eq!(read(&mut ring, THIRD), [""; 0]);
    assert_eq!(ring.wanted(), WANTS_LIST, "the next one is for those who missed the beginning");
    list(&mut ring, (2, 11));
    assert_eq!(read(&mut ring, THIRD), ["list 2 part 0"]);
    assert_eq!(read(&mut ring, ME), ["list 1 part 2", "list 1 part 3"], "and disturbs no slow reader");
}

#[test]
fn whoever_lost_everything_together_needs_one_list() {
    let mut ring = ring([]);
    ring.subscribe(ME, NOTHING);
    list(&mut ring, (1, 9));
    ring.begin(rv(9));
    read(&mut ring, ME);
    ring.pass_time(seconds(100));
    ring.pass_time(seconds(100) + KEEP_LIST / 2);
    ring.subscribe(OTHER, NOTHING);
    assert!(ring.wanted().is_nothing());
    assert_eq!(read(&mut ring, OTHER), ["list 1 part 0"]);
    ring.pass_time(seconds(100) + KEEP_LIST);
    assert_eq!(ring.lists.bytes(), 0, "nobody needs it any more");
    ring.subscribe(THIRD, NOTHING);
    assert_eq!(ring.wanted(), WANTS_LIST, "a later wave needs another");
}

#[test]
fn a_list_larger_than_the_ring_passes_nobody_in_its_middle_however_slow() {
    let mut ring = bounded(1, 1_500);
    ring.begin(rv(4));
    ring.subscribe(ME, NOTHING);
    ring.subscribe(OTHER, NOTHING);
    ring.begin_list(ListId(1));
    let mut now = Duration::ZERO;
    for seq in 0..100 {
        let part = objects(((1, 9), seq, seq == 99));
        let bytes = bytes_of(&FeedMessage::List(part.clone()));
        let expected = [format!("list 1 part {}", seq.saturating_sub(1))];
        if seq > 0 {
            assert!(!ring.has_list_room(bytes), "of {bytes} bytes, with one unread");
            assert_eq!(read(&mut ring, ME), expected);
            assert!(!ring.has_list_room(bytes), "the other has not read it");
            now += PATIENCE / 2;
            ring.pass_time(now);
            assert_eq!(read(&mut ring, OTHER), expected);
        }
        assert!(ring.has_list_room(bytes));
        ring.push_list(part);
        assert!(ring.lists.bytes() <= 1_500);
    }
    assert_eq!([read(&mut ring, ME), read(&mut ring, OTHER)], [["list 1 part 99"], ["list 1 part 99"]]);
}

#[test]
fn a_subscriber_that_reads_nothing_holds_a_list_up_for_a_stated_time_only() {
    let mut ring = bounded(1, 1);
    ring.begin(rv(4));
    ring.subscribe(ME, NOTHING);
    ring.subscribe(OTHER, NOTHING);
    ring.begin_list(ListId(1));
    ring.push_list(objects(((1, 9), 0, false)));
    read(&mut ring, ME);
    ring.pass_time(seconds(50));
    assert!(!ring.has_list_room(1));
    ring.pass_time(seconds(50) + PATIENCE);
    assert!(ring.has_list_room(1));
    assert_eq!(read(&mut ring, OTHER), ["behind"]);
    ring.push_list(objects(((1, 9), 1, true)));
    assert_eq!(read(&mut ring, ME), ["list 1 part 1"], "who waits for the list is not idle");
    ring.subscribe(OTHER, NOTHING);
    assert_eq!(ring.wanted(), WANTS_LIST);
}

#[test]
fn a_list_that_was_given_up_is_wanted_again() {
    let mut ring = ring([(2, 4)]);
    ring.subscribe(ME, NOTHING);
    ring.begin_list(ListId(1));
    ring.push_list(chunk((1, 9), 0, false));
    assert_eq!(read(&mut ring, ME), ["list 1 part 0"]);
    ring.disconnect();
    assert_eq!(ring.wanted(), WANTS_LIST);
    list(&mut ring, (2, 10));
    assert_eq!(read(&mut ring, ME), ["list 2 part 0"]);
}

#[test]
fn a_list_that_upstream_forced_goes_to_all_behind_the_log_that_there_is() {
    let mut ring = ring([(2, 4), (4, 6)]);
    ring.subscribe(ME, at(4));
    ring.subscribe(OTHER, at(6));
    ring.lost(rv(6));
    ring.begin_list(ListId(1));
    ring.subscribe(THIRD, at(6));
    ring.push_list(chunk((1, 9), 0, true));
    ring.begin(rv(9));
    ring.push(said(9, 10));
    assert_eq!(read(&mut ring, ME), ["(4, 6]", "list 1 part 0", "(9, 10]"]);
    assert_eq!(read(&mut ring, OTHER), ["list 1 part 0", "(9, 10]"]);
    assert_eq!(read(&mut ring, THIRD), ["list 1 part 0", "(9, 10]"]);
    ring.subscribe(THIRD, at(3));
    assert_eq!(read(&mut ring, THIRD), ["(2, 4]", "(4, 6]", "list 1 part 0", "(9, 10]"]);
    ring.subscribe(THIRD, at(1));
    assert_eq!(read(&mut ring, THIRD), ["list 1 part 0", "(9, 10]"], "no backfill can lead it");
    ring.subscribe(THIRD, at(7));
    assert_eq!(ring.wanted(), wants_log(7), "another feed led it past what was lost");
}
