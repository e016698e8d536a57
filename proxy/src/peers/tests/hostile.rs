//! A node that says what no node would say. It is left, or not listened to; nothing panics, and what the others say counts
//! as before.

use std::sync::Arc;

use tokio::sync::watch;
use weir_core::message::{Delivery, EventKind, FromNode as NodeMessage, OpenId};
use weir_core::mirror::{BookmarkTemplate, JsonForm, MirrorFacts, MirrorSpec};
use weir_core::selector::FieldTable;
use weir_core::statement::{SourceId, Statement};
use weir_core::{History, Object, ResourceVersion};
use weir_proto::session::{Attached, Said, Unmirrored};

use super::*;
use crate::hub::fanout::Fanout;
use crate::link::Link;
use crate::merge::NodeIndex;
use crate::shards::Shards;

/// A mirror over an honest node of everything and a hostile one.
struct Scene {
    peers: Arc<Peers>,
    lifecycle: Lifecycle,
    fanout: Arc<Fanout>,
    honest: Session,
    hostile: Node,
    _honest_node: Node,
    honest_at: u64,
}

const NUMBER: u32 = 1;

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

fn schema() -> ObjectSchema {
    ObjectSchema::new(FieldTable::of(&pods(), None).unwrap()).unwrap()
}

fn number() -> MirrorNumber {
    MirrorNumber::new(NUMBER).unwrap()
}

fn attached(resource: GroupVersionResource) -> FromNode {
    let spec = MirrorSpec {
        resource,
        kind: "Pod".into(),
        is_namespaced: true,
        form: JsonForm::BuiltIn,
        schema: Arc::new(schema()),
    };
    let bookmark = BookmarkTemplate::composed(&spec);
    let facts = Some(MirrorFacts { list_kind: "PodList".into(), warnings: Vec::new(), bookmark });
    FromNode::Attached(Attached { mirror: number(), spec, facts, history: History::FIRST })
}

fn flush(message: NodeMessage) -> FromNode {
    FromNode::Flush(vec![(number(), Said::Node(message))])
}

fn nothing(after: u64, to: u64) -> FromNode {
    flush(NodeMessage::Said(Statement::nothing(SourceId(1), rv(after), rv(to))))
}

/// An event of a registration that may not exist.
fn delivery(at: u64, id: u64) -> FromNode {
    let json = format!(r#"{{"metadata":{{"name":"a","namespace":"b","uid":"u","resourceVersion":"{at}"}}}}"#);
    let object = Arc::new(Object::parse(json.as_bytes(), &schema()).unwrap());
    let event = Delivery {
        rv: rv(at),
        present: Some(object),
        gone: None,
        tags: vec![(OpenId(id), EventKind::Added)],
    };
    flush(NodeMessage::Said(Statement::new(SourceId(1), rv(at - 1), rv(at), vec![event]).unwrap()))
}

fn encoded(message: &FromNode) -> Vec<u8> {
    let Encoded::Bytes(bytes) = Encoded::once(&wire::FromNode::from(message)) else { unreachable!() };
    bytes.to_vec()
}

// === impl Scene ===

impl Scene {
    async fn new() -> Self {
        let (peers, lifecycle) = peers(1);
        let (honest_node, hostile) = (Node::start(), Node::start());
        let fanout = Arc::new(Fanout::new(Shards::new(vec![SlotSet::ALL])));
        lifecycle.spawn_critical("fan-out", fanout.clone().run());
        peers.follow(&[honest_node.address.clone(), hostile.address.clone()]);
        for peer in peers.all() {
            let mirror = peer.mirror(&pods(), fanout.wake());
            fanout.shards().add(NodeIndex(peer.index()), &Link::Remote(mirror));
        }
        let mut honest = honest_node.welcome(SlotSet::ALL).await;
        assert!(matches!(honest.hear().await, ToNode::Attach(resource) if resource == pods()));
        honest.say(&attached(pods())).await;
        let honest_at = 10;
        honest.say(&nothing(0, honest_at)).await;
        Self { peers, lifecycle, fanout, honest, hostile, _honest_node: honest_node, honest_at }
    }

    fn frontier(&self) -> watch::Receiver<ResourceVersion> {
        self.fanout.frontier()
    }

    /// The honest node goes on, and is heard; nobody has panicked.
    async fn is_well(&mut self) {
        let next = self.honest_at + 1;
        self.honest.say(&nothing(self.honest_at, next)).await;
        self.honest_at = next;
        let mut frontier = self.frontier();
        let reached = frontier.wait_for(|at| *at >= rv(next));
        tokio::time::timeout(scripted::LIMIT, reached).await.expect("the honest node is heard").unwrap();
        assert!(!self.lifecycle.is_stopping(), "a task panicked");
    }
}

#[tokio::test]
async fn a_node_that_speaks_garbage_is_left_and_the_others_go_on() {
    let mut scene = Scene::new().await;
    let mut object = encoded(&delivery(30, 1));
    let place = object.windows(10).position(|text| text == br#"{"metadata"#.as_slice()).unwrap();
    object[place] = b'[';
    for (round, said) in [
        vec![0xff; 40],
        Vec::new(),
        encoded(&scripted::welcome(SlotSet::ALL)),
        object,
        vec![0x2a, 0xff, 0xff, 0xff, 0xff, 0x0f],
    ]
    .into_iter()
    .enumerate()
    {
        let session = scene.hostile.welcome(SlotSet::ALL).await;
        session.say(&attached(pods())).await;
        session.say_bytes(said).await;
        session.left().await;
        let lost = round as u64 + 1;
        until("the session is lost", || scene.peers.sessions_lost() == lost).await;
        scene.is_well().await;
    }
    scene.lifecycle.stop(StopCause::Asked);
}

#[tokio::test]
async fn what_is_said_of_mirrors_and_registrations_that_nobody_has_is_nothing() {
    let mut scene = Scene::new().await;
    let session = scene.hostile.welcome(SlotSet::ALL).await;
    let services = GroupVersionResource::new("", "v1", "services");
    let before = [
        nothing(0, 1_000),
        delivery(1_000, 1),
        attached(services.clone()),
        FromNode::Unmirrored { mirror: services, reason: Unmirrored::NotServed },
        attached(pods()),
        attached(pods()),
        FromNode::Unmirrored { mirror: pods(), reason: Unmirrored::Forbidden },
        flush(NodeMessage::Live { id: OpenId(77), at: rv(3) }),
        flush(NodeMessage::NotMine(OpenId(78))),
        flush(NodeMessage::Left { id: OpenId(79), at: rv(2) }),
        flush(NodeMessage::TooOld(OpenId(u64::MAX))),
        delivery(5, 12),
        nothing(4, 5),
        nothing(9, 12),
        FromNode::Flush(vec![(number(), Said::Floor(rv(u64::MAX)))]),
    ];
    for message in &before {
        session.say(message).await;
        scene.is_well().await;
    }
    assert!(*scene.frontier().borrow() < rv(1_000), "what was said before the mirror is of no mirror");
    assert_eq!(scene.peers.sessions_lost(), 0);
    scene.lifecycle.stop(StopCause::Asked);
}
