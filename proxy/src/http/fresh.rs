//! How fresh an answer must be, and the proof of it. Two proofs, whichever comes first: by revision, when all shards have
//! come to one that upstream gave after the request came in, to a question or to a tick; by comparison, when the mirror holds
//! exactly the objects that upstream has in the scope now. Both are asked over the connection that feeds the mirror.
//!
//! That a stream is alive proves nothing, and neither does another instance's revision. Answers of two questions are never
//! combined.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, timeout_at};
use weir_core::interest::Scope;
use weir_core::options::Freshness;
use weir_core::{ResourceVersion, Status};
use weir_shard_node::feed::scope::{Detail, MAX_OBJECTS};

use super::ticking::Ticking;
use crate::hub::pace::Pace;
use crate::mirror::Mirror;
use crate::mirror::check::{self, Suspicion};
use crate::mirror::proofs::{Outcome, Proof};
use crate::passthrough::Passed;

/// How long a mirror may take to come to the revision by itself, before upstream is asked for more: a busy one until its next
/// events, a quiet one until upstream has said its revision, where it need not wait for its own storage, and what is on its way
/// is here. One that upstream was ahead of before still needs to be compared, and a question behind another one would have to wait.
const BUSY_BY_ITSELF: Duration = Duration::from_millis(20);
const QUIET_BY_ITSELF: Duration = Duration::from_millis(4);
/// How long a second watch is not asked for where what upstream holds is: it may be written just now, and upstream itself waits
/// up to 100 ms for its storage to say how far it is.
const BESIDE_COMPARISON: Duration = Duration::from_millis(150);
/// How long upstream itself waits for a revision.
const REVISION_LIMIT: Duration = Duration::from_secs(3);

/// Who could answer if the mirror cannot prove that it is fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// Upstream, which then is asked soon.
    Upstream,
    /// Nobody: the mirror has as long as upstream takes itself.
    Nobody,
}

/// The mirror is not fresh enough.
#[derive(Debug)]
pub enum NotFresh {
    /// Upstream has to answer.
    Pass(Passed),
    /// This is the answer.
    Refuse(Box<Status>),
}

/// A state that is fresh enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// The revision at which the mirror is read.
    pub content: ResourceVersion,
    /// The revision that the scope's content is the state of. It is beyond `content` where a comparison proved it.
    pub label: ResourceVersion,
    /// What proved it, where it had to be fresh.
    pub proof: Option<Proof>,
}

// === impl Fresh ===

impl Fresh {
    /// The state at a revision.
    pub fn at(revision: ResourceVersion) -> Self {
        Self { content: revision, label: revision, proof: None }
    }

    fn proved_by(self, proof: Proof) -> Self {
        Self { proof: Some(proof), ..self }
    }
}

/// Waits until the mirror is fresh enough for what lies in the scope, and counts what proved it.
pub async fn reach(
    mirror: &Mirror,
    scope: &Scope,
    freshness: Freshness,
    otherwise: Otherwise,
) -> Result<Fresh, NotFresh> {
    let (began, pace) = (Instant::now(), mirror.fanout().pace());
    let reached = match freshness {
        Freshness::Any => return newest(mirror).await,
        Freshness::NotOlderThan(wanted) if mirror.newest().is_some_and(|newest| newest >= wanted) => {
            return newest(mirror).await;
        }
        Freshness::NotOlderThan(wanted) => become_as_new_as(mirror, scope, wanted).await,
        Freshness::Consistent => become_consistent(mirror, scope, otherwise).await,
    };
    let outcome = match &reached {
        Ok(fresh) => fresh.proof.map(Outcome::Proved),
        Err(NotFresh::Pass(_)) => Some(Outcome::Passed),
        Err(NotFresh::Refuse(_)) => Some(Outcome::Refused),
    };
    if let Some(outcome) = outcome {
        mirror.proofs().count(outcome, pace, began.elapsed());
    }
    reached
}

async fn become_as_new_as(
    mirror: &Mirror,
    scope: &Scope,
    wanted: ResourceVersion,
) -> Result<Fresh, NotFresh> {
    let compared = async {
        let asked = asked(mirror, scope);
        if !is_comparable(mirror, &asked).await {
            std::future::pending::<()>().await;
        }
        by_comparison(mirror, &asked, wanted).await
    };
    tokio::select! {
        biased;
        reached = come_by(mirror, wanted) => {
            let proof = reached?;
            Ok(newest(mirror).await?.proved_by(proof))
        }
        fresh = compared => Ok(fresh),
    }
}

