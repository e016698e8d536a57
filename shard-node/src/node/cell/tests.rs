//! What takes more than one hold of the lock.

use std::time::Duration;

use weir_core::interest::Interest;
use weir_core::interest::Scope;
use weir_core::message::{Credit, ListChunk, ListId, Open};

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

#[test]
fn what_waits_for_a_session_that_takes_nothing_is_bounded_by_its_credit() {
    const REGISTRATIONS: u64 = 20;
    const CREDIT: u32 = 10;
    let node = node(0);
    let (session, wake) = (SessionId(1), Arc::new(Notify::new()));
    let outbox = node.attach(session, wake.into());
    for id in 0..REGISTRATIONS {
        let interest = Arc::new(Interest::everything());
        let open = Open { id: OpenId(id), interest, slots: SlotSet::ALL, credit: Credit(CREDIT) };
        node.on_session(session, ToNode::Open(open));
    }
    let mut longest = 0;
    for at in 10..30_000 {
        // Every other statement has no event.
        let changes = if at % 2 == 0 { vec![Pod::new("ns", "a", "u").put(at)] } else { Vec::new() };
        let statement = Statement::new(SourceId(1), rv(at - 1), rv(at), changes).unwrap();
        node.on_feed(FeedMessage::Statement(statement), Duration::ZERO).unwrap();
        longest = longest.max(outbox.waiting.lock().messages.len());
    }
    let said = REGISTRATIONS as usize * (1 + CREDIT as usize + 1) + 2;
    assert!(longest <= 2 * said, "{longest} messages wait");
    assert_eq!(node.registered(session, OpenId(1)).count, 0);
    // All of it joins, and nothing that was paid for is missing.
    let (mut position, mut events) = (rv(9), 0);
    for message in outbox.take() {
        if let FromNode::Said(statement) = message {
            assert_eq!(statement.after(), position);
            position = statement.to();
            events += statement.events().iter().map(|delivery| delivery.tags.len()).sum::<usize>();
        }
    }
    assert_eq!((position, events), (rv(29_999), REGISTRATIONS as usize * CREDIT as usize));
}
