//! Faults that no type rules out, one by one, and the two ways of an interest.

use std::sync::Arc;

use prost::Message;
use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::message::{Credit, Open as CoreOpen, OpenId, ToNode as NodeMessage};
use weir_core::object::ObjectSchema;
use weir_core::selector::{CustomFields, FieldTable, LabelSelector};
use weir_core::{Object, ObjectKey, Slot, SlotSet};
use weir_proto::feed::FeedAnswer;
use weir_proto::session::{FromNode, MirrorNumber, Open, ToNode};
use weir_proto::{NamedInterest, ProtocolError, wire};

use crate::samples::{gauges, object, pods, samples, spec_of};

/// The only sample that holds what is looked for.
fn find<T>(part: impl Fn(&[u8]) -> Option<T>) -> T {
    samples().iter().find_map(|sample| part(&sample.encode())).unwrap()
}

fn feed_statement() -> wire::FeedStatement {
    find(|bytes| match wire::FeedAnswer::decode(bytes).ok()?.message? {
        wire::feed_answer::Message::Statement(said) if said.events.len() == 2 => Some(said),
        _ => None,
    })
}

fn read_feed(said: wire::FeedStatement) -> Result<FeedAnswer, ProtocolError> {
    let message = Some(wire::feed_answer::Message::Statement(said));
    FeedAnswer::read(wire::FeedAnswer { message }, &ObjectSchema::bare())
}

#[test]
fn a_statement_whose_events_lie_outside_of_it_is_refused() {
    assert!(read_feed(feed_statement()).is_ok());
    let faults: [fn(&mut wire::FeedStatement); 4] = [
        |said| said.events.reverse(),
        |said| said.after = 11,
        |said| said.to = 11,
        |said| (said.events.clear(), said.after = 13).1,
    ];
    for (index, fault) in faults.into_iter().enumerate() {
        let mut said = feed_statement();
        fault(&mut said);
        let error = read_feed(said).unwrap_err();
        assert_eq!(error, ProtocolError::Invalid("statement.events"), "fault {index}");
    }
}

#[test]
fn what_stands_beside_an_object_is_what_stands_in_it() {
    let with = |change: fn(&mut wire::Object)| {
        let mut said = feed_statement();
        change(said.events[0].object.as_mut().unwrap());
        read_feed(said).unwrap_err()
    };
    assert_eq!(with(|object| object.key = "default/other".into()), ProtocolError::Invalid("object.key"));
    assert_eq!(with(|object| object.rv = 12), ProtocolError::Invalid("object.rv"));
    assert_eq!(with(|object| object.content = "{".into()), ProtocolError::Invalid("object.content"));
}

#[test]
fn an_object_that_was_received_pins_nothing() {
    let content: bytes::Bytes = object("default", "web-0", 11).bytes().clone();
    let mut said = feed_statement();
    said.events.truncate(1);
    said.events[0].object.as_mut().unwrap().content = content.clone();
    let FeedAnswer::Statement { statement, .. } = read_feed(said).unwrap() else { panic!("a statement") };
    let kept = statement.events()[0].object.bytes();
    assert_eq!(*kept, content);
    assert_ne!(kept.as_ptr(), content.as_ptr());
}

#[test]
fn whoever_sees_an_event_is_given_its_object() {
    let message = find(|bytes| match wire::FromNode::decode(bytes).ok()?.message? {
        wire::from_node::Message::Flush(flush) => Some(flush),
        _ => None,
    });
    let with = |change: fn(&mut wire::Delivery)| {
        let mut flush = message.clone();
        let deliveries = flush.said.iter_mut().find_map(|said| match said.what.as_mut()? {
            wire::said::What::Statement(said) if !said.events.is_empty() => Some(&mut said.events),
            _ => None,
        });
        change(&mut deliveries.unwrap()[0]);
        let message = Some(wire::from_node::Message::Flush(flush));
        FromNode::read(wire::FromNode { message }, &ObjectSchema::bare()).map(|_| ())
    };
    assert_eq!(with(|_| ()), Ok(()));
    assert_eq!(with(|delivery| delivery.gone = None), Err(ProtocolError::Invalid("delivery.tags")));
    assert_eq!(with(|delivery| delivery.present = None), Err(ProtocolError::Invalid("delivery.tags")));
    let nobody: fn(&mut wire::Delivery) = |delivery| delivery.tags.retain(|tag| tag.id != 3);
    assert_eq!(with(nobody), Err(ProtocolError::Invalid("delivery.tags")), "gone for nobody");
    assert_eq!(with(|delivery| delivery.rv = 22), Err(ProtocolError::Invalid("delivery.rv")));
}

