//! Where the ring leads subscribers, and that it never waits for them.

use weir_core::SourceId;
use weir_core::message::{ListChunk, ListId};

use super::*;
use crate::testing::{Pod, rv};

const ME: SubscriberId = SubscriberId(0);

fn said(after: u64, to: u64) -> FeedMessage {
    FeedMessage::Statement(Statement::nothing(SourceId(1), rv(after), rv(to)))
}

fn large(after: u64) -> FeedMessage {
    let pod = Pod { padding: 1_000, ..Pod::new("ns", "a", "u") };
    let changes = vec![pod.put(after + 1)];
    FeedMessage::Statement(Statement::new(SourceId(1), rv(after), rv(after + 1), changes).unwrap())
}

fn listed((list, at): (u64, u64), seq: u32, is_last: bool) -> FeedMessage {
    FeedMessage::List(ListChunk { list: ListId(list), at: rv(at), seq, is_last, objects: Vec::new() })
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
                FeedMessage::Restored(_) => "restored".to_owned(),
            }),
        }
    }
}

fn ring(messages: impl IntoIterator<Item = FeedMessage>) -> Ring {
    let mut ring = Ring::new(1 << 20);
    messages.into_iter().for_each(|message| ring.push(message));
    ring
}

#[test]
fn a_subscriber_goes_on_from_its_own_position() {
    let mut ring = ring([listed((1, 2), 0, true), said(2, 4), said(4, 7)]);
    assert_eq!(ring.subscribe(ME, Some(rv(5))), None);
    assert_eq!(read(&mut ring, ME), ["(4, 7]"]);
    ring.push(said(7, 8));
    assert_eq!(read(&mut ring, ME), ["(7, 8]"]);
    assert_eq!(ring.subscribe(ME, Some(rv(8))), None, "level with the feed");
    assert_eq!(ring.subscribe(ME, Some(rv(1))), None, "older than all, the list leads it on");
    assert_eq!(read(&mut ring, ME), ["list 1 part 0", "(2, 4]", "(4, 7]", "(7, 8]"]);
}

#[test]
fn f2_what_the_ring_lacks_is_named() {
    let mut ring = ring([said(4, 7)]);
    assert_eq!(ring.subscribe(ME, Some(rv(3))), Some(Lack::Log(rv(3))));
    assert_eq!(ring.subscribe(ME, Some(rv(9))), Some(Lack::Log(rv(9))), "ahead of this feed");
    assert_eq!(ring.subscribe(ME, None), Some(Lack::List));
}

#[test]
fn the_log_behind_a_list_is_preferred_to_the_list() {
    let mut ring = ring([listed((1, 9), 0, true), said(5, 9)]);
    assert_eq!(ring.subscribe(ME, Some(rv(6))), None);
    assert_eq!(read(&mut ring, ME), ["(5, 9]"], "the feed went back; a list would end what the log leads on");
}

#[test]
fn a_list_given_up_half_way_leads_nobody() {
    let mut given_up = ring([listed((1, 9), 0, false), said(5, 9)]);
    assert_eq!(given_up.subscribe(ME, None), Some(Lack::List));
    let mut under_way = ring([said(5, 9), listed((1, 9), 0, false), listed((1, 9), 1, false)]);
    assert_eq!(under_way.subscribe(ME, None), None);
    assert_eq!(read(&mut under_way, ME), ["list 1 part 0", "list 1 part 1"]);
}

#[test]
fn the_rest_of_a_list_leads_nobody_who_lacks_its_beginning() {
    let mut ring = Ring::new(1);
    ring.push(said(0, 9));
    ring.push(listed((1, 12), 0, false));
    ring.push(listed((1, 12), 1, false));
    assert_eq!(
        ring.subscribe(ME, Some(rv(9))),
        Some(Lack::Log(rv(9))),
        "though the last statement ended at 9"
    );
}

#[test]
fn reading_from_upstream_waits_for_nobody() {
    let mut ring = Ring::new(3_000);
    ring.push(said(0, 1));
    ring.subscribe(ME, Some(rv(1)));
    for after in 1..20 {
        ring.push(large(after));
        assert!(ring.bytes <= 3_000, "{}", ring.bytes);
    }
    assert_eq!(read(&mut ring, ME), ["behind"]);
    assert_eq!(read(&mut ring, ME), ["behind"], "until it subscribes again");
    assert_eq!(ring.subscribe(ME, Some(rv(19))), None);
    assert_eq!(read(&mut ring, ME), ["(19, 20]"]);
}

#[test]
fn a_list_waits_until_its_parts_were_read() {
    let mut ring = Ring::new(1);
    ring.subscribe(ME, None);
    ring.push(listed((1, 9), 0, false));
    assert!(!ring.has_room());
    read(&mut ring, ME);
    assert!(ring.has_room());
    ring.push(listed((1, 9), 1, true));
    ring.subscribe(SubscriberId(1), Some(rv(9)));
    read(&mut ring, ME);
    assert!(ring.has_room());
    ring.shrink();
    assert_eq!(ring.messages.len(), 0, "a list that everybody has is dropped");
    assert_eq!(ring.subscribe(SubscriberId(2), None), Some(Lack::List));
}

#[test]
fn the_end_of_a_history_is_told_once() {
    let mut ring = ring([said(3, 9)]);
    ring.subscribe(ME, Some(rv(9)));
    ring.push(FeedMessage::Restored(History::new(1)));
    ring.push(listed((2, 5), 0, true));
    assert_eq!(read(&mut ring, ME), ["restored", "list 2 part 0"]);
    assert_eq!(ring.subscribe(ME, Some(rv(5))), None);
    assert_eq!(read(&mut ring, ME), [""; 0]);
    assert_eq!(ring.subscribe(SubscriberId(1), None), None, "without content there is nothing to forget");
    assert_eq!(read(&mut ring, SubscriberId(1)), ["list 2 part 0"]);
}

#[test]
fn the_end_of_a_history_is_told_to_those_whom_the_ring_has_passed() {
    let mut ring = Ring::new(1);
    ring.push(said(3, 9));
    ring.subscribe(ME, Some(rv(9)));
    ring.push(FeedMessage::Restored(History::new(1)));
    ring.push(listed((2, 5), 0, true));
    ring.push(said(5, 12));
    assert_eq!(read(&mut ring, ME), ["behind"]);
    // By its number alone it could go on from (5, 12], and would mix two histories.
    assert_eq!(ring.subscribe(ME, Some(rv(9))), Some(Lack::List));
    assert_eq!(read(&mut ring, ME), ["restored"]);
    ring.push(listed((3, 13), 0, true));
    assert_eq!(read(&mut ring, ME), ["list 3 part 0"]);
}
