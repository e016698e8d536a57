//! What a feed finds out before it reads: what its resource is. Instances are asked one after the other, since one that is
//! down says nothing about the resource.

use std::time::Duration;

use tokio::time::timeout;
use tracing::warn;
use weir_core::GroupVersionResource;
use weir_core::mirror::MirrorSpec;
use weir_proto::session::Unmirrored;
use weir_upstream::{ConnectError, Instance, Role, Upstream};

use super::NoFeed;
use crate::feed::describe::{self, DescribeError};

/// How long one instance may take. Subscribers of other processes wait meanwhile; see their limit for the first answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How long a resource that cannot be mirrored is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// How long upstream is left alone that could not be asked.
const UNREACHABLE_FOR: Duration = Duration::from_millis(500);

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotDescribed {
    #[error("connect to upstream")]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Describe(#[from] DescribeError),
    #[error("upstream has not answered within {ANSWER_LIMIT:?}")]
    Silent,
    #[error("no instance of upstream is known")]
    NoInstance,
}

/// Asks what the resource is, beginning at one instance.
pub(super) async fn describe(
    upstream: &Upstream,
    resource: &GroupVersionResource,
    first: usize,
) -> Result<MirrorSpec, NotDescribed> {
    let instances = upstream.instances();
    let mut failed = NotDescribed::NoInstance;
    for turn in 0..instances.len() {
        let instance = &instances[(first + turn) % instances.len()];
        match timeout(ANSWER_LIMIT, ask(instance, resource)).await.unwrap_or(Err(NotDescribed::Silent)) {
            Ok(spec) => return Ok(spec),
            Err(error) => {
                let is_answer = matches!(error.why(), NoFeed::Unmirrored(_));
                warn!(%resource, instance = instance.name(), error = &error as &dyn std::error::Error, "not described");
                failed = error;
                if is_answer {
                    break;
                }
            }
        }
    }
    Err(failed)
}

async fn ask(
    instance: &std::sync::Arc<Instance>,
    resource: &GroupVersionResource,
) -> Result<MirrorSpec, NotDescribed> {
    let connection = instance.connect(Role::Feed).await?;
    Ok(describe::describe(&connection, resource).await?)
}

// === impl NotDescribed ===

impl NotDescribed {
    /// What subscribers are told.
    pub(super) fn why(&self) -> NoFeed {
        match self {
            Self::Describe(error) => of_description(error),
            Self::Connect(_) | Self::Silent | Self::NoInstance => NoFeed::Unreachable,
        }
    }

    /// How long it counts.
    pub(super) fn lasts(&self) -> Duration {
        match self.why() {
            NoFeed::Unmirrored(_) => REFUSED_FOR,
            NoFeed::Unreachable | NoFeed::Stopping => UNREACHABLE_FOR,
        }
    }
}

fn of_description(error: &DescribeError) -> NoFeed {
    match error {
        DescribeError::Request(_) => NoFeed::Unreachable,
        DescribeError::Unknown(_) => NoFeed::Unmirrored(Unmirrored::NotServed),
        DescribeError::NoWatch(_) => NoFeed::Unmirrored(Unmirrored::NotWatchable),
        DescribeError::Aggregated(_) => NoFeed::Unmirrored(Unmirrored::Aggregated),
        DescribeError::Fields(_) | DescribeError::Paths { .. } => {
            NoFeed::Unmirrored(Unmirrored::Unselectable)
        }
    }
}
