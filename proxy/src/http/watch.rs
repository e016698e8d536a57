//! Answers to watches: where they begin, and what is sent before the changes.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::time::Instant;
use weir_core::interest::Interest;
use weir_core::options::{ListOptions, WatchIntent, WatchTimeout};
use weir_core::{ResourceVersion, Status};

use super::fresh::{self, Fresh, NotFresh, Otherwise};
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

/// The answer to a watch.
pub async fn watch(
    mirror: &Mirror,
    interest: &Arc<Interest>,
    options: &ListOptions,
    drain: &Drain,
) -> Result<Watched, Status> {
    let intent = options.watch_intent()?;
    let length = match WatchTimeout::of(options.timeout_seconds) {
        WatchTimeout::Over => return Ok(Watched::Over),
        WatchTimeout::Unset => SHORTEST.mul_f64(rand::rng().random_range(1.0..2.0)),
        WatchTimeout::After(length) => length,
    };
    let history = mirror.shards().history();
    let beginning = match begin(mirror, interest, intent).await {
        Ok(beginning) => beginning,
        Err(other) => return Ok(other),
    };
    // The hub is opened before the snapshot is read, so that what comes after the snapshot is on its way already.
    let lease = mirror.fanout().follow(interest);
    if history.is_none() || mirror.shards().history() != history {
        return Ok(Watched::Pass(Passed::Loading));
    }
    let initial = match beginning.shows_state {
        true => match mirror.shards().snapshot(interest, beginning.content, None).await {
            Ok(snapshot) => Some(snapshot),
            Err(_) => return Ok(Watched::Pass(Passed::Loading)),
        },
        false => None,
    };
    let facts = mirror.facts();
    let now = Instant::now();
    let plan = WatchPlan {
        frames: Frames::new(mirror.spec()),
        initial,
        has_end_bookmark: beginning.has_end_bookmark,
        follower: Follower::new(lease, beginning.after, history),
        bookmarks: facts.filter(|_| options.allow_watch_bookmarks).map(|facts| facts.bookmark.clone()),
        // A time beyond what the clock can count is as good as none.
        deadline: now.checked_add(length).unwrap_or(now + 2 * SHORTEST),
        turn: drain.turn(),
    };
    Ok(Watched::Answer(Box::new(plan), beginning.proof))
}

async fn begin(mirror: &Mirror, interest: &Interest, intent: WatchIntent) -> Result<Beginning, Watched> {
    let (freshness, shows_state, has_end_bookmark) = match intent {
        WatchIntent::After(after) => return resume(mirror, after).await,
        WatchIntent::State { freshness, has_end_bookmark } => (freshness, true, has_end_bookmark),
        WatchIntent::Changes { freshness } => (freshness, false, false),
    };
    let otherwise = match interest.shard {
        Some(_) => Otherwise::Nobody,
        None => Otherwise::Upstream,
    };
    let namespace = interest.scope.namespace.as_ref();
    let fresh = fresh::reach(mirror, namespace, freshness, otherwise).await;
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
