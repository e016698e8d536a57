//! The gRPC service of a shard node: sessions, snapshots, logs, counts and windows of the mirrors of this process. Methods
//! read a message into its strict twin, ask the mirror's node, and write its answer; nothing is decided here that the node
//! has not decided.
//!
//! What a node can't answer is an answer (`Unanswered`), never a gRPC status: a status says that the peer broke the
//! protocol, may not ask, or that the process stops.

mod access;
mod bulk;
pub mod feed;
mod list;
mod log;
pub mod metrics;
pub mod mirrors;
mod out;
mod session;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tonic::{Request, Response, Status, Streaming};
use weir_core::message::Unanswered;
use weir_core::statement::SourceId;
use weir_core::{GroupVersionResource, SlotSet};
use weir_daemon::Lifecycle;
use weir_proto::read::{
    Count, CountAnswer, List, ListAnswer, Log, LogAnswer, MirrorWindow, WindowRequest, Windows,
};
use weir_proto::wire::shard_server::Shard;
use weir_proto::{Encoded, wire};

use self::access::Method;
use self::bulk::Bulk;
use self::metrics::Metrics;
use self::mirrors::Mirrors;
use self::out::Answers;
use crate::host::Hosted;
use crate::node::SessionId;
use crate::node::cell::Outline;

/// Serves the mirrors of this process. Clones serve the same.
#[derive(Clone, Debug)]
pub struct ShardService(Arc<Serving>);

#[derive(Debug)]
struct Serving {
    mirrors: Mirrors,
    lifecycle: Lifecycle,
    metrics: Metrics,
    bulk: Bulk,
    /// The last session's number. 0 is the proxy's own in a process that is both.
    sessions: AtomicU64,
}

// === impl ShardService ===

impl ShardService {
    /// A service over these mirrors; sessions and answers are tasks of `lifecycle` and end when it stops.
    pub fn new(mirrors: Mirrors, lifecycle: Lifecycle, metrics: Metrics) -> Self {
        let (bulk, sessions) = (Bulk::default(), AtomicU64::new(0));
        Self(Arc::new(Serving { mirrors, lifecycle, metrics, bulk, sessions }))
    }
}

#[tonic::async_trait]
impl Shard for ShardService {
    type SessionStream = Answers<Encoded<wire::FromNode>>;
    type ListStream = Answers<wire::ListAnswer>;
    type LogStream = Answers<wire::LogAnswer>;

    async fn session(
        &self,
        request: Request<Streaming<wire::ToNode>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        access::check(request.extensions(), Method::Session)?;
        let (out, answers) = out::channel(&self.0.lifecycle);
        let session = session::run(self.0.clone(), request.into_inner(), out);
        self.0.lifecycle.spawn("session", session);
        Ok(Response::new(answers))
    }

    async fn list(&self, request: Request<wire::List>) -> Result<Response<Self::ListStream>, Status> {
        let caller = access::check(request.extensions(), Method::Read)?;
        let list = List::try_from(request.into_inner())?;
        let (out, answers) = out::channel(&self.0.lifecycle);
        self.0.metrics.lists.inc();
        match self.0.find(&list.range.mirror, &list.range.slots) {
            Err(unanswered) => out.answer((&ListAnswer::Unanswered(unanswered)).into()),
            Ok(hosted) => {
                let request = list.resolve(hosted.spec.schema.table())?;
                let task = list::run((self.0.clone(), caller), hosted, request, out);
                self.0.lifecycle.spawn("list", task);
            }
        }
        Ok(Response::new(answers))
    }

    async fn log(&self, request: Request<wire::Log>) -> Result<Response<Self::LogStream>, Status> {
        let caller = access::check(request.extensions(), Method::Read)?;
        let log = Log::try_from(request.into_inner())?;
        let (out, answers) = out::channel(&self.0.lifecycle);
        self.0.metrics.logs.inc();
        match self.0.find(&log.range.mirror, &log.range.slots) {
            Err(unanswered) => out.answer((&LogAnswer::Unanswered(unanswered)).into()),
            Ok(hosted) => {
                let request = log.resolve(hosted.spec.schema.table())?;
                let task = log::run((self.0.clone(), caller), hosted, request, out);
                self.0.lifecycle.spawn("log", task);
            }
        }
        Ok(Response::new(answers))
    }

    async fn count(&self, request: Request<wire::Count>) -> Result<Response<wire::CountAnswer>, Status> {
        let caller = access::check(request.extensions(), Method::Read)?;
        let count = Count::try_from(request.into_inner())?;
        let found = self.0.find(&count.range.mirror, &count.range.slots);
        let counted = match found {
            Ok(hosted) => self.0.bulk.count(caller, (&hosted.cell, count.resolve())).await,
            Err(unanswered) => Err(unanswered),
        };
        let answer = match counted {
            Ok(count) => CountAnswer::Count(count as u64),
            Err(unanswered) => CountAnswer::Unanswered(unanswered),
        };
        Ok(Response::new((&answer).into()))
    }

    async fn window(&self, request: Request<wire::WindowRequest>) -> Result<Response<wire::Windows>, Status> {
        access::check(request.extensions(), Method::Read)?;
        let WindowRequest(wanted) = request.into_inner().try_into()?;
        let windows = self.0.windows(&wanted);
        Ok(Response::new((&windows).into()))
    }
}

// === impl Serving ===

impl Serving {
    /// A number for a session, used for no other one of this process.
    fn session_id(&self) -> SessionId {
        SessionId(self.sessions.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The mirror that a question is about, if this node has it and holds all the slots.
    fn find(&self, mirror: &GroupVersionResource, slots: &SlotSet) -> Result<Arc<Hosted>, Unanswered> {
        if !self.mirrors.slots().covers(slots) {
            return Err(Unanswered::NotMine);
        }
        self.mirrors.hosted(mirror).ok_or(Unanswered::Empty)
    }

    /// What can be answered of the wanted mirrors; of all, where none is named.
    fn windows(&self, wanted: &[GroupVersionResource]) -> Windows {
        let hosted = match wanted {
            [] => self.mirrors.all(),
            wanted => wanted.iter().filter_map(|mirror| self.mirrors.hosted(mirror)).collect(),
        };
        let mirrors = hosted.iter().map(|hosted| window(hosted)).collect();
        Windows { slots: self.mirrors.slots(), mirrors }
    }
}

fn window(hosted: &Hosted) -> MirrorWindow {
    let Outline { history, source, window } = hosted.cell.outline();
    MirrorWindow { mirror: hosted.resource().clone(), source: source.unwrap_or(SourceId(0)), window, history }
}
