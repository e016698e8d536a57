//! A service over small mirrors, and a peer that speaks to it as a proxy does: through gRPC's own client, without a socket
//! where none is wanted.

pub(crate) mod fixed;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tonic::{Request, Status, Streaming};
use weir_core::interest::Interest;
use weir_core::message::{Change, Credit, FeedMessage, ListChunk, ListId, Open as CoreOpen, OpenId};
use weir_core::mirror::{BookmarkTemplate, JsonForm, MirrorFacts, MirrorSpec};
use weir_core::object::ObjectSchema;
use weir_core::statement::{SourceId, Statement};
use weir_core::{GroupVersionResource, Object, SlotSet, WindowBounds};
use weir_daemon::Lifecycle;
use weir_daemon::peer::Caller;
use weir_proto::session::{Attached, FromNode, MirrorNumber, Open, Registration, Said, ToNode};
use weir_proto::wire::shard_client::ShardClient;
use weir_proto::wire::shard_server::ShardServer;
use weir_proto::{Encoded, Spoken, wire};

use super::ShardService;
use super::metrics::Metrics;
use super::mirrors::Mirrors;
use crate::host::Hosted;
use crate::node::cell::NodeCell;
use crate::testing::{rv, table};
use fixed::Fixed;

/// No answer of a test takes longer, by the clock of the test.
const DEADLINE: Duration = Duration::from_secs(60);

pub(super) type Client = ShardClient<ShardServer<ShardService>>;

/// A service and what it stands on.
pub(super) struct Node {
    pub(super) mirrors: Fixed,
    pub(super) lifecycle: Lifecycle,
    pub(super) metrics: Metrics,
    pub(super) service: ShardService,
}

/// A mirror, and the sender of what is learned of it.
pub(super) struct Mirror {
    pub(super) hosted: Arc<Hosted>,
    pub(super) facts: watch::Sender<Option<Arc<MirrorFacts>>>,
}

/// The other end of a session.
pub(super) struct Peer {
    say: mpsc::Sender<wire::ToNode>,
    heard: Streaming<Encoded<wire::FromNode>>,
    parts: VecDeque<(MirrorNumber, Said)>,
}

/// A request of this caller.
pub(super) fn of<T>(caller: Caller, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(caller);
    request
}

pub(super) fn resource(plural: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", plural)
}

pub(super) fn facts(list_kind: &str) -> Arc<MirrorFacts> {
    let bookmark = BookmarkTemplate::composed(&spec("pods"));
    Arc::new(MirrorFacts { list_kind: list_kind.into(), warnings: Vec::new(), bookmark })
}

/// Objects are pods in all of them.
pub(super) fn spec(plural: &str) -> MirrorSpec {
    MirrorSpec {
        resource: resource(plural),
        kind: "Pod".into(),
        is_namespaced: true,
        form: JsonForm::BuiltIn,
        schema: Arc::new(schema()),
    }
}

pub(super) fn schema() -> ObjectSchema {
    ObjectSchema::new(table()).unwrap()
}

// === impl Node ===

impl Node {
    /// Without mirrors.
    pub(super) fn new(slots: SlotSet) -> Self {
        let (mirrors, lifecycle, metrics) = (Fixed::new(slots), Lifecycle::new(), Metrics::default());
        let service = ShardService::new(Mirrors::fixed(mirrors.clone()), lifecycle.clone(), metrics.clone());
        Self { mirrors, lifecycle, metrics, service }
    }

    /// With one mirror that holds what was listed at 10.
    pub(super) fn with_pods(objects: Vec<Arc<Object>>) -> (Self, Mirror) {
        let node = Self::new(SlotSet::ALL);
        let pods = node.mirror("pods", 1);
        pods.list(10, objects);
        (node, pods)
    }

    /// A new mirror with this number that holds nothing.
    pub(super) fn mirror(&self, plural: &str, number: u32) -> Mirror {
        self.mirror_within(plural, number, WindowBounds::default())
    }

    pub(super) fn mirror_within(&self, plural: &str, number: u32, bounds: WindowBounds) -> Mirror {
        let facts = watch::Sender::new(None);
        let hosted = self.mirrors.insert(Hosted {
            number: MirrorNumber::new(number).unwrap(),
            spec: Arc::new(spec(plural)),
            facts: facts.subscribe(),
            cell: Arc::new(NodeCell::new(self.mirrors.slots(), bounds)),
        });
        Mirror { hosted, facts }
    }

    pub(super) fn client(&self) -> Client {
        ShardClient::new(ShardServer::new(self.service.clone()))
    }

    /// A session that nobody has greeted.
    pub(super) async fn silent_session(&self, caller: Caller) -> Result<Peer, Status> {
        let (say, mut said) = mpsc::channel(10_000);
        let stream = futures_util::stream::poll_fn(move |context| said.poll_recv(context));
        let heard = self.client().session(of(caller, stream)).await?.into_inner();
        Ok(Peer::new(say, heard))
    }

    pub(super) async fn session(&self) -> Peer {
        let mut peer = self.silent_session(Caller::Proxy).await.unwrap();
        peer.say(&ToNode::Hello(Spoken::OURS)).await;
        let FromNode::Welcome { slots, .. } = peer.next().await.unwrap() else { panic!("no welcome") };
        assert_eq!(slots, self.mirrors.slots());
        peer
    }

