//! Answers with the log of an interest, in statements of which each begins where the one before it ended. The floor is
//! checked for each of them anew; an answer never says more than the store's frontier.

use std::sync::Arc;

use tonic::Status;
use weir_core::ResourceVersion;
use weir_core::message::{InterestEvent, LogRequest};
use weir_core::statement::Statement;
use weir_daemon::peer::Caller;
use weir_proto::limits::BATCH_BYTES;
use weir_proto::read::LogAnswer;
use weir_proto::{MirrorRange, wire};

use super::Serving;
use super::out::{Lost, Out};
use crate::host::Hosted;
use crate::node::cell::NodeCell;

/// A log that is being read.
struct Replay {
    cell: Arc<NodeCell>,
    range: MirrorRange,
    /// What is left of the question.
    request: LogRequest,
}

/// Answers until `to`, the frontier, or the piece that cannot be answered.
pub(super) async fn run(
    (serving, caller): (Arc<Serving>, Caller),
    hosted: Arc<Hosted>,
    request: LogRequest,
    out: Out<wire::LogAnswer>,
) {
    let _room = tokio::select! {
        biased;
        () = out.gone() => return,
        () = out.stopping() => return out.end(Lost::Stopping.into()).await,
        room = serving.bulk.enter(caller) => room,
    };
    let range = MirrorRange { mirror: hosted.resource().clone(), slots: request.slots };
    let replay = Replay { cell: hosted.cell.clone(), range, request };
    if let Err(lost) = replay.answer(&out).await {
        out.end(Status::from(lost)).await;
    }
}

// === impl Replay ===

impl Replay {
    /// The first statement is said in any case; a frontier that has not moved since is not repeated.
    async fn answer(mut self, out: &Out<wire::LogAnswer>) -> Result<(), Lost> {
        let begin = self.request.after;
        loop {
            let statement = match self.cell.log(&self.request) {
                Ok(statement) => statement,
                Err(unanswered) => {
                    return out.send((&LogAnswer::Unanswered(unanswered)).into()).await;
                }
            };
            let (after, to) = (self.request.after, statement.to());
            if to > after || after == begin {
                for statement in messages(&statement) {
                    let answer = LogAnswer::Statement { range: self.range.clone(), statement };
                    out.send((&answer).into()).await?;
                }
            }
            if to == after || to >= self.request.to {
                return Ok(());
            }
            self.request.after = to;
            tokio::task::yield_now().await;
        }
    }
}

/// The statement in messages of bounded size.
fn messages(statement: &Statement<InterestEvent>) -> impl Iterator<Item = Statement<InterestEvent>> {
    let mut left = Some((statement.after(), statement.events()));
    std::iter::from_fn(move || {
        let (after, events) = left.take()?;
        let (part, rest) = events.split_at(first(events));
        let to = match (rest, part.last()) {
            ([], _) | (_, None) => statement.to(),
            (_, Some(last)) => {
                left = Some((last.rv, rest));
                last.rv
            }
        };
        Some(part_of(statement, (after, to), part))
    })
}

/// How many events fill a message.
fn first(events: &[InterestEvent]) -> usize {
    let mut bytes = 0;
    let is_room = |event: &&InterestEvent| {
        let has_room = bytes < BATCH_BYTES;
        bytes += event.object.bytes().len() + event.object.key().as_str().len();
        has_room
    };
    events.iter().take_while(is_room).count()
}

fn part_of(
    whole: &Statement<InterestEvent>,
    (after, to): (ResourceVersion, ResourceVersion),
    events: &[InterestEvent],
) -> Statement<InterestEvent> {
    Statement::new(whole.source(), after, to, events.to_vec()).expect("a part of what rises strictly rises")
}
