//! What a node is asked about snapshot, log and number of objects, over the connection that is not its session's.
//!
//! Questions are asked in pieces of bounded size and read to their end at once: a client that reads slowly holds no stream
//! open, and so no part of the connection's window that other lists need.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;
use weir_core::message::{
    CountRequest, InterestEvent, LogRequest, SnapshotChunk, SnapshotRequest, Unanswered,
};
use weir_core::object::ObjectSchema;
use weir_core::statement::Statement;
use weir_proto::read::{Count, CountAnswer, List, ListAnswer, Log, LogAnswer};
use weir_proto::{ProtocolError, wire};

use super::RemoteMirror;
use crate::peers::peer::Peer;

/// How long an answer about snapshot or log may take. A node that hangs is left sooner, by its session.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

// === impl RemoteMirror ===

impl RemoteMirror {
    pub(crate) async fn snapshot(&self, request: &SnapshotRequest) -> Result<SnapshotChunk, Unanswered> {
        let table = self.spec.borrow().clone().ok_or(Unanswered::Empty)?;
        let list =
            List::of(&self.resource, request, table.schema.table()).map_err(|error| self.lost(&error))?;
        self.within(async {
            let mut client = self.peer()?.bulk().await.map_err(|error| self.lost(&error))?;
            let answer = client.list(wire::List::from(&list)).await.map_err(|error| self.lost(&error))?;
            let mut pieces = answer.into_inner();
            let mut whole = SnapshotChunk { objects: Vec::new(), next: None };
            while let Some(piece) = pieces.message().await.map_err(|error| self.lost(&error))? {
                let piece =
                    ListAnswer::read(piece, &ObjectSchema::bare()).map_err(|error| self.lost(&error))?;
                match piece {
                    ListAnswer::Unanswered(unanswered) => return Err(unanswered),
                    ListAnswer::Chunk(SnapshotChunk { objects, next }) => {
                        whole.objects.extend(objects);
                        whole.next = next;
                    }
                }
                if whole.next.is_none() || whole.objects.len() >= request.max_objects {
                    return Ok(whole);
                }
            }
            // Cut short: what came is good as far as it goes, but nothing says where that is unless a piece did.
            if whole.next.is_some() { Ok(whole) } else { Err(Unanswered::Empty) }
        })
        .await
    }

    pub(crate) async fn log(&self, request: &LogRequest) -> Result<Statement<InterestEvent>, Unanswered> {
        let table = self.spec.borrow().clone().ok_or(Unanswered::Empty)?;
        let log =
            Log::of(&self.resource, request, table.schema.table()).map_err(|error| self.lost(&error))?;
        self.within(async {
            let mut client = self.peer()?.bulk().await.map_err(|error| self.lost(&error))?;
            let answer = client.log(wire::Log::from(&log)).await.map_err(|error| self.lost(&error))?;
            let first = answer.into_inner().message().await.map_err(|error| self.lost(&error))?;
            let first = first.ok_or(Unanswered::Empty)?;
            match LogAnswer::read(first, &ObjectSchema::bare()).map_err(|error| self.lost(&error))? {
                LogAnswer::Unanswered(unanswered) => Err(unanswered),
                LogAnswer::Statement { range, statement } => {
                    let is_asked = range.mirror == self.resource && range.slots == request.slots;
                    if is_asked { Ok(statement) } else { Err(self.lost(&ProtocolError::Invalid("range"))) }
                }
            }
        })
        .await
    }

    pub(crate) async fn count(&self, request: &CountRequest) -> Result<usize, Unanswered> {
        let count = Count::of(&self.resource, request);
        self.within(async {
            let mut client = self.peer()?.bulk().await.map_err(|error| self.lost(&error))?;
            let answer = client.count(wire::Count::from(&count)).await.map_err(|error| self.lost(&error))?;
            match CountAnswer::try_from(answer.into_inner()).map_err(|error| self.lost(&error))? {
                CountAnswer::Count(count) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
                CountAnswer::Unanswered(unanswered) => Err(unanswered),
            }
        })
        .await
    }

    fn peer(&self) -> Result<Arc<Peer>, Unanswered> {
        self.peer.upgrade().ok_or(Unanswered::Empty)
    }

    /// The answer of a node whose session stands; one that hangs is lost with it.
    async fn within<T>(&self, answer: impl Future<Output = Result<T, Unanswered>>) -> Result<T, Unanswered> {
        let peer = self.peer()?;
        tokio::select! {
            biased;
            () = peer.lost() => Err(Unanswered::Empty),
            answer = tokio::time::timeout(ANSWER_LIMIT, answer) => answer.unwrap_or(Err(Unanswered::Empty)),
        }
    }

    /// A node that cannot be asked answers as one that holds nothing: somebody else is asked.
    fn lost(&self, error: &(dyn std::error::Error + 'static)) -> Unanswered {
        debug!(error, resource = %self.resource, "no answer from a node");
        Unanswered::Empty
    }
}