    /// A session that carries this mirror; what it says first was heard.
    pub(super) async fn session_of(&self, plural: &str) -> (Peer, MirrorNumber) {
        let mut peer = self.session().await;
        let number = peer.attach(plural).await.mirror;
        for said in ["history", "frontier"] {
            let (_, Said::Node(_)) = peer.part().await else { panic!("no {said}") };
        }
        let (_, Said::Floor(_)) = peer.part().await else { panic!("no floor") };
        (peer, number)
    }
}

// === impl Mirror ===

impl Mirror {
    pub(super) fn cell(&self) -> &NodeCell {
        &self.hosted.cell
    }

    pub(super) fn list(&self, at: u64, objects: Vec<Arc<Object>>) {
        let chunk = ListChunk { list: ListId(at), at: rv(at), seq: 0, is_last: true, objects };
        self.hear(FeedMessage::List(chunk));
    }

    pub(super) fn state(&self, (after, to): (u64, u64), changes: Vec<Change>) {
        let statement = Statement::new(SourceId(7), rv(after), rv(to), changes).unwrap();
        self.hear(FeedMessage::Statement(statement));
    }

    pub(super) fn hear(&self, message: FeedMessage) {
        self.cell().on_feed(message, Duration::ZERO).unwrap();
    }
}

// === impl Peer ===

impl Peer {
    pub(super) fn new(say: mpsc::Sender<wire::ToNode>, heard: Streaming<Encoded<wire::FromNode>>) -> Self {
        Self { say, heard, parts: VecDeque::new() }
    }

    pub(super) async fn say(&self, message: &ToNode) {
        self.say_wire(message.into()).await;
    }

    pub(super) async fn say_wire(&self, message: wire::ToNode) {
        // A node that has ended the session hears nothing more.
        let _ = self.say.send(message).await;
    }

    pub(super) async fn attach(&mut self, plural: &str) -> Attached {
        self.say(&ToNode::Attach(resource(plural))).await;
        loop {
            match self.next().await.unwrap() {
                FromNode::Attached(attached) => return attached,
                FromNode::Flush(parts) => self.parts.extend(parts),
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) async fn open(&self, mirror: MirrorNumber, id: u64, credit: u32) {
        self.open_interest(mirror, id, (Interest::everything(), credit)).await;
    }

    pub(super) async fn open_interest(
        &self,
        mirror: MirrorNumber,
        id: u64,
        (interest, credit): (Interest, u32),
    ) {
        let open = open(mirror, id, (interest, SlotSet::ALL, credit));
        self.say(&ToNode::Open(open)).await;
    }

    pub(super) async fn credit(&self, mirror: MirrorNumber, id: u64, more: u32) {
        self.say(&ToNode::Credit(registration(mirror, id), Credit(more))).await;
    }

    pub(super) async fn close(&self, mirror: MirrorNumber, id: u64) {
        self.say(&ToNode::Close(registration(mirror, id))).await;
    }

    /// The next message, whatever it is.
    pub(super) async fn next(&mut self) -> Result<FromNode, Status> {
        let message = self.next_wire().await?.ok_or_else(|| Status::ok("the session has ended"))?;
        Ok(FromNode::read(message, &schema()).unwrap())
    }

    pub(super) async fn next_wire(&mut self) -> Result<Option<wire::FromNode>, Status> {
        let message =
            tokio::time::timeout(DEADLINE, self.heard.message()).await.expect("an answer in time")?;
        Ok(message.map(|message| message.open().unwrap()))
    }

    /// The next part of a flush; beats are passed over.
    pub(super) async fn part(&mut self) -> (MirrorNumber, Said) {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return part;
            }
            match self.next().await.unwrap() {
                FromNode::Flush(parts) => self.parts.extend(parts),
                other => panic!("{other:?}"),
            }
        }
    }

    /// The next part, which must be a node's word; in short.
    pub(super) async fn said(&mut self) -> String {
        brief(&self.part().await.1)
    }

    /// Why the session ended; what is said before is passed over.
    pub(super) async fn end(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }
}

pub(super) fn open(
    mirror: MirrorNumber,
    id: u64,
    (interest, slots, credit): (Interest, SlotSet, u32),
) -> Open {
    let open = CoreOpen { id: OpenId(id), interest: Arc::new(interest), slots, credit: Credit(credit) };
    Open::of(mirror, &open, &table()).unwrap()
}

pub(super) fn registration(mirror: MirrorNumber, id: u64) -> Registration {
    Registration { mirror, id: OpenId(id) }
}

/// A part of a flush in a few characters.
pub(super) fn brief(said: &Said) -> String {
    use weir_core::message::FromNode as Node;
    match said {
        Said::Node(Node::Said(statement)) => {
            let events = statement.events().iter().map(|delivery| {
                let tags: Vec<_> =
                    delivery.tags.iter().map(|(id, kind)| format!("{kind:?}->{}", id.0)).collect();
                format!(" {}:{}", delivery.rv, tags.join(","))
            });
            format!("({}, {}]{}", statement.after(), statement.to(), events.collect::<String>())
        }
        Said::Node(Node::Live { id, at }) => format!("live {} at {at}", id.0),
        Said::Node(Node::NotMine(id)) => format!("not mine {}", id.0),
        Said::Node(Node::Left { id, at }) => format!("left {} at {at}", id.0),
        Said::Node(Node::TooOld(id)) => format!("too old {}", id.0),
        Said::Node(Node::Restored { highest, history }) => format!("restored {highest} to {}", history.get()),
        Said::Node(Node::History(history)) => format!("history {}", history.get()),
        Said::Node(Node::Named { id, edit, at }) => format!("named {} by {} at {at}", id.0, edit.get()),
        Said::Floor(floor) => format!("floor {floor}"),
    }
}
