//! How fresh an answer must be, and the wait for it. A mirror proves that it is fresh by a revision that upstream gives now,
//! over the connection that feeds the mirror: once all shards have come there, every write that upstream acknowledged
//! before the request is in.
//!
//! That a stream is alive proves nothing, and neither does another instance's revision.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use weir_core::options::Freshness;
use weir_core::{ResourceVersion, Status};

use crate::mirror::Mirror;
use crate::passthrough::Passed;

/// How long a busy mirror may take to come to the revision by itself, before upstream is asked for a second watch.
const BY_ITSELF: Duration = Duration::from_millis(20);
/// How long a proof may take before upstream answers instead.
const PROOF_LIMIT: Duration = Duration::from_millis(500);
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

/// Waits until the mirror's newest revision is fresh enough.
pub async fn reach(mirror: &Mirror, freshness: Freshness, otherwise: Otherwise) -> Result<(), NotFresh> {
    match freshness {
        Freshness::Any => Ok(()),
        Freshness::NotOlderThan(wanted) => reach_version(mirror, wanted).await,
        Freshness::Consistent => {
            let limit = match otherwise {
                Otherwise::Upstream => PROOF_LIMIT,
                Otherwise::Nobody => REVISION_LIMIT,
            };
            match prove(mirror, Instant::now() + limit).await {
                Some(()) => Ok(()),
                None => Err(unproved(mirror, otherwise)),
            }
        }
    }
}

/// Upstream's newest revision, asked for now; `None` where it cannot be had in time.
pub async fn newest_upstream(mirror: &Mirror) -> Option<ResourceVersion> {
    tokio::time::timeout(REVISION_LIMIT, mirror.feed().newest(false)).await.ok().flatten()
}

/// `Some` once the mirror has everything that upstream had when this was called.
async fn prove(mirror: &Mirror, deadline: Instant) -> Option<()> {
    let revision = timeout_at(deadline, mirror.feed().newest(false)).await.ok()??;
    let soon = deadline.min(Instant::now() + BY_ITSELF);
    if wait_for(mirror, revision, soon).await {
        return Some(());
    }
    // The answer to the second question is not needed: what it sets going brings the mirror to the first one's.
    timeout_at(deadline, mirror.feed().newest(true)).await.ok()??;
    wait_for(mirror, revision, deadline).await.then_some(())
}

async fn reach_version(mirror: &Mirror, wanted: ResourceVersion) -> Result<(), NotFresh> {
    let deadline = Instant::now() + REVISION_LIMIT;
    if mirror.newest().is_some_and(|newest| newest >= wanted) {
        return Ok(());
    }
    let caught_up = async {
        // Whatever the answer: what counts is whether the mirror comes to the version.
        let _ = mirror.feed().newest(true).await;
        mirror.reached(wanted).await;
    };
    if timeout_at(deadline, caught_up).await.is_ok() {
        return Ok(());
    }
    let current = mirror.newest().unwrap_or_default();
    Err(NotFresh::Refuse(Box::new(Status::too_large_resource_version(wanted, current))))
}

async fn wait_for(mirror: &Mirror, revision: ResourceVersion, deadline: Instant) -> bool {
    timeout_at(deadline, mirror.reached(revision)).await.is_ok()
}

fn unproved(mirror: &Mirror, otherwise: Otherwise) -> NotFresh {
    match otherwise {
        Otherwise::Upstream => NotFresh::Pass(Passed::Freshness),
        Otherwise::Nobody => {
            let current = mirror.newest().unwrap_or_default();
            NotFresh::Refuse(Box::new(Status::too_large_resource_version(current.next(), current)))
        }
    }
}
