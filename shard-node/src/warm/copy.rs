//! One copy of one donor.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tonic::{Status, Streaming};
use weir_core::interest::Interest;
use weir_core::message::{
    Change, ChangeKind, EventKind, FeedMessage, InterestEvent, ListChunk, ListId, LogRequest,
    SnapshotRequest, Unanswered,
};
use weir_core::mirror::MirrorSpec;
use weir_core::statement::Statement;
use weir_core::window::Window;
use weir_core::{History, Object, ResourceVersion, SlotSet};
use weir_daemon::peer::DialError;
use weir_proto::ProtocolError;
use weir_proto::read::{List, ListAnswer, Log, LogAnswer};

use super::Donor;
use crate::node::cell::NodeCell;
use crate::nodes::{AskError, Nodes};
use crate::store::Now;

/// Where in the donor's window the copied log begins: its length divided by this, behind the floor. The floor moves while
/// the copy is made, so each further try keeps more distance.
const PARTS: [u64; 4] = [64, 8, 2, 1];

/// How long a donor may take for one piece. Snapshots come in pieces of a quarter of a megabyte.
const PIECE_LIMIT: Duration = Duration::from_secs(10);

/// How often a donor that goes on is followed. Each time covers what happened during the time before, which is shorter and
/// shorter; what is left, the feed leads on.
const MAX_ROUNDS: usize = 8;

/// Why a donor was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// There is no connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// It does not say what it can answer.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// It refused, or was lost.
    #[error("the donor was lost")]
    Lost(#[source] Box<Status>),
    /// Its answers cannot be read.
    #[error("read the donor's answer")]
    Protocol(#[from] ProtocolError),
    /// It cannot answer.
    #[error("the donor cannot answer")]
    Unanswered(#[from] Unanswered),
    /// Its answer ended before its end.
    #[error("the donor's answer was cut short")]
    Short,
    /// It has said nothing for a while.
    #[error("nothing from the donor within {PIECE_LIMIT:?}")]
    Silent,
    /// It has nothing of this history any more.
    #[error("the donor holds another history now")]
    Changed,
}

/// A whole copy, or a log that leads on.
#[derive(Debug)]
pub(super) struct Copy {
    history: History,
    at: ResourceVersion,
    pages: Vec<Vec<Arc<Object>>>,
    log: Vec<Statement<Change>>,
}

/// What is asked of one donor.
struct Copying<'a> {
    nodes: &'a Nodes,
    donor: &'a Donor,
    spec: &'a MirrorSpec,
    slots: SlotSet,
    everything: Arc<Interest>,
}

/// Copies what a donor has of the slots.
pub(super) async fn from_donor(
    nodes: &Nodes,
    donor: &Donor,
    spec: &MirrorSpec,
    slots: SlotSet,
) -> Result<Copy, CopyError> {
    let copying = Copying { nodes, donor, spec, slots, everything: Arc::new(Interest::everything()) };
    let mut failed = CopyError::Changed;
    for part in PARTS {
        let window = copying.window().await?;
        match copying.copy_from(begin(window, part)).await {
            Err(CopyError::Unanswered(error @ Unanswered::TooOld { .. })) => failed = error.into(),
            copied => return copied,
        }
    }
    Err(failed)
}

/// Reads the log of a donor from a position on: a copy without a snapshot.
pub(super) async fn log_of(
    nodes: &Nodes,
    donor: &Donor,
    spec: &MirrorSpec,
    (slots, after): (SlotSet, ResourceVersion),
) -> Result<Copy, CopyError> {
    let copying = Copying { nodes, donor, spec, slots, everything: Arc::new(Interest::everything()) };
    copying.go_on(Copy { history: donor.history, at: after, pages: Vec::new(), log: Vec::new() }).await
}

/// A little behind the floor; with `part` 1 at the frontier.
fn begin(window: Window, part: u64) -> ResourceVersion {
    let Window { floor, frontier } = window;
    ResourceVersion::new(floor.get() + (frontier.get() - floor.get()) / part)
}

// === impl Copying ===

impl Copying<'_> {
    async fn window(&self) -> Result<Window, CopyError> {
        let mirror = &self.spec.resource;
        let windows = self.nodes.windows(&self.donor.address, std::slice::from_ref(mirror)).await?;
        let one = windows.mirrors.into_iter().find(|one| one.mirror == *mirror);
        let one = one.filter(|one| one.history == self.donor.history);
        one.and_then(|one| one.window).ok_or(CopyError::Changed)
    }

    async fn copy_from(&self, at: ResourceVersion) -> Result<Copy, CopyError> {
        let pages = self.snapshot(at).await?;
        self.go_on(Copy { history: self.donor.history, at, pages, log: Vec::new() }).await
    }

    /// Adds the log up to where the donor is.
    async fn go_on(&self, mut copy: Copy) -> Result<Copy, CopyError> {
        for _ in 0..MAX_ROUNDS {
            let to = self.window().await?.frontier;
            if copy.frontier() >= to {
                break;
            }
            self.log(&mut copy, to).await?;
        }
        Ok(copy)
    }

    async fn snapshot(&self, at: ResourceVersion) -> Result<Vec<Vec<Arc<Object>>>, CopyError> {
        let request = SnapshotRequest {
            history: self.donor.history,
            interest: self.everything.clone(),
            slots: self.slots,
            at,
            from: None,
            max_objects: usize::MAX,
        };
        let list = List::of(&self.spec.resource, &request, self.spec.schema.table())?;
        let mut client = self.nodes.shard(&self.donor.address).await?;
        let mut answers = client.list(weir_proto::wire::List::from(&list)).await.map_err(lost)?.into_inner();
        let mut pages = Vec::new();
        loop {
            match ListAnswer::read(next(&mut answers).await?, &self.spec.schema)? {
                ListAnswer::Unanswered(unanswered) => return Err(unanswered.into()),
                ListAnswer::Chunk(chunk) => {
                    pages.push(chunk.objects);
                    if chunk.next.is_none() {
                        return Ok(pages);
                    }
                }
            }
        }
    }

    /// Adds the log up to `to`.
    async fn log(&self, copy: &mut Copy, to: ResourceVersion) -> Result<(), CopyError> {
        let request = LogRequest {
            history: self.donor.history,
            interest: self.everything.clone(),
            slots: self.slots,
            after: copy.frontier(),
            to,
        };
        let log = Log::of(&self.spec.resource, &request, self.spec.schema.table())?;
        let mut client = self.nodes.shard(&self.donor.address).await?;
        let mut answers = client.log(weir_proto::wire::Log::from(&log)).await.map_err(lost)?.into_inner();
        while copy.frontier() < to {
            match LogAnswer::read(next(&mut answers).await?, &self.spec.schema)? {
                LogAnswer::Unanswered(unanswered) => return Err(unanswered.into()),
                LogAnswer::Statement { range, statement } => {
                    let is_asked = range.mirror == self.spec.resource && range.slots == self.slots;
                    if !is_asked || statement.after() != copy.frontier() {
                        return Err(ProtocolError::Invalid("log_statement.after").into());
                    }
                    copy.log.push(statement.filter_map(change_of));
                }
            }
        }
        Ok(())
    }
}

