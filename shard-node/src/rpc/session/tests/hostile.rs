//! Peers that break the protocol: the session ends with a status that says why, or the message is for nobody.

use http_body_util::{BodyExt, Full};
use tonic::Code;
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use weir_core::SlotSet;
use weir_core::interest::Interest;
use weir_core::message::{Credit, OpenId};
use weir_daemon::peer::Caller;
use weir_proto::session::{FromNode, MirrorNumber, ToNode, Unmirrored};
use weir_proto::wire::shard_server::ShardServer;
use weir_proto::{Spoken, wire};

use super::super::super::testing::{Node, Peer, open, registration, resource};
use super::super::SessionId;

/// A session with this conversation behind the greeting, and why it ended.
async fn ended(conversation: &[wire::ToNode]) -> tonic::Status {
    let (node, _pods) = Node::with_pods(Vec::new());
    let (mut peer, _) = node.session_of("pods").await;
    for message in conversation {
        peer.say_wire(message.clone()).await;
    }
    peer.end().await
}

fn pods() -> MirrorNumber {
    MirrorNumber::new(1).unwrap()
}

fn wire_open() -> wire::Open {
    (&open(pods(), 1, (Interest::everything(), SlotSet::ALL, 9))).into()
}

fn opening(open: wire::Open) -> wire::ToNode {
    wire::ToNode { message: Some(wire::to_node::Message::Open(open)) }
}

#[tokio::test(start_paused = true)]
async fn messages_that_break_the_protocol_end_the_session() {
    let hello = (&ToNode::Hello(Spoken::OURS)).into();
    let no_slots = opening(wire::Open { slots: None, ..wire_open() });
    let short_slots = wire::Slots { bits: Bytes::from_static(b"short") };
    let short_slots = opening(wire::Open { slots: Some(short_slots), ..wire_open() });
    let labels = wire::Interest { labels: "a in (b".to_owned(), ..wire::Interest::default() };
    let labels = opening(wire::Open { interest: Some(labels), ..wire_open() });
    let path = wire::FieldPath { keys: vec!["no".to_owned(), "such".to_owned()] };
    let target = Some(wire::field_term::Target::Field(path));
    let fields = vec![wire::FieldTerm { target, ..wire::FieldTerm::default() }];
    let fields = wire::Interest { fields, ..wire::Interest::default() };
    let fields = opening(wire::Open { interest: Some(fields), ..wire_open() });
    for (message, code, text) in [
        (hello, Code::InvalidArgument, "hello comes once"),
        (wire::ToNode { message: None }, Code::InvalidArgument, "to_node.message is missing"),
        (no_slots, Code::InvalidArgument, "slots is missing"),
        (short_slots, Code::InvalidArgument, "slots.bits is invalid"),
        (labels, Code::InvalidArgument, "interest.labels is invalid"),
        (fields, Code::InvalidArgument, "interest.fields is invalid"),
    ] {
        let status = ended(&[message]).await;
        assert_eq!((status.code(), status.message()), (code, text));
    }
}

fn names(edit: u64, added: &[&str], removed: &[&str]) -> wire::ToNode {
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    let names = wire::Names { mirror: 1, id: 1, edit, added: keys(added), removed: keys(removed) };
    wire::ToNode { message: Some(wire::to_node::Message::Names(names)) }
}

fn opening_names(keys: usize) -> wire::ToNode {
    let keys = (0..keys).map(|number| format!("n/{number}")).collect();
    opening(wire::Open { names: Some(wire::NameSet { keys }), ..wire_open() })
}

