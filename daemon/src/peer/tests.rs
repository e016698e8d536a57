//! Peers over real sockets of loopback: who is let in, what happens when certificates change, and what a dialer sees. The
//! services are a double that notes who called; that "nothing was served" means that it noted nobody.

mod admission;
mod dialing;
mod hostile;
mod reload;

use std::{
    fs,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tonic::{
    Request, Response, Status, Streaming, async_trait, codegen::tokio_stream::Stream, transport::Channel,
};
use weir_proto::{
    Encoded,
    wire::{
        Count, CountAnswer, FeedAnswer, FromNode, List, ListAnswer, Log, LogAnswer, Proof, Prove, Subscribe,
        ToNode, WindowRequest, Windows, feed_server::Feed, shard_client::ShardClient, shard_server::Shard,
    },
};

use super::{
    Caller, Dialer, PeerFiles, PeerPort, PeerServer, PeerTls,
    certs::{PeerCa, PeerIdentity},
};
use crate::Lifecycle;

/// Nothing here takes long; what does hangs.
const DEADLINE: Duration = Duration::from_secs(30);

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A directory of its own, gone in the end.
pub(crate) struct Directory(PathBuf);

/// Notes who asks for windows. A subscription is silent until the process stops, a list does not even end then.
#[derive(Clone)]
struct Double {
    seen: Arc<Mutex<Vec<Option<Caller>>>>,
    life: Lifecycle,
}

/// A server of the double.
struct Node {
    address: SocketAddr,
    double: Double,
}

// === impl Directory ===

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("weir-peer-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a process's three files, over those that are there.
    fn put(&self, ca_pem: &str, identity: &PeerIdentity) -> PeerFiles {
        let path = |name| self.0.join(name);
        let files = PeerFiles { ca: path("ca.crt"), certificate: path("tls.crt"), key: path("tls.key") };
        fs::write(&files.ca, ca_pem).unwrap();
        fs::write(&files.certificate, &identity.certificate_pem).unwrap();
        fs::write(&files.key, &identity.key_pem).unwrap();
        files
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

// === impl Double ===

impl Double {
    fn seen(&self) -> Vec<Option<Caller>> {
        self.seen.lock().unwrap().clone()
    }
}

#[async_trait]
impl Feed for Double {
    type SubscribeStream = Answers<Encoded<FeedAnswer>>;

    async fn subscribe(&self, _: Request<Subscribe>) -> Result<Response<Self::SubscribeStream>, Status> {
        let stop = self.life.token().clone().cancelled_owned();
        Ok(Response::new(stream::pending().take_until(stop).boxed()))
    }

    async fn prove(&self, _: Request<Prove>) -> Result<Response<Proof>, Status> {
        Ok(Response::new(Proof { revision: 7, ..Proof::default() }))
    }
}

#[async_trait]
impl Shard for Double {
    type SessionStream = Answers<Encoded<FromNode>>;
    type ListStream = Answers<ListAnswer>;
    type LogStream = Answers<LogAnswer>;

    async fn session(&self, _: Request<Streaming<ToNode>>) -> Result<Response<Self::SessionStream>, Status> {
        Ok(Response::new(stream::pending().boxed()))
    }

    async fn list(&self, _: Request<List>) -> Result<Response<Self::ListStream>, Status> {
        Ok(Response::new(stream::pending().boxed()))
    }

    async fn log(&self, _: Request<Log>) -> Result<Response<Self::LogStream>, Status> {
        Ok(Response::new(stream::empty().boxed()))
    }

    async fn count(&self, _: Request<Count>) -> Result<Response<CountAnswer>, Status> {
        Ok(Response::new(CountAnswer::default()))
    }

    async fn window(&self, request: Request<WindowRequest>) -> Result<Response<Windows>, Status> {
        self.seen.lock().unwrap().push(Caller::of(request.extensions()));
        Ok(Response::new(Windows::default()))
    }
}

// === impl Node ===

impl Node {
    fn start(tls: Option<PeerTls>) -> Self {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), tls)
    }

    fn start_at(address: SocketAddr, tls: Option<PeerTls>) -> Self {
        let port = PeerPort::bind(address, tls).unwrap();
        let life = Lifecycle::new();
        let double = Double { seen: Arc::default(), life: life.clone() };
        let node = Self { address: port.local_address(), double: double.clone() };
        life.spawn_critical("peers", PeerServer::new(double.clone(), double, life.clone()).run(port));
        node
    }

    fn address(&self) -> String {
        self.address.to_string()
    }

    fn life(&self) -> &Lifecycle {
        &self.double.life
    }
}

/// A process with these certificates. The files are gone already.
fn tls(ca: &PeerCa, identity: &PeerIdentity) -> PeerTls {
    PeerTls::from_files(Directory::new().put(ca.pem(), identity)).unwrap()
}

fn dialer(tls: PeerTls) -> Dialer {
    Dialer::new(Some(tls), Lifecycle::new())
}

async fn ask(channel: &Channel) -> Result<(), Status> {
    let asked = ShardClient::new(channel.clone()).window(WindowRequest::default()).await;
    asked.map(|_| ())
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(DEADLINE, future).await.expect("it hangs")
}

/// Asks again and again, letting others go on between.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = tokio::time::Instant::now();
    while !is_so() {
        assert!(start.elapsed() < DEADLINE, "never: {what}");
        tokio::task::yield_now().await;
    }
}
