//! The subscription of one mirror of this node: which feed it reads, when it leaves it for another, and what it takes of what
//! the feed says. A feed is on any node, also on this one; then there is no socket in between.
//!
//! What the node holds, and nothing else, says where it subscribes. So a feed may be left at any moment, and two may be read
//! at once: each message is judged by itself.

mod chosen;
mod follower;
mod metrics;
mod stream;
mod trials;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_core::mirror::{MirrorFacts, MirrorSpec};
use weir_proto::session::Unmirrored;

pub use follower::Follower;
pub use metrics::FollowMetrics;
pub use stream::FollowError;

/// The limits of a subscription.
#[derive(Clone, Copy, Debug)]
pub struct FollowLimits {
    /// How long a node without content waits for its first choice before it takes the next: as long as nodes may be apart
    /// that all lost everything, so that upstream lists once for all of them.
    pub first_choice: Duration,
    /// How long a better feed must be there before it is taken.
    pub back_for: Duration,
    /// How long a feed says nothing before it is compared with what others have.
    pub silent: Duration,
    /// How long others must have had what it has not said before it is left.
    pub behind: Duration,
    /// How long a feed that was left comes last.
    pub suspended: Duration,
}

/// What a subscription has told so far.
#[derive(Debug, Default)]
pub struct Told {
    /// What the mirror is, or why there is none.
    pub spec: watch::Sender<Option<Result<Arc<MirrorSpec>, Unmirrored>>>,
    /// What answers repeat of upstream's.
    pub facts: watch::Sender<Option<Arc<MirrorFacts>>>,
    /// Whether the node has ever held content.
    pub has_content: watch::Sender<bool>,
}

impl Default for FollowLimits {
    fn default() -> Self {
        Self {
            first_choice: Duration::from_secs(10),
            back_for: Duration::from_secs(10),
            silent: Duration::from_secs(1),
            behind: Duration::from_secs(1),
            suspended: Duration::from_secs(60),
        }
    }
}
