//! What takes more than one hold of the lock.

use std::time::Duration;

use weir_core::interest::Scope;
use weir_core::message::{ListChunk, ListId};

use super::*;
use crate::testing::{Pod, rv};

/// A node with so many pods in a namespace, and as many in the next one.
fn node(pods: usize) -> NodeCell {
    let namespaces = ["a", "b"].into_iter();
    let objects = namespaces.flat_map(|namespace| {
        (0..pods).map(move |number| {
            Pod::new(namespace, &format!("pod-{number:05}"), &format!("{namespace}-{number}")).object(5)
        })
    });
    let chunk = ListChunk { list: ListId(1), at: rv(9), seq: 0, is_last: true, objects: objects.collect() };
    let node = NodeCell::new(SlotSet::ALL, WindowBounds::default());
    node.on_feed(FeedMessage::List(chunk), Duration::ZERO).unwrap();
    node
}

#[test]
fn a_count_over_many_pieces_is_whole_and_stops_when_there_are_enough() {
    let node = node(4_500);
    let scope = |namespace: Option<&str>| Scope { namespace: namespace.map(Arc::from), name: None };
    let request = |scope: &Scope, at| CountRequest {
        history: History::FIRST,
        scope: scope.clone(),
        slots: SlotSet::ALL,
        at: rv(at),
        from: None,
        at_most: usize::MAX,
    };
    let count = |scope: &Scope, from: Option<&SnapshotStart>, at_most| {
        node.count(CountRequest { from: from.cloned(), at_most, ..request(scope, 9) }).unwrap()
    };
    assert_eq!(count(&scope(None), None, usize::MAX), 9_000);
    assert_eq!(count(&scope(Some("a")), None, usize::MAX), 4_500);
    let behind = SnapshotStart::Behind(ObjectKey::new("b", "pod-00999"));
    assert_eq!(count(&scope(Some("b")), Some(&behind), usize::MAX), 3_500);
    let enough = count(&scope(None), None, 1_000);
    assert!((1_000..9_000).contains(&enough), "{enough}");
    assert!(node.count(request(&scope(None), 8)).is_err(), "below the floor");
    let of_another = CountRequest { history: History::new(1), ..request(&scope(None), 9) };
    assert_eq!(node.count(of_another), Err(Unanswered::Empty));
}
