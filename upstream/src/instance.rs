//! One apiserver. Its name is for people; what vouches for data is the id of a connection, since behind a balancer two
//! connections of one instance may end at two apiservers.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use weir_daemon::Lifecycle;

use crate::{
    access::Access,
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
    pub(crate) pool: Pool,
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
        Self { target, access, lifecycle, pool: Pool::default(), health: Mutex::default() }
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
        *self.health() = Health::default();
    }

    pub(crate) fn note_unreachable(&self) {
        let mut health = self.health();
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
