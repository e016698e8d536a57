//! What a feed finds out before it reads: what its resource is. Instances are asked one after the other, since one that is
//! down says nothing about the resource.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tracing::warn;
use weir_core::mirror::MirrorSpec;
use weir_core::{GroupResource, GroupVersionResource};
use weir_proto::session::Unmirrored;
use weir_upstream::{ConnectError, Connection, Role, Upstream};

use super::NoFeed;
use crate::feed::describe::{self, DescribeError};

/// How long one instance may take. Subscribers of other processes wait meanwhile; see their limit for the first answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How long a resource that cannot be mirrored is left alone.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// How long upstream is left alone that could not be asked.
const UNREACHABLE_FOR: Duration = Duration::from_millis(500);

/// What one instance says.
type Asked<'a, T> = BoxFuture<'a, Result<T, DescribeError>>;

/// Why nothing was found out.
#[derive(Debug, thiserror::Error)]
pub enum NotDescribed {
    /// An instance cannot be reached.
    #[error("connect to upstream")]
    Connect(#[from] ConnectError),
    /// It did not say, or what it said makes no mirror.
    #[error(transparent)]
    Describe(#[from] DescribeError),
    /// It takes too long.
    #[error("upstream has not answered within {ANSWER_LIMIT:?}")]
    Silent,
    /// There is none.
    #[error("no instance of upstream is known")]
    NoInstance,
}

/// Asks what the resource is, beginning at one instance.
pub async fn describe(
    upstream: &Upstream,
    resource: &GroupVersionResource,
    first: usize,
) -> Result<MirrorSpec, NotDescribed> {
    let ask = |connection: Connection| -> Asked<'_, MirrorSpec> {
        Box::pin(async move { describe::describe(&connection, resource).await })
    };
    anywhere(upstream, first, (&resource.group_resource(), ask)).await
}

/// Asks which version of a resource upstream prefers.
pub async fn preferred(
    upstream: &Upstream,
    resource: &GroupResource,
) -> Result<GroupVersionResource, NotDescribed> {
    let ask = |connection: Connection| -> Asked<'_, GroupVersionResource> {
        Box::pin(async move { describe::preferred(&connection, resource).await })
    };
    anywhere(upstream, 0, (resource, ask)).await
}

/// Asks one instance after the other until one answers, if only that there is no such thing.
async fn anywhere<'a, T>(
    upstream: &Upstream,
    first: usize,
    (resource, ask): (&GroupResource, impl Fn(Connection) -> Asked<'a, T>),
) -> Result<T, NotDescribed> {
    let instances = upstream.instances();
    let mut failed = NotDescribed::NoInstance;
    for turn in 0..instances.len() {
        let instance = &instances[(first + turn) % instances.len()];
        let asked = async { Ok(ask(instance.connect(Role::Feed).await?).await?) };
        match timeout(ANSWER_LIMIT, asked).await.unwrap_or(Err(NotDescribed::Silent)) {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                warn!(%resource, instance = instance.name(), error = &error as &dyn std::error::Error, "not described");
                let is_answer = error.is_answer();
                failed = error;
                if is_answer {
                    break;
                }
            }
        }
    }
    Err(failed)
}

// === impl NotDescribed ===

impl NotDescribed {
    /// Whether upstream says so; if not, it may say something else another time.
    pub fn is_answer(&self) -> bool {
        matches!(self.why(), NoFeed::Unmirrored(_))
    }

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