async fn become_consistent(mirror: &Mirror, scope: &Scope, otherwise: Otherwise) -> Result<Fresh, NotFresh> {
    let limit = match otherwise {
        Otherwise::Upstream => mirror.proofs().limit(),
        Otherwise::Nobody => REVISION_LIMIT,
    };
    // Large, and most requests need none.
    let proved = timeout_at(Instant::now() + limit, Box::pin(prove(mirror, scope))).await;
    proved.ok().flatten().ok_or_else(|| unproved(otherwise))
}

/// Whether upstream has come to a revision beyond the mirror's; `None` where that cannot be known in time. What an answer of
/// this proxy was labelled with needs no question.
pub async fn is_reached_upstream(mirror: &Mirror, wanted: ResourceVersion) -> Option<bool> {
    if mirror.highest_proved() >= wanted {
        return Some(true);
    }
    let newest = tokio::time::timeout(REVISION_LIMIT, mirror.feed().newest(false)).await.ok().flatten()?;
    mirror.proved(newest);
    Some(newest >= wanted)
}

/// A state that holds everything that upstream had when this was called; `None` where the feed cannot ask.
async fn prove(mirror: &Mirror, scope: &Scope) -> Option<Fresh> {
    let ticking = Ticking::of(mirror);
    let mut came = pin!(ticking.came());
    let fresh = tokio::select! {
        biased;
        () = &mut came => newest(mirror).await.ok()?.proved_by(Proof::Tick),
        fresh = by_question(mirror, scope, &ticking) => fresh?,
    };
    match fresh.proof {
        Some(proof) => Some(fresh.proved_by(ticking.credit(proof, came).await)),
        None => Some(fresh),
    }
}

/// The same without a tick's own answer: by revision, and by comparison beside it where the scope is small. Upstream may take as
/// long to say its revision as for a list, so a mirror that will need both asks for both at once.
async fn by_question(mirror: &Mirror, scope: &Scope, ticking: &Ticking<'_>) -> Option<Fresh> {
    let asked = asked(mirror, scope);
    let head_start = match mirror.fanout().pace() {
        // What upstream says of the object says its revision too.
        _ if asked.name.is_some() => Duration::ZERO,
        Pace::Busy => BUSY_BY_ITSELF,
        Pace::Quiet if mirror.newest().is_some_and(|newest| newest < mirror.highest_proved()) => {
            Duration::ZERO
        }
        Pace::Quiet => QUIET_BY_ITSELF,
    };
    let comparable = OnceCell::new();
    let is_comparable = async || *comparable.get_or_init(|| is_comparable(mirror, &asked)).await;
    let compared = async {
        sleep(head_start).await;
        if !is_comparable().await {
            std::future::pending::<()>().await;
        }
        if asked.name.is_none() {
            // Where a tick is under way, what would be read of many objects is not asked for until it takes long.
            ticking.is_over().await;
        }
        by_comparison(mirror, &asked, ResourceVersion::ZERO).await
    };
    let come = async {
        if asked.name.is_some() {
            sleep(BESIDE_COMPARISON).await;
        }
        let revision = mirror.feed().newest(false).await?;
        if let Some(fresh) = come_by_itself(mirror, revision, head_start).await {
            return Some(fresh);
        }
        if asked.name.is_none()
            && is_comparable().await
            && let Some(fresh) = come_by_itself(mirror, revision, BESIDE_COMPARISON).await
        {
            return Some(fresh);
        }
        bring_to(mirror, revision, ticking).await?;
        Some(newest(mirror).await.ok()?.proved_by(Proof::CatchUp))
    };
    tokio::select! {
        biased;
        fresh = come => fresh,
        fresh = compared => Some(fresh),
    }
}

async fn come_by_itself(mirror: &Mirror, revision: ResourceVersion, limit: Duration) -> Option<Fresh> {
    timeout_at(Instant::now() + limit, mirror.reached(revision)).await.ok()?;
    Some(newest(mirror).await.ok()?.proved_by(Proof::Revision))
}

/// Waits for the revision, and brings the feed to the present unless a tick does; `None` where the feed cannot ask.
async fn bring_to(mirror: &Mirror, revision: ResourceVersion, ticking: &Ticking<'_>) -> Option<()> {
    tokio::select! {
        biased;
        () = mirror.reached(revision) => {}
        () = ticking.is_over() => {
            // The answer to the second question is not needed: what it sets going brings the mirror to the first one's.
            mirror.feed().newest(true).await?;
            mirror.reached(revision).await;
        }
    }
    Some(())
}

