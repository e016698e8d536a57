//! Why a connection to upstream was given up, or something that was read beside the main watch.

use std::time::Duration;

use weir_core::ResourceVersion;
use weir_upstream::ConnectError;

use super::list::ListingError;
use super::request::RequestError;
use super::watch::WatchError;

/// Why reading failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("connect to upstream")]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    List(#[from] ListingError),
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("upstream is at {revision}, the feed or a subscriber was at {frontier} when it was asked")]
    WentBack { revision: ResourceVersion, frontier: ResourceVersion },
}

/// The answer, or that none came in time.
pub(super) async fn within<T>(limit: Duration, answer: impl Future<Output = T>) -> Result<T, ReadError> {
    tokio::time::timeout(limit, answer).await.map_err(|_| ReadError::Silent(limit))
}

// === impl ReadError ===

impl ReadError {
    /// Whether upstream no longer has the log from the position asked for.
    pub(super) fn is_expired(&self) -> bool {
        match self {
            Self::Watch(error) => error.is_expired(),
            Self::Connect(_) | Self::Request(_) | Self::List(_) | Self::Silent(_) | Self::WentBack { .. } => {
                false
            }
        }
    }
}