#[tokio::test(start_paused = true)]
async fn changes_of_names_that_make_no_sense_end_the_session() {
    const INVALID: Code = Code::InvalidArgument;
    const TOO_MANY: (Code, &str) =
        (Code::ResourceExhausted, "more than 131072 registrations and names of one mirror");
    let many: Vec<String> = (0..131_072).map(|number| format!("m/{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let bad_key = wire::Open { names: Some(wire::NameSet { keys: vec!["a//b".to_owned()] }), ..wire_open() };
    for (conversation, (code, text)) in [
        (vec![opening(bad_key)], (INVALID, "names.keys is invalid")),
        (vec![opening_names(1), names(0, &["n/a"], &[])], (INVALID, "edit is missing")),
        (vec![opening_names(1), names(1, &["n/a"], &["n/b", "n/a"])], (INVALID, "names.removed is invalid")),
        (vec![opening_names(1), names(1, &["/"], &[])], (INVALID, "names.added is invalid")),
        (
            vec![opening_names(1), names(2, &["n/a"], &[])],
            (INVALID, "names: change 2 of id 1 where 1 is the next"),
        ),
        (
            vec![opening_names(1), names(1, &["n/a"], &[]), names(1, &["n/b"], &[])],
            (INVALID, "names: change 1 of id 1 where 2 is the next"),
        ),
        (vec![opening(wire_open()), names(1, &["n/a"], &[])], (INVALID, "names: id 1 is no name set")),
        (vec![opening_names(131_072)], TOO_MANY),
        (vec![opening_names(0), names(1, &many, &[])], TOO_MANY),
    ] {
        let status = ended(&conversation).await;
        assert_eq!((status.code(), status.message()), (code, text));
    }
}

#[tokio::test(start_paused = true)]
async fn names_that_are_taken_out_make_room_for_others() {
    let (node, pods_mirror) = Node::with_pods(Vec::new());
    let (mut peer, _) = node.session_of("pods").await;
    peer.say_wire(opening_names(131_071)).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    assert_eq!(pods_mirror.cell().registered(SessionId(1), OpenId(1)).count, 131_072);
    peer.say_wire(names(1, &[], &["n/0", "n/1", "n/none"])).await;
    peer.say_wire(names(2, &["m/0", "m/1"], &[])).await;
    assert_eq!(peer.said().await, "named 1 by 1 at 10");
    assert_eq!(peer.said().await, "named 1 by 2 at 10");
    assert_eq!(pods_mirror.cell().registered(SessionId(1), OpenId(1)).count, 131_072);
    peer.close(pods(), 1).await;
    // For a set that is gone.
    peer.say_wire(names(7, &["m/0"], &[])).await;
    peer.open(pods(), 2, 9).await;
    assert_eq!(peer.said().await, "live 2 at 10");
    assert_eq!(pods_mirror.cell().registered(SessionId(1), OpenId(2)).count, 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_begins_with_hello_and_soon() {
    let node = Node::new(SlotSet::ALL);
    let mut peer = node.silent_session(Caller::Proxy).await.unwrap();
    peer.say(&ToNode::Attach(resource("pods"))).await;
    let status = peer.end().await;
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "hello comes first"));
    let mut peer = node.silent_session(Caller::Proxy).await.unwrap();
    let status = peer.end().await;
    assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "no hello within 5 s"));
}

#[tokio::test(start_paused = true)]
async fn what_is_for_nobody_changes_nothing() {
    let (node, pods_mirror) = Node::with_pods(Vec::new());
    let (mut peer, mirror) = node.session_of("pods").await;
    for stranger in [mirror, MirrorNumber::new(4_000_000_000).unwrap()] {
        peer.say(&ToNode::Credit(registration(stranger, 77), Credit(u32::MAX))).await;
        peer.say(&ToNode::Close(registration(stranger, 77))).await;
    }
    let stranger = MirrorNumber::new(9).unwrap();
    peer.say(&ToNode::Detach(stranger)).await;
    peer.open(stranger, 1, 9).await;
    peer.say(&ToNode::Attach(resource("pods"))).await;
    peer.open(mirror, 1, u32::MAX).await;
    peer.credit(mirror, 1, u32::MAX).await;
    assert_eq!(peer.said().await, "live 1 at 10");
    let registered = pods_mirror.cell().registered(SessionId(1), OpenId(1));
    assert_eq!((registered.count, registered.has_id), (1, true));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_nobody_knows_is_refused_and_the_session_goes_on() {
    let (node, _pods) = Node::with_pods(Vec::new());
    let mut peer = node.session().await;
    peer.say(&ToNode::Attach(resource("nothings"))).await;
    let FromNode::Unmirrored { mirror, reason } = peer.next().await.unwrap() else { panic!("no answer") };
    assert_eq!((mirror, reason), (resource("nothings"), Unmirrored::NotServed));
    assert_eq!(peer.attach("pods").await.mirror, pods());
}

async fn attach_many(peer: &Peer, kinds: impl Iterator<Item = String>) {
    for kind in kinds {
        peer.say(&ToNode::Attach(resource(&kind))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_of_kinds_are_too_many() {
    let node = Node::new(SlotSet::ALL);
    let kinds = || (0..5_000).map(|number| format!("kind{number}s"));
    kinds().for_each(|kind| node.mirrors.announce(resource(&kind)));
    let mut peer = node.session().await;
    attach_many(&peer, kinds()).await;
    let status = peer.end().await;
    assert_eq!(status.code(), Code::ResourceExhausted);
    // The same one again and again is one.
    let mut peer = node.session().await;
    attach_many(&peer, (0..5_000).map(|_| "kind0s".to_owned())).await;
    node.mirror("kind0s", 1);
    let attached = loop {
        match peer.next().await.unwrap() {
            FromNode::Attached(attached) => break attached,
            FromNode::Flush(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(attached.mirror, pods());
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_message_end_the_session() {
    let node = Node::new(SlotSet::ALL);
    for garbage in [&b"\0\0\0\0\x05\xff\xff\xff\xff\xff"[..], b"\x07\0\0\0\x01\0", b"\0\xff\xff\xff\xff"] {
        let mut request = http::Request::new(Body::new(Full::new(Bytes::from_static(garbage))));
        *request.uri_mut() = "/weir.v1.Shard/Session".parse().unwrap();
        *request.method_mut() = http::Method::POST;
        request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
        request.extensions_mut().insert(Caller::Proxy);
        let response = ShardServer::new(node.service.clone()).call(request).await.unwrap();
        let collected = response.into_body().collect().await.unwrap();
        let status = collected.trailers().unwrap().get("grpc-status").unwrap().clone();
        assert_ne!(status, "0", "{garbage:?}");
    }
    assert_eq!(node.metrics.sessions.get(), 0);
}
