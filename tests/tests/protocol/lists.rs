//! Snapshots over windows that differ and move.

use weir_core::message::{SnapshotRequest, SnapshotStart, Unanswered};
use weir_core::window::Window;
use weir_core::{ResourceVersion, SlotSet, WindowBounds};
use weir_proxy::hub::{Hub, HubBounds, Read};
use weir_tests::model::Wanted;

use crate::script::{Script, rv, wide};

fn request(slots: SlotSet, at: u64, from: Option<SnapshotStart>) -> SnapshotRequest {
    SnapshotRequest {
        history: weir_core::History::FIRST,
        interest: Wanted::everything().interest,
        slots,
        at: rv(at),
        from,
        max_objects: 1,
    }
}

#[test]
fn f11_a_list_takes_the_highest_revision_in_all_windows_or_none() {
    let window = |floor, frontier| Window { floor: rv(floor), frontier: rv(frontier) };
    assert_eq!(Window::highest_common([window(1, 5), window(3, 9), window(0, 4)]), Some(rv(4)));
    assert_eq!(Window::highest_common([window(1, 1), window(0, 0)]), None, "never the nearest of each");
    assert_eq!(Window::highest_common([]), None);
}

#[test]
fn f11_no_node_answers_as_near_as_possible() {
    let mut script = Script::new(2, 8);
    script.write(0, "a");
    script.list(0);
    let slots = |node: usize| script.nodes[node].store().slots();
    let (listed, behind) = (script.nodes[0].store(), script.nodes[1].store());
    assert_eq!(
        listed.snapshot(&request(slots(0), 1, None)).unwrap_err(),
        Unanswered::TooOld { floor: rv(2) }
    );
    assert_eq!(
        behind.snapshot(&request(slots(1), 2, None)).unwrap_err(),
        Unanswered::NotReached { frontier: rv(1) }
    );
    let windows = script.nodes.iter().filter_map(weir_shard_node::node::Node::window);
    assert_eq!(Window::highest_common(windows), None);
}

#[test]
fn f15_every_chunk_of_a_list_checks_the_window() {
    let mut script = Script::with_bounds(1, 8, WindowBounds { max_events: 2, ..wide() });
    script.write_pods(0, 0..3);
    script.feed(0, 4);
    let first = script.nodes[0].store().snapshot(&request(SlotSet::ALL, 4, None)).unwrap();
    assert_eq!(first.objects.len(), 1);
    let from = first.next.map(SnapshotStart::Behind);
    let second = script.nodes[0].store().snapshot(&request(SlotSet::ALL, 4, from.clone())).unwrap();
    assert_eq!(second.objects[0].key().name(), "pod1");
    // The rest is overwritten until the window no longer reaches back to 4.
    for _ in 0..3 {
        script.write(0, "pod2");
    }
    script.feed(0, 7);
    let late = script.nodes[0].store().snapshot(&request(SlotSet::ALL, 4, from)).unwrap_err();
    assert_eq!(late, Unanswered::TooOld { floor: rv(5) }, "never a shorter or a newer rest");
}

#[test]
fn f15_an_empty_log_below_the_floor_is_no_answer() {
    let script = Script::new(1, 8);
    let early = request(SlotSet::ALL, 0, None);
    assert_eq!(script.nodes[0].store().snapshot(&early).unwrap_err(), Unanswered::TooOld { floor: rv(1) });
}

#[test]
fn f18_a_cursor_behind_the_hub_is_sent_to_the_logs() {
    let hub = Hub::new(rv(5), HubBounds::default());
    for cursor in 0..5 {
        assert!(matches!(hub.read(rv(cursor), 9), Read::Behind(floor) if floor == rv(5)), "{cursor}");
    }
    assert!(matches!(hub.read(rv(5), 9), Read::Nothing));
    assert!(matches!(hub.read(ResourceVersion::MAX, 9), Read::Nothing), "ahead of everything: it waits");
}

#[test]
fn f18_a_hub_that_drops_events_raises_its_floor() {
    let mut script = Script::new(1, 8);
    script.write_pods(0, 0..4);
    script.feed(0, 5);
    let log = script.nodes[0].store().log(&weir_core::message::LogRequest {
        history: weir_core::History::FIRST,
        interest: Wanted::everything().interest,
        slots: SlotSet::ALL,
        after: rv(1),
        to: rv(5),
    });
    let mut hub = Hub::new(rv(1), HubBounds { max_events: 2, max_bytes: usize::MAX });
    hub.push(log.unwrap().events().to_vec());
    assert_eq!(hub.floor(), rv(3));
    assert!(matches!(hub.read(rv(2), 9), Read::Behind(floor) if floor == rv(3)));
    let Read::Events(events) = hub.read(rv(3), 9) else { panic!("two events are left") };
    assert_eq!(events.iter().map(|event| event.rv.get()).collect::<Vec<_>>(), [4, 5]);
}
