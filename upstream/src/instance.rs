//! One apiserver. Its name is for people; what vouches for data is the id of a connection, since behind a balancer two
//! connections of one instance may end at two apiservers.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use tracing::{info, warn};
use weir_daemon::Lifecycle;

use crate::{
    access::{Access, Identity},
    addresses::Target,
    connection::{Connection, Role},
    error::ConnectError,
    pool::Pool,
};

/// After a failed connect an instance is tried last for this long, doubled with each further failure.
const FIRST_PENALTY: Duration = Duration::from_secs(1);
const LAST_PENALTY: Duration = Duration::from_secs(30);

/// One of the apiservers that weir reads from.
pub struct Instance {
    pub(crate) target: Target,
    pub(crate) access: Arc<Access>,
    pub(crate) lifecycle: Lifecycle,
    /// Connections for requests that say themselves whose they are.
    pub(crate) pool: Pool,
    /// Those of the front proxy.
    pub(crate) front: Pool,
    /// Those for questions of weir's own.
    pub(crate) own: Pool,
    health: Mutex<Health>,
}

#[derive(Debug, Default)]
struct Health {
    failures: u32,
    failed: Option<Instant>,
    suspect_until: Option<Instant>,
}

// === impl Instance ===

impl Instance {
    pub(crate) fn new(target: Target, access: Arc<Access>, lifecycle: Lifecycle) -> Self {
        let pool = |identity| Pool::new(identity);
        let (front, own) = (pool(Identity::Front), pool(Identity::Own));
        Self { target, access, lifecycle, pool: pool(Identity::Bare), front, own, health: Mutex::default() }
    }

    /// How people call it: host and port.
    pub fn name(&self) -> &str {
        &self.target.name
    }

    /// Opens a connection of weir's own, for one role.
    pub async fn connect(self: &Arc<Self>, role: Role) -> Result<Connection, ConnectError> {
        Connection::open(Arc::clone(self), role).await
    }

    /// Whether the last attempt to connect failed a short time ago.
    pub fn is_suspect(&self) -> bool {
        self.health().suspect_until.is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn note_connected(&self) {
        let before = std::mem::take(&mut *self.health());
        if before.failures > 0 {
            info!(instance = self.name(), failures = before.failures, "instance can be reached again");
        }
    }

    /// The first failure is worth a line; the ones after it say nothing new.
    pub(crate) fn note_unreachable(&self, error: &ConnectError) {
        let mut health = self.health();
        if health.failures == 0 {
            let error = error as &dyn std::error::Error;
            warn!(instance = self.name(), error, "instance cannot be reached");
        }
        let penalty = FIRST_PENALTY.saturating_mul(1 << health.failures.min(5)).min(LAST_PENALTY);
        health.failures = health.failures.saturating_add(1);
        let now = Instant::now();
        health.failed = Some(now);
        health.suspect_until = Some(now + penalty);
    }

    /// Whether a connect failed at or after `since`, and none has come about after it.
    pub(crate) fn failed_since(&self, since: Instant) -> bool {
        self.health().failed.is_some_and(|at| at >= since)
    }

    fn health(&self) -> std::sync::MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("name", &self.target.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::bare;

    #[tokio::test(start_paused = true)]
    async fn each_failure_makes_an_instance_suspect_for_longer_up_to_a_limit() {
        let life = Lifecycle::new();
        let upstream = bare(&life, vec!["http://127.0.0.1:1".parse().unwrap()]).await;
        let instance = Arc::clone(&upstream.instances()[0]);
        let error = ConnectError::NoInstance;
        for seconds in [1, 2, 4, 8, 16, 30, 30, 30] {
            instance.note_unreachable(&error);
            tokio::time::advance(Duration::from_millis(seconds * 1000 - 1)).await;
            assert!(instance.is_suspect(), "{seconds}");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(!instance.is_suspect(), "{seconds}");
        }
        instance.note_unreachable(&error);
        assert!(instance.failed_since(Instant::now()));
        instance.note_connected();
        assert!(!instance.is_suspect() && !instance.failed_since(Instant::now()));
    }
}
