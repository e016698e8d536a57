//! A session in words of the wire, without a connection: what the merges say of names and what becomes of it.

use weir_core::History;
use weir_core::interest::{Interest, Scope};
use weir_core::message::{Credit, FromNode as NodeSaid, NamesEdit, Open, OpenId, ToNode as NodeMessage};
use weir_core::mirror::{JsonForm, MirrorSpec};
use weir_core::selector::LabelSelector;
use weir_core::statement::{SourceId, Statement};
use weir_core::{ObjectKey, ResourceVersion};
use weir_daemon::Lifecycle;
use weir_proto::session::{Attached, Names, Said};

use super::super::remote::Said as Heard;
use super::*;

fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

fn number() -> MirrorNumber {
    MirrorNumber::new(3).unwrap()
}

/// A node with a session that carries pods.
fn peer() -> (Arc<Peer>, Arc<RemoteMirror>) {
    let dialer = Dialer::new(None, Lifecycle::new());
    let peer = Arc::new(Peer::new(0, "127.0.0.1:1".parse().unwrap(), dialer));
    peer.state.lock().outgoing = Some(Arc::default());
    let mirror = peer.mirror(&pods(), &Arc::default());
    hear(&peer, &FromNode::Attached(attached()));
    mirror.take();
    said(&peer);
    (peer, mirror)
}

fn attached() -> Attached {
    let spec = MirrorSpec {
        resource: pods(),
        kind: "Pod".into(),
        is_namespaced: true,
        form: JsonForm::BuiltIn,
        schema: Arc::new(ObjectSchema::bare()),
    };
    Attached { mirror: number(), spec, facts: None, history: History::FIRST }
}

fn hear(peer: &Peer, message: &FromNode) {
    peer.hear(Encoded::Message(message.into()), SlotSet::ALL).unwrap();
}

fn flush(peer: &Peer, parts: Vec<NodeSaid>) {
    let parts = parts.into_iter().map(|said| (number(), Said::Node(said)));
    hear(peer, &FromNode::Flush(parts.collect()));
}

/// What waits to be said.
fn said(peer: &Peer) -> Vec<ToNode> {
    let outgoing = peer.state.lock().outgoing.clone().unwrap();
    let waiting = outgoing.take();
    waiting.into_iter().map(|message| message.try_into().unwrap()).collect()
}

/// Who is live, and where.
fn live(mirror: &RemoteMirror) -> Vec<(u64, u64)> {
    let live = mirror.take().into_iter().filter_map(|heard| match heard {
        Heard::Node(NodeSaid::Live { id, at }) => Some((id.0, at.get())),
        Heard::Node(_) | Heard::Up(_) | Heard::Down => None,
    });
    live.collect()
}

fn open(id: u64, name: &str) -> NodeMessage {
    let scope = Scope { namespace: Some("ns".into()), name: Some(name.into()) };
    let interest = Arc::new(Interest::new(scope, LabelSelector::everything(), Vec::new(), None));
    NodeMessage::Open(Open { id: OpenId(id), interest, slots: SlotSet::ALL, credit: Credit(9) })
}

#[test]
fn what_is_wanted_by_name_is_one_registration_on_the_wire() {
    let (peer, mirror) = peer();
    (0..3).for_each(|id| mirror.send(open(id, &format!("pod-{id}"))));
    let mut first = said(&peer);
    let Some(ToNode::Open(set)) = first.pop() else { panic!("{first:?}") };
    assert!(first.is_empty(), "the others wait for the answer");
    assert_eq!((set.registration.mirror, &set.names), (number(), &Some(vec![ObjectKey::new("ns", "pod-0")])));
    let (id, at) = (set.registration.id, ResourceVersion::new(7));
    flush(&peer, vec![NodeSaid::Live { id, at }]);
    assert_eq!(live(&mirror), [(0, 7)]);
    let names = |messages: &[ToNode]| match messages {
        [ToNode::Names(Names { registration, added, removed, .. })] => {
            assert_eq!(registration.id, id);
            (
                added.iter().map(ToString::to_string).collect(),
                removed.iter().map(ToString::to_string).collect(),
            )
        }
        other => panic!("{other:?}"),
    };
    let (added, removed): (Vec<String>, Vec<String>) = names(&said(&peer));
    assert_eq!((added, removed), (vec!["ns/pod-1".to_owned(), "ns/pod-2".to_owned()], Vec::new()));
    // The answer to the change, and another close, which is said at once then.
    mirror.send(NodeMessage::Close(OpenId(0)));
    assert!(said(&peer).is_empty());
    flush(&peer, vec![NodeSaid::Named { id, edit: NamesEdit::FIRST, at: ResourceVersion::new(9) }]);
    assert_eq!(live(&mirror), [(1, 9), (2, 9)]);
    assert_eq!(names(&said(&peer)), (Vec::new(), vec!["ns/pod-0".to_owned()]));
    // A name that is there is live at once, and the fan-out is woken for it.
    mirror.send(open(3, "pod-1"));
    assert_eq!(live(&mirror), [(3, 0)], "no statement was heard");
}