/// The next piece of an answer; the end of the stream is not one.
async fn next<T>(answers: &mut Streaming<T>) -> Result<T, CopyError> {
    let next = timeout(PIECE_LIMIT, answers.message()).await.map_err(|_| CopyError::Silent)?;
    next.map_err(lost)?.ok_or(CopyError::Short)
}

fn lost(status: Status) -> CopyError {
    CopyError::Lost(Box::new(status))
}

/// The change behind an event of the interest in everything: it sees each change as it was made.
fn change_of(event: &InterestEvent) -> Option<Change> {
    let InterestEvent { rv, kind, object } = event;
    let kind = match kind {
        EventKind::Added | EventKind::Modified => ChangeKind::Put,
        EventKind::Deleted => ChangeKind::Delete,
    };
    Some(Change { rv: *rv, kind, object: object.clone() })
}

// === impl Copy ===

impl Copy {
    /// How many objects and events it has.
    pub(super) fn size(&self) -> (usize, usize) {
        let objects = self.pages.iter().map(Vec::len).sum();
        (objects, self.log.iter().map(|statement| statement.events().len()).sum())
    }

    fn frontier(&self) -> ResourceVersion {
        self.log.last().map_or(self.at, Statement::to)
    }

    /// Hands all of it to a node as a feed would, without a pause: the node holds it as of F no longer than it takes to
    /// apply the rest. Returns what the node can answer then.
    pub(super) fn install(self, into: &NodeCell, now: Now) -> Option<Window> {
        let Self { history, at, pages, log } = self;
        let (list, count) = (ListId(rand::random()), pages.len());
        let chunks = pages.into_iter().zip(0..).map(|(objects, seq)| {
            let is_last = seq as usize + 1 == count;
            FeedMessage::List(ListChunk { list, at, seq, is_last, objects })
        });
        let restored = (history > into.history()).then_some(FeedMessage::Restored(history));
        for message in restored.into_iter().chain(chunks).chain(log.into_iter().map(FeedMessage::Statement)) {
            if into.on_feed(message, now).is_err() {
                // Somebody else has moved the node back; its feed leads it on from where it is.
                break;
            }
        }
        into.window()
    }
}
