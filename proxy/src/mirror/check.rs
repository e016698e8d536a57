//! The self-check: whether a mirror at a revision is what upstream listed at that revision. An event that was lost on the
//! way leaves no other trace, and neither does a custom resource's new default, which changes bytes and no resourceVersion.
//!
//! A difference proves something only at the list's own revision: before the mirror has come there, what is lacking may be
//! on its way. What is found false is dropped as a whole, like a history of upstream's that is over: clients have been told
//! positions behind what they never got, and those must not be resumed.

pub mod counts;
mod draw;
mod rebuilds;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, warn};
use weir_core::interest::{Interest, Scope};
use weir_core::{History, ResourceVersion};
use weir_shard_node::feed::scope::{MAX_OBJECTS, ScopeContent};

use self::counts::CheckCounts;
use self::rebuilds::Rebuilds;
use super::Mirror;

/// How often a mirror is checked without a reason. Some 2 ms of upstream's time for a thousand objects' metadata.
pub const CHECK_EVERY: Duration = Duration::from_secs(300);
/// The least time between a check and another one that has a reason: a busy mirror gives one with every other comparison.
const APART: Duration = Duration::from_secs(10);
/// How long the mirror may take to come to the revision of what it is compared with.
const COME_LIMIT: Duration = Duration::from_secs(30);
/// How often it is looked at whether all nodes have dropped what was false.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What upstream holds in a part of a collection, and that the mirror held something else when it was asked.
#[derive(Clone, Debug)]
pub struct Suspicion {
    /// The mirror's history before the question was sent.
    pub history: History,
    /// Which part.
    pub scope: Scope,
    /// What upstream answered.
    pub held: Arc<ScopeContent>,
}

/// Checks one mirror.
pub(crate) struct SelfCheck {
    mirror: Arc<Mirror>,
    suspected: watch::Receiver<Option<Suspicion>>,
    every: Duration,
    counts: CheckCounts,
    rebuilds: Rebuilds,
}

/// What a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Equal,
    /// So many objects differ.
    Differs(usize),
    /// The mirror did not come to the revision, or has left it.
    Nothing,
}

/// How many objects differ between what upstream holds in a part of a collection and the mirror at `at`; `None` where the mirror
/// cannot answer there.
pub async fn differing(
    mirror: &Mirror,
    part: &Arc<Interest>,
    at: ResourceVersion,
    held: &ScopeContent,
) -> Option<usize> {
    let mut snapshot = mirror.shards().snapshot(part, at, None).await.ok()?;
    let objects = snapshot.next(MAX_OBJECTS + 1).await.ok()?;
    held.differing(objects.iter().map(|object| &**object))
}

/// Everything in a scope.
pub fn everything_in(scope: Scope) -> Arc<Interest> {
    Arc::new(Interest::new(scope, Default::default(), Vec::new(), None))
}

// === impl SelfCheck ===

impl SelfCheck {
    pub(crate) fn new(mirror: Arc<Mirror>, every: Duration, counts: CheckCounts) -> Self {
        Self { suspected: mirror.suspicions(), mirror, every, counts, rebuilds: Rebuilds::new() }
    }

    /// Checks now and then, and when there is a reason; runs until dropped.
    pub(crate) async fn run(mut self) {
        let mut reasons_from = Instant::now();
        let mut next_round = self.next_round();
        loop {
            let suspicion = tokio::select! {
                biased;
                () = sleep_until(next_round) => {
                    next_round = self.next_round();
                    self.lead_on().await;
                    self.ask().await
                }
                suspicion = next_of(&mut self.suspected, reasons_from) => suspicion,
            };
            if let Some(suspicion) = suspicion {
                self.judge(&suspicion).await;
                reasons_from = Instant::now() + APART;
            }
        }
    }

    /// Not all mirrors, nor all proxies, at once.
    fn next_round(&self) -> Instant {
        Instant::now() + self.every.mul_f64(rand::random_range(0.75..1.25))
    }

    async fn judge(&mut self, suspicion: &Suspicion) {
        let differing = match self.check(suspicion).await {
            Found::Nothing => return,
            Found::Equal => 0,
            Found::Differs(count) => count,
        };
        self.counts.checks.inc();
        if differing == 0 {
            return;
        }
        self.counts.failures.inc();
        let (resource, at) = (&self.mirror.spec().resource, suspicion.held.revision());
        if !self.rebuilds.take() {
            error!(%resource, %at, differing, "mirror differs from upstream again, leaving it for a while");
            return;
        }
        warn!(%resource, %at, differing, "mirror differs from upstream, building it anew");
        self.rebuild(suspicion.history).await;
    }

    /// Compares at the mirror's own revision, which is enough where the two are equal, and otherwise at upstream's.
    async fn check(&self, suspicion: &Suspicion) -> Found {
        let Suspicion { history, scope, held } = suspicion;
        let (mirror, at) = (&*self.mirror, held.revision());
        let part = everything_in(scope.clone());
        if let Some(newest) = mirror.newest().filter(|newest| *newest < at)
            && differing(mirror, &part, newest, held).await == Some(0)
        {
            return Found::Equal;
        }
        let come = async {
            // Whatever the answer: what counts is whether the mirror comes to the revision.
            let _ = mirror.feed().newest(true).await;
            mirror.reached(at).await;
        };
        if timeout(COME_LIMIT, come).await.is_err() {
            return Found::Nothing;
        }
        let differing = differing(mirror, &part, at, held).await;
        match differing.filter(|_| mirror.shards().history() == Some(*history)) {
            Some(0) => Found::Equal,
            Some(count) => Found::Differs(count),
            None => Found::Nothing,
        }
    }

    /// Has every feed drop what it told of a history, until no node holds any of it. A node may be without a feed just now, or
    /// its feed out of reach.
    async fn rebuild(&self, history: History) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            if self.mirror.shards().oldest_history() > Some(history) {
                return;
            }
            self.mirror.feed().doubt(history).await;
        }
    }

    /// Nodes whose feed has missed that a history is over answer nobody; their feeds are told again.
    async fn lead_on(&self) {
        let shards = self.mirror.shards();
        let (Some(history), Some(oldest)) = (shards.history(), shards.oldest_history()) else { return };
        if oldest < history {
            self.mirror.feed().doubt(History::new(history.get().saturating_sub(1))).await;
        }
    }
}

/// The next suspicion, once it is time for one. A later one takes the place of one that waits: it holds no less.
async fn next_of(suspected: &mut watch::Receiver<Option<Suspicion>>, from: Instant) -> Option<Suspicion> {
    sleep_until(from).await;
    // The sender lives in the mirror that is checked, so the channel cannot close.
    let _ = suspected.changed().await;
    suspected.borrow_and_update().clone()
}