#[test]
fn what_was_registered_by_name_ends_with_the_session() {
    let (peer, mirror) = peer();
    mirror.send(open(0, "pod-0"));
    let [ToNode::Open(first)] = &said(&peer)[..] else { panic!("no open") };
    peer.down();
    mirror.send(open(1, "pod-1"));
    peer.state.lock().outgoing = Some(Arc::default());
    let spec = (*mirror.spec().borrow().clone().unwrap()).clone();
    hear(
        &peer,
        &FromNode::Attached(Attached { mirror: number(), spec, facts: None, history: History::FIRST }),
    );
    mirror.send(open(2, "pod-0"));
    let [ToNode::Open(second)] = &said(&peer)[..] else { panic!("no open") };
    assert!(second.registration.id > first.registration.id, "what was said of the first is for nobody");
    flush(&peer, vec![NodeSaid::Live { id: first.registration.id, at: ResourceVersion::new(7) }]);
    assert_eq!(live(&mirror), []);
    flush(&peer, vec![NodeSaid::Live { id: second.registration.id, at: ResourceVersion::new(8) }]);
    assert_eq!(live(&mirror), [(2, 8)]);
}

/// The positions of which the node is told that somebody waits for them.
fn awaited(peer: &Peer) -> Vec<u64> {
    let said = said(peer).into_iter().map(|message| match message {
        ToNode::Reach(mirror, at) if mirror == number() => at.get(),
        other => panic!("{other:?}"),
    });
    said.collect()
}

#[test]
fn a_node_is_told_of_one_awaited_position_at_a_time() {
    let (peer, mirror) = peer();
    let to = |at: u64| {
        NodeSaid::Said(Statement::nothing(SourceId(1), ResourceVersion::ZERO, ResourceVersion::new(at)))
    };
    flush(&peer, vec![to(10)]);
    for at in [9, 10, 12, 11, 14, 13] {
        mirror.reach(ResourceVersion::new(at));
    }
    assert_eq!(awaited(&peer), [12], "it is there, or has been told of another");
    flush(&peer, vec![to(11)]);
    assert_eq!(awaited(&peer), [0; 0]);
    flush(&peer, vec![to(12)]);
    assert_eq!(awaited(&peer), [14]);
    flush(&peer, vec![to(20)]);
    assert_eq!(awaited(&peer), [0; 0]);
    // What the node held is over, and so is what it was told.
    mirror.reach(ResourceVersion::new(30));
    assert_eq!(awaited(&peer), [30]);
    flush(&peer, vec![NodeSaid::History(History::new(1)), to(5)]);
    mirror.reach(ResourceVersion::new(7));
    assert_eq!(awaited(&peer), [7]);
}

#[test]
fn a_mirror_that_was_forgotten_before_the_node_carried_it_is_left_to_the_node() {
    let (peer, mirror) = peer();
    peer.forget(&pods());
    assert!(matches!(said(&peer).as_slice(), [ToNode::Detach(told)] if *told == number()));
    hear(&peer, &FromNode::Attached(attached()));
    assert!(matches!(said(&peer).as_slice(), [ToNode::Detach(told)] if *told == number()));
    assert!(mirror.take().is_empty(), "nobody here hears of it");
}
