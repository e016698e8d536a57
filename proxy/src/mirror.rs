//! One mirror as the proxy sees it, and the registry of all of them. A mirror starts when it is named in the configuration,
//! or after an authorized request that it would serve and where it saves something; it can answer once every shard holds a
//! list. It ends when nobody has used it for long, or when upstream no longer serves its resource.

pub mod check;
mod demand;
pub mod feed;
mod holding;
mod life;
mod nodes;
pub mod points;
pub mod proofs;
pub mod registry;
pub mod remaining;
pub mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;
use weir_core::ResourceVersion;
use weir_core::mirror::{MirrorFacts, MirrorSpec};
use weir_core::window::Window;

use self::check::Suspicion;
use self::feed::Feed;
use self::points::Points;
use self::proofs::Proofs;
use self::remaining::Remaining;
use crate::hub::fanout::Fanout;
use crate::shards::Shards;

/// After upstream was restored, old positions are refused for so long: every client-go retries within 30 s, and a number
/// of the old history cannot be told from one of the new.
const REFUSE_AFTER_RESTORE: Duration = Duration::from_secs(75);

/// How long an answer waits for replicas to come to what was shown before, and how often it looks.
const BEHIND_LIMIT: Duration = Duration::from_secs(1);
const BEHIND_LOOK: Duration = Duration::from_millis(10);

/// One mirror.
#[derive(Debug)]
pub struct Mirror {
    spec: Arc<MirrorSpec>,
    feed: Feed,
    fanout: Arc<Fanout>,
    proofs: Proofs,
    /// The highest revision that a list was ever shown at.
    shown: AtomicU64,
    /// The highest revision that upstream was proved to have come to.
    proved: AtomicU64,
    refused: Mutex<Option<Refused>>,
    remaining: Remaining,
    points: Points,
    /// The last reason to check whether the mirror is what upstream holds.
    suspected: watch::Sender<Option<Suspicion>>,
}

/// Positions that may belong to a history that upstream went back from.
#[derive(Clone, Copy, Debug)]
struct Refused {
    up_to: ResourceVersion,
    until: Instant,
}

// === impl Mirror ===

impl Mirror {
    pub(crate) fn new(spec: Arc<MirrorSpec>, feed: Feed, (fanout, proofs): (Arc<Fanout>, Proofs)) -> Self {
        Self {
            spec,
            feed,
            fanout,
            proofs,
            shown: AtomicU64::new(0),
            proved: AtomicU64::new(0),
            refused: Mutex::default(),
            remaining: Remaining::default(),
            points: Points::default(),
            suspected: watch::Sender::new(None),
        }
    }

    /// What is mirrored.
    pub fn spec(&self) -> &Arc<MirrorSpec> {
        &self.spec
    }

    /// What answers repeat of upstream's, once the first list is there.
    pub fn facts(&self) -> Option<Arc<MirrorFacts>> {
        self.feed.facts().borrow().clone()
    }

    /// The feed, for questions to upstream.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Waits until all shards can answer at `revision` or later.
    pub async fn reached(&self, revision: ResourceVersion) {
        self.fanout.reached(revision).await;
    }

    /// Merges and hubs.
    pub fn fanout(&self) -> &Arc<Fanout> {
        &self.fanout
    }

    /// How many single objects upstream is asked for.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// What is counted of proofs.
    pub fn proofs(&self) -> &Proofs {
        &self.proofs
    }

    /// The shards.
    pub fn shards(&self) -> &Shards {
        self.fanout.shards()
    }

    /// The revisions that all shards can answer.
    pub fn window(&self) -> Option<Window> {
        self.shards().window()
    }

    /// The newest revision that all shards can answer, never lower than what was shown before; `None` while there is none.
    pub fn newest(&self) -> Option<ResourceVersion> {
        let newest = self.window()?.frontier;
        let shown = self.shown.fetch_max(newest.get(), Ordering::AcqRel);
        (shown <= newest.get()).then_some(newest)
    }

    /// The same, waiting a moment where the replicas that are left are behind what was shown.
    pub async fn newest_or_behind(&self) -> Option<ResourceVersion> {
        let deadline = Instant::now() + BEHIND_LIMIT;
        loop {
            let newest = self.newest();
            if newest.is_some() || self.window().is_none() || Instant::now() >= deadline {
                return newest;
            }
            tokio::time::sleep(BEHIND_LOOK).await;
        }
    }

    /// How many objects are left behind pages.
    pub fn remaining(&self) -> &Remaining {
        &self.remaining
    }

    /// Remembers a revision that upstream gave.
    pub fn proved(&self, revision: ResourceVersion) {
        self.proved.fetch_max(revision.get(), Ordering::AcqRel);
    }

    /// The highest revision that upstream is known to have come to.
    pub fn highest_proved(&self) -> ResourceVersion {
        ResourceVersion::new(self.proved.load(Ordering::Acquire))
    }

    /// The mirror held something else than upstream, which may mean that it has yet to come there.
    pub fn suspect(&self, suspicion: Suspicion) {
        self.suspected.send_replace(Some(suspicion));
    }

    fn suspicions(&self) -> watch::Receiver<Option<Suspicion>> {
        self.suspected.subscribe()
    }

    /// Whether a client may go on from `after`: false for a position that may be of another history.
    pub fn may_resume(&self, after: ResourceVersion) -> bool {
        self.refused.lock().is_none_or(|refused| after > refused.up_to || Instant::now() >= refused.until)
    }

    /// Ends every watch of it, and those that begin later.
    pub(crate) fn end(&self) {
        self.fanout.end();
    }

    /// Follows what the merges find out about upstream's history; runs until dropped.
    pub(crate) async fn follow_restores(self: Arc<Self>) {
        let mut restored = self.fanout.restored();
        let mut times = restored.borrow().times;
        while restored.changed().await.is_ok() {
            let restore = *restored.borrow_and_update();
            let up_to = restore.up_to;
            if restore.times != times {
                times = restore.times;
                self.shown.store(0, Ordering::Release);
                self.proved.store(0, Ordering::Release);
                self.remaining.clear();
            }
            *self.refused.lock() = Some(Refused { up_to, until: Instant::now() + REFUSE_AFTER_RESTORE });
        }
    }
}