/// Compares until the mirror holds what upstream held, or has come past it. A difference proves nothing: what is lacking is
/// on its way. If it is not, the self-check finds out. An answer below `wanted` proves nothing of it either.
async fn by_comparison(mirror: &Mirror, scope: &Scope, wanted: ResourceVersion) -> Fresh {
    let history = mirror.shards().history();
    let held = mirror.feed().scope(scope.clone(), Detail::Metadata).await;
    let Some(held) = held.filter(|held| held.revision() >= wanted) else {
        return std::future::pending().await;
    };
    let part = check::everything_in(scope.clone());
    let mut suspicion =
        history.map(|history| Suspicion { history, scope: scope.clone(), held: held.clone() });
    let mut frontier = mirror.fanout().frontier();
    let mut by_revision = Proof::Revision;
    loop {
        let fresh = match mirror.newest() {
            Some(at) if at >= held.revision() => Some(Fresh::at(at).proved_by(by_revision)),
            Some(at) => match check::differing(mirror, &part, at, &held).await {
                Some(0) => {
                    Some(Fresh { label: held.revision(), ..Fresh::at(at).proved_by(Proof::Comparison) })
                }
                Some(_) => {
                    suspicion.take().into_iter().for_each(|suspicion| mirror.suspect(suspicion));
                    None
                }
                None => None,
            },
            None => None,
        };
        if let Some(fresh) = fresh {
            mirror.proved(fresh.label);
            return fresh;
        }
        // From now on somebody may have asked for the rest.
        by_revision = Proof::CatchUp;
        // The sender lives in the fan-out that the mirror holds, so the channel cannot close.
        let _ = frontier.changed().await;
    }
}

/// What upstream is asked about a scope: one object by its name, unless too many of its namespace are.
fn asked(mirror: &Mirror, scope: &Scope) -> Scope {
    if scope.is_one_object(mirror.spec().is_namespaced) && mirror.points().take(scope.namespace.as_ref()) {
        return scope.clone();
    }
    Scope { namespace: scope.namespace.clone(), name: None }
}

/// Whether a scope is small enough to be compared.
async fn is_comparable(mirror: &Mirror, scope: &Scope) -> bool {
    let Some(newest) = mirror.newest() else { return false };
    if scope.name.is_some() {
        return true;
    }
    let count = mirror.shards().count(scope, (newest, None), MAX_OBJECTS + 1).await;
    count.is_ok_and(|count| count <= MAX_OBJECTS)
}

async fn newest(mirror: &Mirror) -> Result<Fresh, NotFresh> {
    let at = mirror.newest_or_behind().await.ok_or(NotFresh::Pass(Passed::Loading))?;
    Ok(Fresh::at(at))
}

/// Waits until the mirror itself has come to a revision; 504 in upstream's words after as long as upstream waits.
pub async fn come_to(mirror: &Mirror, wanted: ResourceVersion) -> Result<(), NotFresh> {
    come_by(mirror, wanted).await.map(drop)
}

/// The same, and what brought it there.
async fn come_by(mirror: &Mirror, wanted: ResourceVersion) -> Result<Proof, NotFresh> {
    let deadline = Instant::now() + REVISION_LIMIT;
    if mirror.newest().is_some_and(|newest| newest >= wanted) {
        return Ok(Proof::CatchUp);
    }
    let ticking = Ticking::of(mirror);
    let mut came = pin!(ticking.came());
    let mut reached = pin!(async {
        // Whatever the answer: what counts is whether the mirror comes to the version.
        let _ = bring_to(mirror, wanted, &ticking).await;
        mirror.reached(wanted).await;
    });
    let is_reached = timeout_at(deadline, async {
        tokio::select! {
            biased;
            () = &mut reached => return,
            () = &mut came => {}
        }
        // Upstream may have yet to come to the version itself.
        reached.await;
    });
    if is_reached.await.is_ok() {
        return Ok(ticking.credit(Proof::CatchUp, came).await);
    }
    let current = mirror.newest().unwrap_or_default();
    Err(NotFresh::Refuse(Box::new(Status::too_large_resource_version(wanted, current))))
}

fn unproved(otherwise: Otherwise) -> NotFresh {
    match otherwise {
        Otherwise::Upstream => NotFresh::Pass(Passed::Freshness),
        Otherwise::Nobody => {
            let message = "the mirror could not prove in time that it is fresh";
            NotFresh::Refuse(Box::new(Status::timeout(message, 1)))
        }
    }
}
