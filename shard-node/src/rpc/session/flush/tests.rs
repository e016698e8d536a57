//! What is cut still says the same.

use weir_core::ResourceVersion;
use weir_core::message::{EventKind, OpenId};
use weir_core::statement::SourceId;
use weir_proto::Encoded;
use weir_proto::session::FromNode;

use super::super::super::testing::schema;
use super::{BATCH_BYTES, Delivery, MirrorNumber, NodeSaid, Said, Statement, messages, wire};
use crate::testing::{Pod, rv};

fn mirror() -> MirrorNumber {
    MirrorNumber::new(1).unwrap()
}

fn delivery(at: u64, padding: usize) -> Delivery {
    let object = Pod { padding, ..Pod::new("ns", "a", "u") }.object(at);
    Delivery { rv: rv(at), present: Some(object), gone: None, tags: vec![(OpenId(1), EventKind::Added)] }
}

fn said((after, to): (u64, u64), events: Vec<Delivery>) -> (MirrorNumber, Said) {
    let statement = Statement::new(SourceId(3), rv(after), rv(to), events).unwrap();
    (mirror(), Said::Node(NodeSaid::Said(statement)))
}

fn live(id: u64) -> (MirrorNumber, Said) {
    (mirror(), Said::Node(NodeSaid::Live { id: OpenId(id), at: rv(1) }))
}

/// What a peer makes of the messages.
fn read(messages: Vec<wire::FromNode>) -> Vec<Vec<(MirrorNumber, Said)>> {
    let flush = |message| match FromNode::read(message, &schema()).unwrap() {
        FromNode::Flush(parts) => parts,
        other => panic!("{other:?}"),
    };
    messages.into_iter().map(flush).collect()
}

/// The statements among the parts.
fn statements(parts: &[(MirrorNumber, Said)]) -> Vec<&Statement<Delivery>> {
    let all = parts.iter().map(|(_, said)| said);
    all.filter_map(|said| match said {
        Said::Node(NodeSaid::Said(statement)) => Some(statement),
        Said::Node(_) | Said::Floor(_) => None,
    })
    .collect()
}

fn size(message: &wire::FromNode) -> usize {
    Encoded::Message(message.clone()).size()
}

#[test]
fn nothing_is_one_empty_flush() {
    let messages = messages(&[]);
    assert_eq!(messages.len(), 1);
    assert!(read(messages)[0].is_empty());
}

#[test]
fn a_frontier_of_each_mirror_is_one_small_message() {
    let parts: Vec<_> = (0..100).map(|_| said((5, 9), Vec::new())).collect();
    let messages = messages(&parts);
    assert_eq!(messages.len(), 1);
    assert!(size(&messages[0]) < 2_500, "{}", size(&messages[0]));
}

#[test]
fn a_long_statement_is_cut_behind_events_and_nothing_is_lost() {
    let events: Vec<_> = (11..=1_010).map(|at| delivery(at, 2_000)).collect();
    let messages = messages(&[live(1), said((10, 2_000), events), live(2)]);
    assert!((8..20).contains(&messages.len()), "{} messages for 2.2 MB", messages.len());
    assert!(messages.iter().all(|message| size(message) < BATCH_BYTES + 5_000));
    let parts: Vec<_> = read(messages).concat();
    let (Said::Node(first), Said::Node(last)) = (&parts[0].1, &parts[parts.len() - 1].1) else { panic!() };
    assert!(matches!(
        (first, last),
        (NodeSaid::Live { id: OpenId(1), .. }, NodeSaid::Live { id: OpenId(2), .. })
    ));
    let mut at = rv(10);
    for statement in statements(&parts) {
        assert_eq!((statement.after(), statement.source()), (at, SourceId(3)));
        at = statement.to();
    }
    assert_eq!(at, rv(2_000));
    let events = statements(&parts).into_iter().flat_map(Statement::events).map(|event| event.rv);
    assert!(events.eq((11..=1_010).map(ResourceVersion::new)));
}

#[test]
fn an_object_larger_than_a_message_should_be_goes_alone_and_is_read() {
    let huge = 3 << 20;
    let parts = [
        said((10, 11), vec![delivery(11, huge)]),
        said((11, 13), vec![delivery(12, huge), delivery(13, 10)]),
    ];
    let messages = messages(&parts);
    assert_eq!(messages.len(), 3);
    assert!(messages.iter().all(|message| size(message) < weir_proto::limits::MAX_MESSAGE_BYTES));
    let parts = read(messages).concat();
    let intervals: Vec<_> =
        statements(&parts).iter().map(|statement| (statement.after().get(), statement.to().get())).collect();
    assert_eq!(intervals, [(10, 11), (11, 12), (12, 13)]);
}

#[test]
fn many_small_parts_are_cut_too() {
    let parts: Vec<_> = (0..50_000).map(live).collect();
    let messages = messages(&parts);
    assert!(messages.len() > 1 && messages.iter().all(|message| size(message) < BATCH_BYTES));
    assert_eq!(read(messages).concat().len(), 50_000);
}
