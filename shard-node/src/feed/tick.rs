//! The tick of a mirror: a write of an object that is there to be written, so that a quiet collection has an event when somebody
//! waits for one. Once the feed's stream has come to the write, everything that was acknowledged before it was sent has come too.
//!
//! A write that changes nothing is answered as well, with the revision of an older one, which proves nothing. So each tick has a
//! value of its own, and counts only where the answer shows it.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, timeout};
use tracing::{debug, info};
use weir_core::ResourceVersion;
use weir_core::mirror::MirrorSpec;
use weir_upstream::Connection;

use super::metrics::FeedCounters;
use super::request::{self, RequestError};

/// The name of every tick object.
pub const NAME: &str = "weir-tick";
/// The annotation that is written.
const ANNOTATION: &str = "weir.dev/tick";
/// Ticks of one feed are so far apart: five a second at most, each of which every watch of the kind is sent.
const APART: Duration = Duration::from_millis(200);
/// How long a mirror goes without a tick when one has failed.
const REST: Duration = Duration::from_secs(60);
/// How long upstream may take to write it. Whoever waited for it has another answer by then.
const ANSWER: Duration = Duration::from_secs(1);
/// The longest name that a namespace can have.
const MAX_NAMESPACE: usize = 63;

/// The namespace of the tick objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TickNamespace(Arc<str>);

/// What was given is not the name of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a namespace has small letters, digits and '-', begins and ends with one of the former, and is at most 63 long"
)]
pub struct NotANamespace;

/// The tick of one mirror, as its feed makes it.
#[derive(Debug)]
pub struct Tick {
    path: String,
    counters: FeedCounters,
    pace: Mutex<Pace>,
}

/// When the next one may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// None has failed of late.
    Works { next: Instant },
    /// The last one failed.
    Rests { until: Instant },
}

/// Why a tick failed.
#[derive(Debug, thiserror::Error)]
enum TickError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("no answer within {0:?}")]
    Silent(#[from] tokio::time::error::Elapsed),
    #[error("the answer does not show what was written")]
    Unwritten,
}

#[derive(Deserialize)]
struct Answer {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

// === impl TickNamespace ===

impl FromStr for TickNamespace {
    type Err = NotANamespace;

    fn from_str(text: &str) -> Result<Self, NotANamespace> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = text.as_bytes();
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return Err(NotANamespace) };
        let is_name = bytes.iter().all(|byte| is_plain(*byte) || *byte == b'-')
            && is_plain(*first)
            && is_plain(*last)
            && bytes.len() <= MAX_NAMESPACE;
        is_name.then(|| Self(text.into())).ok_or(NotANamespace)
    }
}

impl std::fmt::Display for TickNamespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Tick ===

impl Tick {
    /// The tick of a mirror, if its objects are in namespaces.
    pub fn of(spec: &MirrorSpec, namespace: &TickNamespace, counters: &FeedCounters) -> Option<Self> {
        let path = request::object(&spec.resource, &namespace.0, NAME);
        let pace = Mutex::new(Pace::Works { next: Instant::now() });
        // The writer's name in the object is one and the same, whatever weir calls itself in its requests.
        let path = format!("{path}?fieldManager=weir");
        spec.is_namespaced.then(|| Self { path, counters: counters.clone(), pace })
    }

    /// Whether none has failed of late.
    pub(super) fn works(&self) -> bool {
        match *self.pace.lock() {
            Pace::Works { .. } => true,
            Pace::Rests { until } => until <= Instant::now(),
        }
    }

    /// When the next one may be sent.
    pub(super) fn due(&self) -> Instant {
        match *self.pace.lock() {
            Pace::Works { next } => next,
            Pace::Rests { until } => until,
        }
    }

    /// Sends one and says at which revision it was written; `None` where it was not, which is not tried again for a while.
    pub(super) async fn write(&self, connection: &Connection) -> Option<ResourceVersion> {
        self.begin();
        let written = match timeout(ANSWER, self.patch(connection)).await {
            Ok(written) => written,
            Err(elapsed) => Err(elapsed.into()),
        };
        match written {
            Ok(revision) => {
                debug!(path = self.path, %revision, "ticked");
                Some(revision)
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                info!(path = self.path, error, rest = ?REST, "no tick");
                self.fail();
                None
            }
        }
    }

    async fn patch(&self, connection: &Connection) -> Result<ResourceVersion, TickError> {
        let value = format!("{:016x}", rand::random::<u64>());
        let patch = format!(r#"{{"metadata":{{"annotations":{{"{ANNOTATION}":"{value}"}}}}}}"#);
        let answer: Answer = request::patch_metadata(connection, &self.path, patch).await?;
        answer.written(&value)
    }

    fn begin(&self) {
        self.counters.ticks.inc();
        *self.pace.lock() = Pace::Works { next: Instant::now() + APART };
    }

    fn fail(&self) {
        self.counters.failed_ticks.inc();
        *self.pace.lock() = Pace::Rests { until: Instant::now() + REST };
    }
}

// === impl Answer ===

impl Answer {
    fn written(&self, value: &str) -> Result<ResourceVersion, TickError> {
        let Metadata { resource_version, annotations } = &self.metadata;
        let is_written = annotations.get(ANNOTATION).is_some_and(|found| found == value);
        let revision = resource_version.parse().ok().filter(|_| is_written);
        revision.ok_or(TickError::Unwritten)
    }
}

#[cfg(test)]
mod tests;
