//! A shard node of which a test says every word: real connections, and nothing behind them. Each session that a proxy begins
//! is handed to the test.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Request, Response, Status, Streaming};
use weir_core::SlotSet;
use weir_daemon::members::NodeAddress;
use weir_daemon::peer::{PeerPort, PeerServer};
use weir_daemon::{Lifecycle, StopCause};
use weir_proto::session::{FromNode, ToNode};
use weir_proto::wire::feed_server::Feed;
use weir_proto::wire::shard_server::Shard;
use weir_proto::{Encoded, Spoken, wire};

/// A hang is a failure.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The node.
pub(super) struct Node {
    pub(super) address: NodeAddress,
    lifecycle: Lifecycle,
    sessions: Mutex<Option<mpsc::Receiver<Session>>>,
}

/// One session, from the node's side.
#[derive(Debug)]
pub(super) struct Session {
    heard: Streaming<wire::ToNode>,
    say: mpsc::Sender<Result<Encoded<wire::FromNode>, Status>>,
}

#[derive(Clone, Debug)]
struct Service {
    sessions: mpsc::Sender<Session>,
}

// === impl Node ===

impl Node {
    pub(super) fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap())
    }

    fn at(address: SocketAddr) -> Self {
        let lifecycle = Lifecycle::new();
        let port = PeerPort::bind(address, None).unwrap();
        let address = port.local_address().into();
        let (sender, sessions) = mpsc::channel(16);
        let service = Service { sessions: sender };
        let server = PeerServer::new(service.clone(), service, lifecycle.clone());
        lifecycle.spawn("scripted node", server.run(port));
        Self { address, lifecycle, sessions: Mutex::new(Some(sessions)) }
    }

    /// The next session that a proxy begins; it has said hello.
    pub(super) async fn session(&self) -> Session {
        let mut sessions = self.sessions.lock().take().expect("one asks at a time");
        let session = timeout(LIMIT, sessions.recv()).await.expect("a session in time");
        *self.sessions.lock() = Some(sessions);
        let mut session = session.expect("the node runs");
        let ToNode::Hello(theirs) = session.hear().await else { panic!("hello comes first") };
        assert_eq!(theirs, Spoken::OURS);
        session
    }

    /// The next session, welcomed.
    pub(super) async fn welcome(&self, slots: SlotSet) -> Session {
        let session = self.session().await;
        session.say(&welcome(slots)).await;
        session
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.lifecycle.stop(StopCause::Asked);
    }
}

pub(super) fn welcome(slots: SlotSet) -> FromNode {
    let protocol = Spoken::OURS.agree(Spoken::OURS).unwrap();
    FromNode::Welcome { protocol, slots }
}

// === impl Session ===

impl Session {
    pub(super) async fn hear(&mut self) -> ToNode {
        let message = timeout(LIMIT, self.heard.message()).await.expect("a message in time");
        message.unwrap().expect("the session goes on").try_into().unwrap()
    }

    pub(super) async fn say(&self, message: &FromNode) {
        self.say_encoded(Encoded::Message(message.into())).await;
    }

    /// Bytes that need not be a message.
    pub(super) async fn say_bytes(&self, bytes: Vec<u8>) {
        self.say_encoded(Encoded::Bytes(bytes.into())).await;
    }

    async fn say_encoded(&self, message: Encoded<wire::FromNode>) {
        // A proxy that has left hears no more.
        let _ = self.say.send(Ok(message)).await;
    }

    /// A sign of life.
    pub(super) async fn beat(&self) {
        self.say(&FromNode::Flush(Vec::new())).await;
    }

    /// Refuses the session.
    pub(super) async fn refuse(self, status: Status) {
        let _ = self.say.send(Err(status)).await;
    }

    /// Resolves when the proxy has left.
    pub(super) async fn left(mut self) {
        let left = async { while let Ok(Some(_)) = self.heard.message().await {} };
        timeout(LIMIT, left).await.expect("the proxy leaves in time");
    }
}

// === impl Service ===

#[tonic::async_trait]
impl Shard for Service {
    type SessionStream = Answers<Encoded<wire::FromNode>>;
    type ListStream = Answers<wire::ListAnswer>;
    type LogStream = Answers<wire::LogAnswer>;

    async fn session(
        &self,
        request: Request<Streaming<wire::ToNode>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (say, said) = mpsc::channel(64);
        let session = Session { heard: request.into_inner(), say };
        self.sessions.send(session).await.map_err(|_| Status::unavailable("the test is over"))?;
        let said = stream::unfold(said, async |mut said| Some((said.recv().await?, said)));
        Ok(Response::new(said.boxed()))
    }

    async fn list(&self, _: Request<wire::List>) -> Result<Response<Self::ListStream>, Status> {
        Err(Status::unimplemented("nothing is held"))
    }

    async fn log(&self, _: Request<wire::Log>) -> Result<Response<Self::LogStream>, Status> {
        Err(Status::unimplemented("nothing is held"))
    }

    async fn count(&self, _: Request<wire::Count>) -> Result<Response<wire::CountAnswer>, Status> {
        Err(Status::unimplemented("nothing is held"))
    }

    async fn window(&self, _: Request<wire::WindowRequest>) -> Result<Response<wire::Windows>, Status> {
        Err(Status::unimplemented("nothing is held"))
    }
}

#[tonic::async_trait]
impl Feed for Service {
    type SubscribeStream = Answers<Encoded<wire::FeedAnswer>>;

    async fn subscribe(
        &self,
        _: Request<wire::Subscribe>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        Err(Status::unimplemented("no feed"))
    }

    async fn prove(&self, _: Request<wire::Prove>) -> Result<Response<wire::Proof>, Status> {
        Err(Status::unimplemented("no feed"))
    }
}

/// Waits until something is so.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        let mut tick = tokio::time::interval(Duration::from_millis(2));
        while !is_so() {
            tick.tick().await;
        }
    };
    timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("{what}: not in time"));
}

/// Nodes and a proxy's view of them, which the test steps.
pub(super) fn peers(shards: usize) -> (Arc<super::Peers>, Lifecycle) {
    let lifecycle = Lifecycle::new();
    let dialer = weir_daemon::peer::Dialer::new(None, lifecycle.clone());
    (Arc::new(super::Peers::new(dialer, lifecycle.clone(), shards)), lifecycle)
}
