//! Answers to watches: where they begin, and what is sent before the changes.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;
use weir_core::interest::Interest;
use weir_core::options::{ListOptions, WatchIntent, WatchTimeout};
use weir_core::{ResourceVersion, Status};

use super::fresh::{self, Fresh, NotFresh, Otherwise};
use super::gate::Place;
use super::initial::Initial;
use super::pages::PageSource;
use super::watch_body::{Frames, WatchPlan};
use crate::drain::Drain;
use crate::hub::follow::Follower;
use crate::mirror::Mirror;
use crate::mirror::proofs::Proof;
use crate::passthrough::Passed;

/// The shortest time that a watch without a wish of its own lasts; the longest is twice that.
const SHORTEST: Duration = Duration::from_secs(1_800);

/// What comes of a watch.
pub enum Watched {
    /// The mirror answers, and what proved it where it had to be fresh.
    Answer(Box<WatchPlan>, Option<Proof>),
    /// Its time is over before it began.
    Over,
    /// Upstream has to answer.
    Pass(Passed),
    /// The stream is opened and ends with this error, since clients look for it there.
    Failed(Status),
}

/// Where a watch begins.
struct Beginning {
    /// The revision at which the state is read.
    content: ResourceVersion,
    /// The revision that it is the state of; what comes after is sent.
    after: ResourceVersion,
    shows_state: bool,
    has_end_bookmark: bool,
    proof: Option<Proof>,
}

/// A watch that is being answered.
#[derive(Debug)]
pub struct Watching<'a> {
    /// The mirror.
    pub mirror: &'a Mirror,
    /// What is watched.
    pub interest: &'a Arc<Interest>,
    /// How.
    pub options: &'a ListOptions,
    /// Ends it when clients are to leave.
    pub drain: &'a Drain,
}

// === impl Watching ===

impl Watching<'_> {
    /// The answer, and who gives it if the mirror does not prove in time that it is fresh.
    pub async fn answer(&self, otherwise: Otherwise) -> Result<Watched, Status> {
        let intent = self.options.watch_intent()?;
        let Some(length) = self.length() else { return Ok(Watched::Over) };
        let history = self.mirror.shards().history();
        let beginning = match begin(self.mirror, self.interest, (intent, otherwise)).await {
            Ok(beginning) => beginning,
            Err(other) => return Ok(other),
        };
        // The hub is opened before the snapshot is read, so that what comes after the snapshot is on its way already.
        let lease = self.mirror.fanout().follow(self.interest);
        if history.is_none() || self.mirror.shards().history() != history {
            return Ok(Watched::Pass(Passed::Loading));
        }
        let initial = match beginning.shows_state {
            true => match self.mirror.shards().snapshot(self.interest, beginning.content, None).await {
                Ok(snapshot) => Some(snapshot.into()),
                Err(_) => return Ok(Watched::Pass(Passed::Loading)),
            },
            false => None,
        };
        let follower = Follower::new(lease, beginning.after, history);
        let plan = self.plan((initial, beginning.has_end_bookmark), follower, length);
        Ok(Watched::Answer(Box::new(plan), beginning.proof))
    }

    /// The answer of a mirror that did not prove that it is fresh: the state is read at upstream, and what comes after it is the
    /// mirror's. `None` where there is no such state.
    pub async fn answer_after(&self, source: PageSource, place: Place) -> Result<Option<Watched>, Status> {
        let intent = self.options.watch_intent()?;
        let Some(length) = self.length() else { return Ok(Some(Watched::Over)) };
        let (limit, has_end_bookmark) = match intent {
            WatchIntent::State { has_end_bookmark, .. } => (None, has_end_bookmark),
            WatchIntent::Changes { .. } => (Some(1), false),
            WatchIntent::After(_) => return Ok(None),
        };
        let history = self.mirror.shards().history();
        let pages = match source.open(limit, place).await {
            Ok(pages) => pages,
            Err(error) => {
                tracing::debug!(error, "no state for a watch");
                return Ok(None);
            }
        };
        let lease = self.mirror.fanout().follow(self.interest);
        if history.is_none() || self.mirror.shards().history() != history {
            return Ok(None);
        }
        self.mirror.proved(pages.at());
        let follower = Follower::new(lease, pages.at(), history);
        let initial = limit.is_none().then(|| Initial::Upstream(Box::new(pages)));
        let plan = self.plan((initial, has_end_bookmark), follower, length);
        Ok(Some(Watched::Answer(Box::new(plan), Some(Proof::List))))
    }

    /// How long it lasts; `None` where its time is over before it begins.
    fn length(&self) -> Option<Duration> {
        match WatchTimeout::of(self.options.timeout_seconds) {
            WatchTimeout::Over => None,
            WatchTimeout::Unset => Some(SHORTEST.mul_f64(rand::rng().random_range(1.0..2.0))),
            WatchTimeout::After(length) => Some(length),
        }
    }

    fn plan(
        &self,
        (initial, has_end_bookmark): (Option<Initial>, bool),
        follower: Follower,
        length: Duration,
    ) -> WatchPlan {
        let facts = self.mirror.facts();
        let now = Instant::now();
        WatchPlan {
            frames: Frames::new(self.mirror.spec()),
            initial,
            has_end_bookmark,
            follower,
            bookmarks: facts
                .filter(|_| self.options.allow_watch_bookmarks)
                .map(|facts| facts.bookmark.clone()),
            // A time beyond what the clock can count is as good as none.
            deadline: now.checked_add(length).unwrap_or(now + 2 * SHORTEST),
            turn: self.drain.turn(),
        }
    }
}

async fn begin(
    mirror: &Mirror,
    interest: &Interest,
    (intent, otherwise): (WatchIntent, Otherwise),
) -> Result<Beginning, Watched> {
    let (freshness, shows_state, has_end_bookmark) = match intent {
        WatchIntent::After(after) => return resume(mirror, after).await,
        WatchIntent::State { freshness, has_end_bookmark } => (freshness, true, has_end_bookmark),
        WatchIntent::Changes { freshness } => (freshness, false, false),
    };
    let fresh = fresh::reach(mirror, &interest.scope, freshness, otherwise).await;
    let Fresh { content, label, proof } = fresh.map_err(|not_fresh| match not_fresh {
        NotFresh::Pass(why) => Watched::Pass(why),
        NotFresh::Refuse(status) => Watched::Failed(*status),
    })?;
    Ok(Beginning { content, after: label, shows_state, has_end_bookmark, proof })
}

/// A watch from a position. One beyond the mirror's own waits there for what comes after it, as long as upstream has come so
/// far: a list of another kind may have named it. Upstream below it means that its history went back.
async fn resume(mirror: &Mirror, after: ResourceVersion) -> Result<Beginning, Watched> {
    let window = mirror.window().ok_or(Watched::Pass(Passed::Loading))?;
    if !mirror.may_resume(after) {
        // Upstream would go on from there, behind what the client never got.
        return Err(Watched::Failed(Status::watch_too_old(after, window.floor)));
    }
    if after < window.floor {
        return Err(Watched::Pass(Passed::TooOld));
    }
    if after > window.frontier {
        match fresh::is_reached_upstream(mirror, after).await {
            Some(true) => {}
            Some(false) => return Err(Watched::Failed(Status::watch_too_old(after, window.floor))),
            None => return Err(Watched::Pass(Passed::NotReached)),
        }
    }
    Ok(Beginning { content: after, after, shows_state: false, has_end_bookmark: false, proof: None })
}
