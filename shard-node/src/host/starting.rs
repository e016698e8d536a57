//! The start of a shard node: the mirrors that are named, and those that replicas have. The node is ready when all of them
//! have content; a replica that cannot be copied, or a mirror that replicas have and upstream no longer serves, holds it up
//! for a bounded time only.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use weir_core::{GroupResource, GroupVersionResource};

use super::Host;
use crate::feeds::starting;

/// How long a start waits for what replicas have.
const REPLICAS_LIMIT: Duration = Duration::from_secs(10);

/// How soon upstream is asked again which version of a resource it prefers.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl Host {
    /// Starts what the node begins with, and keeps an eye on the other nodes. Must be called inside the runtime. Resolves when
    /// the node is ready.
    pub async fn start(self: &Arc<Self>) {
        let (nodes, stop) = (self.nodes.clone(), self.lifecycle.token().clone());
        self.lifecycle.spawn_critical("other nodes", async move {
            // Whether it was told or ended by itself, the lifecycle knows.
            let _ = stop.run_until_cancelled(nodes.run()).await;
        });
        tokio::join!(self.start_named(), async {
            if timeout(REPLICAS_LIMIT, self.start_warm()).await.is_err() {
                warn!("not all that replicas have could be copied in time");
            }
        });
    }

    /// The mirrors that the configuration names, until they have content.
    async fn start_named(self: &Arc<Self>) {
        let named = &self.policy.named;
        futures_util::future::join_all(named.iter().map(|named| async move {
            let resource = self.preferred(named).await;
            let mut has_content = self.enter(&resource).watch();
            while has_content.wait_for(|has_content| *has_content).await.is_err() {
                // It was refused and is gone; upstream may serve it later.
                has_content = self.enter(&resource).watch();
            }
        }))
        .await;
    }

    /// The mirrors that replicas have, until they are copied.
    async fn start_warm(self: &Arc<Self>) {
        self.nodes.known().await;
        let mut mirrors = BTreeSet::new();
        for (_, windows) in self.nodes.all_windows(&[]).await {
            if windows.slots.covers(&self.slots) {
                let held = windows.mirrors.into_iter().filter(|one| one.window.is_some());
                mirrors.extend(held.map(|one| one.mirror).filter(|mirror| self.policy.allows(mirror)));
            }
        }
        info!(mirrors = mirrors.len(), "replicas have mirrors");
        let entries: Vec<_> = mirrors.iter().map(|mirror| self.enter(mirror)).collect();
        futures_util::future::join_all(entries.iter().map(super::Entry::settled)).await;
    }

    /// The version that upstream prefers, asked until it says so.
    async fn preferred(&self, named: &GroupResource) -> GroupVersionResource {
        if named.group.is_empty() {
            return GroupVersionResource::new("", "v1", &named.resource);
        }
        loop {
            match starting::preferred(self.feeds.upstream(), named).await {
                Ok(resource) => return resource,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    warn!(resource = %named, error, "version not known yet");
                }
            }
            sleep(ASK_AGAIN).await;
        }
    }
}
