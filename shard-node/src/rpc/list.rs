//! Answers with a snapshot, in pieces. Only the last one says that it is the end: an answer that was cut short, by whatever,
//! lacks it.

use std::collections::VecDeque;
use std::sync::Arc;

use tonic::Status;
use weir_core::message::{SnapshotChunk, SnapshotRequest, SnapshotStart, Unanswered};
use weir_core::{Object, ObjectKey};
use weir_daemon::peer::Caller;
use weir_proto::limits::BATCH_BYTES;
use weir_proto::read::ListAnswer;
use weir_proto::wire;

use super::Serving;
use super::out::{Lost, Out};
use crate::host::Hosted;
use crate::node::cell::NodeCell;

/// A snapshot that is being read.
struct Listing {
    cell: Arc<NodeCell>,
    /// What is left of the question.
    request: SnapshotRequest,
}

/// Answers until the end, the number of objects that was asked for, or the piece that cannot be answered.
pub(super) async fn run(
    (serving, caller): (Arc<Serving>, Caller),
    hosted: Arc<Hosted>,
    request: SnapshotRequest,
    out: Out<wire::ListAnswer>,
) {
    let _room = tokio::select! {
        biased;
        () = out.gone() => return,
        () = out.stopping() => return out.end(Lost::Stopping.into()).await,
        room = serving.bulk.enter(caller) => room,
    };
    let listing = Listing { cell: hosted.cell.clone(), request };
    if let Err(lost) = listing.answer(&out).await {
        out.end(Status::from(lost)).await;
    }
}

// === impl Listing ===

impl Listing {
    async fn answer(mut self, out: &Out<wire::ListAnswer>) -> Result<(), Lost> {
        loop {
            let chunk = match self.cell.snapshot(&self.request) {
                Ok(chunk) => chunk,
                Err(unanswered) => return refuse(unanswered, out).await,
            };
            let next = chunk.next.clone();
            let is_wanted = !chunk.objects.is_empty() || next.is_none();
            self.request.max_objects -= chunk.objects.len().min(self.request.max_objects);
            if is_wanted {
                for message in messages(chunk) {
                    out.send((&ListAnswer::Chunk(message)).into()).await?;
                }
            }
            match next {
                Some(key) if self.request.max_objects > 0 => {
                    self.request.from = Some(SnapshotStart::Behind(key));
                }
                Some(_) | None => return Ok(()),
            }
            tokio::task::yield_now().await;
            if out.is_lost() {
                return Err(Lost::Gone);
            }
        }
    }
}

async fn refuse(unanswered: Unanswered, out: &Out<wire::ListAnswer>) -> Result<(), Lost> {
    out.send((&ListAnswer::Unanswered(unanswered)).into()).await
}

/// The chunk in messages of bounded size; all but the last end behind their last object.
fn messages(chunk: SnapshotChunk) -> impl Iterator<Item = SnapshotChunk> {
    let SnapshotChunk { objects, next } = chunk;
    let mut left = Some((VecDeque::from(objects), next));
    std::iter::from_fn(move || {
        let (mut objects, next) = left.take()?;
        let part = first(&mut objects);
        if objects.is_empty() {
            return Some(SnapshotChunk { objects: part, next });
        }
        let behind: Option<ObjectKey> = part.last().map(|object| object.key().clone());
        left = Some((objects, next));
        Some(SnapshotChunk { objects: part, next: behind })
    })
}

/// Takes objects until they fill a message.
fn first(objects: &mut VecDeque<Arc<Object>>) -> Vec<Arc<Object>> {
    let mut part = Vec::new();
    let mut bytes = 0;
    while bytes < BATCH_BYTES
        && let Some(object) = objects.pop_front()
    {
        bytes += object.bytes().len() + object.key().as_str().len();
        part.push(object);
    }
    part
}
