//! Whether upstream's history is still the one that was read: asked on every new connection, before anything is stated
//! under it. A restored backup shows by a revision below the frontier, by another identity of the cluster, or by other
//! content at exactly the frontier.
//!
//! A lagging instance looks much the same and proves nothing. Only an answer that upstream gives consistently, compared
//! with the frontier known when it was asked, counts.

use serde::Deserialize;
use tracing::warn;
use weir_core::message::{Change, ChangeKind};
use weir_core::mirror::MirrorSpec;
use weir_core::statement::Event;
use weir_core::{Object, ObjectKey, ResourceVersion};
use weir_upstream::Connection;

use super::request::{self, RequestError};

/// A name and a namespace that no object should have; an object that did would only make the question dearer.
const NOBODY: &str = "weir-asks-for-nobody";

/// What a feed remembers of the history that it has read.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    cluster: Option<String>,
    newest: Option<Newest>,
}

/// The newest change that was read.
#[derive(Clone, Debug)]
struct Newest {
    rv: ResourceVersion,
    kind: ChangeKind,
    key: ObjectKey,
    uid: String,
}

/// What is known of upstream's history when a new connection is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// How far the feed has read; `None` before it has begun.
    pub read: Option<ResourceVersion>,
    /// The highest position of a subscriber, which may have come by another feed.
    pub by_subscribers: Option<ResourceVersion>,
}

/// What a new connection shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing speaks against going on.
    SameHistory,
    /// Upstream was restored from a backup or swapped.
    Restored,
}

#[derive(Deserialize)]
struct Listed {
    metadata: Metadata,
    #[serde(default)]
    items: Option<Vec<Item>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: String,
    uid: String,
}

// === impl Memory ===

impl Memory {
    /// Remembers a change.
    pub fn on_change(&mut self, change: &Change) {
        self.remember(change.rv(), change.kind, &change.object);
    }

    /// Remembers an object of a list.
    pub fn on_listed(&mut self, object: &Object) {
        self.remember(object.rv(), ChangeKind::Put, object);
    }

    /// Remembers what was seen meanwhile, now that it counts as read. The newest change is compared at exactly how far the
    /// feed has read, so one from beyond would look like another history.
    pub fn take_over(&mut self, seen: Self) {
        let Self { cluster, newest } = seen;
        self.cluster = self.cluster.take().or(cluster);
        self.newest = newest.or(self.newest.take());
    }

    /// Forgets what was read: it was of another history.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn remember(&mut self, rv: ResourceVersion, kind: ChangeKind, object: &Object) {
        if self.newest.as_ref().is_none_or(|newest| newest.rv <= rv) {
            self.newest = Some(Newest { rv, kind, key: object.key().clone(), uid: object.uid().to_owned() });
        }
    }

    /// Asks upstream over a new connection.
    pub async fn verify(
        &mut self,
        connection: &Connection,
        spec: &MirrorSpec,
        known: Known,
    ) -> Result<Verdict, RequestError> {
        let cluster = cluster_identity(connection).await?;
        let is_other = matches!((&self.cluster, &cluster), (Some(known), Some(found)) if known != found);
        self.cluster = cluster.or(self.cluster.take());
        let Some(highest) = known.read.max(known.by_subscribers) else { return Ok(Verdict::SameHistory) };
        if is_other {
            warn!(resource = %spec.resource, "upstream is another cluster than before");
            return Ok(Verdict::Restored);
        }
        let now = newest_revision(connection, spec).await?;
        if now < highest {
            warn!(resource = %spec.resource, %now, known = %highest, "upstream's revision went back");
            return Ok(Verdict::Restored);
        }
        let Some(frontier) = known.read else { return Ok(Verdict::SameHistory) };
        if self.newest_differs(connection, spec, frontier).await? {
            warn!(resource = %spec.resource, %frontier, "upstream has other content at the frontier");
            return Ok(Verdict::Restored);
        }
        Ok(Verdict::SameHistory)
    }

    /// A point read of the newest known object at exactly the frontier. What upstream no longer keeps proves nothing.
    async fn newest_differs(
        &self,
        connection: &Connection,
        spec: &MirrorSpec,
        frontier: ResourceVersion,
    ) -> Result<bool, RequestError> {
        let Some(newest) = &self.newest else { return Ok(false) };
        let query = format!(
            "fieldSelector=metadata.name%3D{}&resourceVersion={frontier}&resourceVersionMatch=Exact",
            newest.key.name()
        );
        let namespace = spec.is_namespaced.then(|| newest.key.namespace());
        let path = request::collection(&spec.resource, namespace, &query);
        let listed: Listed = match request::get_json(connection, &path).await {
            Ok(listed) => listed,
            Err(error) if matches!(error.code(), Some(410 | 504)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let found = listed.items.unwrap_or_default().pop().map(|item| item.metadata);
        Ok(match newest.kind {
            ChangeKind::Put => found.is_none_or(|found| {
                found.uid != newest.uid || found.resource_version != newest.rv.to_string()
            }),
            ChangeKind::Delete => found.is_some_and(|found| found.uid == newest.uid),
        })
    }
}

/// The uid of the namespace kube-system, by which clusters are told apart; `None` where weir may not read it.
async fn cluster_identity(connection: &Connection) -> Result<Option<String>, RequestError> {
    match request::get_json::<Item>(connection, "/api/v1/namespaces/kube-system").await {
        Ok(namespace) => Ok(Some(namespace.metadata.uid).filter(|uid| !uid.is_empty())),
        Err(error) if matches!(error.code(), Some(403 | 404)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Upstream's newest revision: a consistent list that finds nothing, which costs one look-up whatever the collection holds.
pub async fn newest_revision(
    connection: &Connection,
    spec: &MirrorSpec,
) -> Result<ResourceVersion, RequestError> {
    let listed: Listed = request::get_json(connection, &nobody(spec)).await?;
    Ok(listed.metadata.resource_version.parse().unwrap_or_default())
}

/// The path of a list that finds nothing.
pub(super) fn nobody(spec: &MirrorSpec) -> String {
    let query = format!("limit=1&fieldSelector=metadata.name%3D{NOBODY}");
    request::collection(&spec.resource, spec.is_namespaced.then_some(NOBODY), &query)
}
