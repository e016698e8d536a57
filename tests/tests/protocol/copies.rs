//! A node that starts from a replica: a snapshot of the donor's window, installed as a list, and the donor's log from there.
//! The donor goes on meanwhile, and its window moves.

use std::sync::Arc;

use weir_core::interest::Interest;
use weir_core::message::{
    Change, ChangeKind, EventKind, FeedMessage, LogRequest, SnapshotChunk, SnapshotRequest, SnapshotStart,
    Unanswered,
};
use weir_core::{History, ResourceVersion, SlotSet, WindowBounds};

use crate::script::{Script, rv, wide};

/// One shard with two nodes, of which only the first has come.
fn donor(bounds: WindowBounds) -> Script {
    let mut script = Script::unconnected(vec![SlotSet::ALL], &[SlotSet::ALL; 2], (8, bounds));
    script.come(0);
    script
}

fn snapshot(script: &Script, at: u64, from: Option<SnapshotStart>) -> Result<SnapshotChunk, Unanswered> {
    script.nodes[0].store().snapshot(&SnapshotRequest {
        history: History::FIRST,
        interest: Arc::new(Interest::everything()),
        slots: SlotSet::ALL,
        at: rv(at),
        from,
        max_objects: 1,
    })
}

fn log_of(node: usize, after: u64) -> (usize, LogRequest) {
    let interest = Arc::new(Interest::everything());
    let (after, to) = (rv(after), ResourceVersion::MAX);
    (node, LogRequest { history: History::FIRST, interest, slots: SlotSet::ALL, after, to })
}

/// What the donor's log says, as the copy takes it.
fn copied_log(script: &Script, after: u64) -> Result<FeedMessage, Unanswered> {
    let (_, request) = log_of(0, after);
    let said = script.nodes[0].store().log(&request)?;
    Ok(FeedMessage::Statement(said.filter_map(|event| {
        let kind = match event.kind {
            EventKind::Added | EventKind::Modified => ChangeKind::Put,
            EventKind::Deleted => ChangeKind::Delete,
        };
        Some(Change { rv: event.rv, kind, object: event.object.clone() })
    })))
}

#[test]
fn f15_a_copy_answers_from_where_it_began_and_what_lies_before_is_the_donors() {
    let mut script = donor(wide());
    script.write_pods(0, 0..2);
    script.feed(0, 3);
    script.hear(0);
    let id = script.open(1);
    script.list_at(1, rv(2));
    script.write(0, "pod0");
    script.upstream.delete(&weir_core::ObjectKey::new("ns", "pod1"));
    script.feed(0, 5);
    let log = copied_log(&script, 2).unwrap();
    script.tell(1, &log).unwrap();
    let windows: Vec<_> = script.nodes.iter().filter_map(weir_shard_node::node::Node::window).collect();
    assert_eq!((windows[0].floor, windows[1].floor), (rv(1), rv(2)));
    assert_eq!((windows[0].frontier, windows[1].frontier), (rv(5), rv(5)));
    assert_eq!(
        script.nodes[0].store().holdings().live_objects,
        script.nodes[1].store().holdings().live_objects
    );
    let (_, request) = log_of(1, 1);
    let early = script.nodes[1].store().log(&request).unwrap_err();
    assert_eq!(early, Unanswered::TooOld { floor: rv(2) }, "the snapshot proves nothing about (1, 2]");
    // A client at 1 is sent back to the donor by the copy, and from 2 on both lead it on.
    script.attach(1);
    script.hear(1);
    script.avoid(0);
    script.talk(1);
    script.answer();
    assert!(script.too_old.is_empty());
    script.talk(0);
    script.answer();
    assert_eq!((script.promised(id), script.released.as_slice()), (5, &[2, 3, 4, 5][..]));
}

#[test]
fn f15_the_donors_window_moves_under_a_copy() {
    let mut script = donor(WindowBounds { max_events: 3, ..wide() });
    script.write_pods(0, 0..3);
    script.feed(0, 4);
    let first = snapshot(&script, 2, None).unwrap();
    let next = first.next.map(SnapshotStart::Behind);
    assert_eq!((first.objects.len(), next.is_some()), (1, true));
    script.write_pods(0, 3..6);
    script.feed(0, 7);
    let refused = Unanswered::TooOld { floor: rv(4) };
    assert_eq!(snapshot(&script, 2, next).unwrap_err(), refused, "the rest would be of another state");
    assert_eq!(copied_log(&script, 2).unwrap_err(), refused, "and the log has a hole");
}

#[test]
fn f15_a_list_that_comes_meanwhile_leaves_no_hole_in_the_copy() {
    let mut script = donor(wide());
    script.write_pods(0, 0..2);
    script.feed(0, 3);
    script.list_at(1, rv(2));
    script.write(0, "a");
    script.list(1);
    assert_eq!(script.frontier(1), 4);
    // The donor is behind that list, and what it says of before is known.
    let log = copied_log(&script, 2).unwrap();
    script.tell(1, &log).unwrap();
    let window = script.nodes[1].window().unwrap();
    assert_eq!((window.floor, window.frontier), (rv(4), rv(4)));
    script.nodes[1].store().check();
}