#[test]
fn a_set_of_slots_has_32_bytes() {
    let slots =
        |bits: Vec<u8>| wire::Windows { slots: Some(wire::Slots { bits: bits.into() }), mirrors: vec![] };
    let read = |bits| weir_proto::read::Windows::try_from(slots(bits)).map(|windows| windows.slots);
    for length in [1, 31, 33, 64] {
        assert_eq!(read(vec![0; length]), Err(ProtocolError::Invalid("slots.bits")), "{length}");
    }
    let mut bits = vec![0; 32];
    bits[1] = 0b10;
    let mut expected = SlotSet::EMPTY;
    expected.insert(Slot::new(9));
    assert_eq!(read(bits), Ok(expected));
}

/// An interest in the second field of `table`.
fn second_field(table: &FieldTable) -> Interest {
    assert!(table.fields().len() > 1);
    let term = FieldTerm { target: FieldTarget::Field(1), is_negated: false, value: "x".into() };
    Interest::new(Scope::default(), LabelSelector::everything(), vec![term], None)
}

fn gauge_table(paths: &[&str]) -> FieldTable {
    let json_paths = paths.iter().map(|&path| path.to_owned()).collect();
    let custom = CustomFields { is_namespaced: true, json_paths };
    spec_of(gauges(), Some(&custom)).schema.table().clone()
}

#[test]
fn a_field_goes_by_its_path_not_by_its_place() {
    let theirs = gauge_table(&[".spec.size", ".spec.color"]);
    let interest = second_field(&theirs);
    let named = NamedInterest::of(&interest, &theirs).unwrap();
    assert_eq!(named.clone().resolve(&theirs).unwrap(), interest);

    let ours = gauge_table(&[".spec.color", ".spec.shape", ".spec.size"]);
    let resolved = named.clone().resolve(&ours).unwrap();
    let json =
        br#"{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"spec":{"color":"x","size":"y"}}"#;
    let schema = ObjectSchema::new(ours).unwrap();
    assert!(resolved.matches(&Object::parse(json, &schema).unwrap()));

    let lacking = gauge_table(&[".spec.size", ".spec.shape"]);
    assert_eq!(named.resolve(&lacking), Err(ProtocolError::Invalid("interest.fields")), "never ignored");
}

#[test]
fn a_registration_arrives_as_it_was_made() {
    let spec = spec_of(pods(), None);
    let table = spec.schema.table();
    let open = CoreOpen {
        id: OpenId(5),
        interest: Arc::new(second_field(table)),
        slots: SlotSet::of_shard(0, 3),
        credit: Credit(9),
    };
    let sent = ToNode::Open(Open::of(MirrorNumber::new(1).unwrap(), &open, table).unwrap());
    let ToNode::Open(received) = ToNode::try_from(wire::ToNode::from(&sent)).unwrap() else { panic!("open") };
    let names = vec![ObjectKey::new("ns", "a"), ObjectKey::new("ns", "b")];
    let named = Open { names: Some(names.clone()), ..received.clone() };
    let ToNode::Open(named) = ToNode::try_from(wire::ToNode::from(&ToNode::Open(named))).unwrap() else {
        panic!("open")
    };
    let received = received.resolve(table).unwrap();
    assert_eq!(format!("{received:?}"), format!("{:?}", NodeMessage::Open(open.clone())));
    let named = named.resolve(table).unwrap();
    assert_eq!(format!("{named:?}"), format!("{:?}", NodeMessage::OpenNames(open, names)), "never ignored");
}

#[test]
fn an_error_has_one_code() {
    use tonic::Code;
    let code = |error: ProtocolError| tonic::Status::from(error).code();
    assert_eq!(code(ProtocolError::Missing("x")), Code::InvalidArgument);
    assert_eq!(code(ProtocolError::Invalid("x")), Code::InvalidArgument);
    assert_eq!(code(ProtocolError::Version { oldest: 2, newest: 3 }), Code::FailedPrecondition);
    let undecodable = wire::ToNode::decode(&[0xff][..]).unwrap_err();
    assert_eq!(code(undecodable.into()), Code::InvalidArgument);
}
