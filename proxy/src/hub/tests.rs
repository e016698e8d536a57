//! The hub against a plain list of events.

use std::sync::Arc;

use proptest::prelude::*;
use weir_core::message::EventKind;
use weir_core::object::ObjectSchema;
use weir_core::selector::FieldTable;
use weir_core::{GroupVersionResource, Object};

use super::*;

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

/// An event at `at`; a larger `padding` makes it larger.
pub(crate) fn event(at: u64, padding: usize) -> InterestEvent {
    let padding = "x".repeat(padding);
    let json = format!(
        r#"{{"metadata":{{"name":"a","namespace":"ns","uid":"u","resourceVersion":"{at}"}},"x":"{padding}"}}"#
    );
    let table = FieldTable::of(&GroupVersionResource::new("", "v1", "configmaps"), None).unwrap();
    let object = Object::parse(json.as_bytes(), &ObjectSchema::new(table).unwrap()).unwrap();
    InterestEvent { rv: rv(at), kind: EventKind::Modified, object: Arc::new(object) }
}

proptest! {
    /// From every position at or behind the floor, reading in pieces of any size finds every later event once, in order;
    /// below the floor the hub refuses.
    #[test]
    fn reading_finds_everything_behind_the_cursor(
        steps in proptest::collection::vec((1..5_u64, 0..300_usize), 0..40),
        start in 0..5_u64,
        max_events in 0..20_usize,
        max_bytes in prop_oneof![Just(0_usize), Just(1_000), Just(1 << 20)],
        max in 1..6_usize,
    ) {
        let mut hub = Hub::new(rv(start), HubBounds { max_events, max_bytes });
        let (mut all, mut last) = (Vec::new(), start);
        for (step, padding) in steps {
            last += step;
            all.push(last);
            hub.push(vec![event(last, padding)]);
            prop_assert!(hub.events.len() <= max_events && hub.bytes <= max_bytes);
            prop_assert_eq!(hub.bytes, hub.events.iter().map(|event| event.object.bytes().len()).sum::<usize>());
        }
        for cursor in 0..last + 3 {
            let (mut position, mut found) = (rv(cursor), Vec::new());
            loop {
                match hub.read(position, max) {
                    Read::Nothing => break,
                    Read::Behind(floor) => {
                        prop_assert!(found.is_empty() && rv(cursor) < floor && floor == hub.floor());
                        break;
                    }
                    Read::Ended(_) => prop_assert!(false, "nothing ended it"),
                    Read::Events(events) => {
                        prop_assert!(!events.is_empty() && events.len() <= max);
                        found.extend(events.iter().map(|event| event.rv.get()));
                        position = events[events.len() - 1].rv;
                    }
                }
            }
            if rv(cursor) >= hub.floor() {
                let expected: Vec<u64> = all.iter().copied().filter(|at| *at > cursor).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}

#[test]
fn what_was_released_before_the_end_is_read_first() {
    let mut hub = Hub::new(rv(1), HubBounds::default());
    hub.push(vec![event(2, 0)]);
    hub.end(End::TooOld);
    assert!(matches!(hub.read(rv(1), 9), Read::Events(events) if events.len() == 1));
    assert!(matches!(hub.read(rv(2), 9), Read::Ended(End::TooOld)));
    assert!(
        matches!(hub.read(rv(0), 9), Read::Ended(End::TooOld)),
        "what lies before it cannot be joined to it any more"
    );
}

#[test]
fn a_cursor_ahead_of_the_hub_waits_and_misses_nothing() {
    let mut hub = Hub::new(rv(1), HubBounds::default());
    assert!(matches!(hub.read(rv(9), 9), Read::Nothing));
    hub.push((2..12).map(|at| event(at, 0)).collect());
    let Read::Events(events) = hub.read(rv(9), 9) else { panic!("10 and 11 are there") };
    assert_eq!(events.iter().map(|event| event.rv.get()).collect::<Vec<_>>(), [10, 11]);
}
