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
    #[error("upstream describes the resource otherwise than when the feed began")]
    Changed,
    #[error("upstream no longer serves the resource")]
    Unserved,
}

/// What a failure says of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// Nobody answered.
    Unknown,
    /// There was an answer, and the resource is there.
    Yes,
    /// There is no such resource.
    No,
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
            Self::Connect(_) | Self::Request(_) | Self::List(_) | Self::Silent(_) => false,
            Self::WentBack { .. } | Self::Changed | Self::Unserved => false,
        }
    }

    /// What it says of the resource.
    pub(super) fn served(&self) -> Served {
        match self {
            Self::Unserved => Served::No,
            Self::Request(error)
            | Self::List(ListingError::Request(error))
            | Self::Watch(WatchError::Request(error)) => match error.code() {
                Some(404) => Served::No,
                Some(_) => Served::Yes,
                None => Served::Unknown,
            },
            Self::Connect(_) | Self::Silent(_) => Served::Unknown,
            Self::List(_) | Self::Watch(_) | Self::WentBack { .. } | Self::Changed => Served::Yes,
        }
    }
}
