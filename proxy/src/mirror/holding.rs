//! What the mirrors of a process hold, for its memory limit. In a process that has shards too it is what they hold; hubs share
//! its objects. On nodes it is the hubs, which hold what came over sessions.

use std::sync::Arc;

use weir_core::GroupVersionResource;
use weir_shard_node::memory::Holder;
use weir_shard_node::node::cell::NodeCell;

use super::Mirror;
use super::registry::{Backing, Entry, Mirrors, State};
use crate::link::Link;

// === impl Mirrors ===

impl Holder for Mirrors {
    fn cells(&self) -> Vec<Arc<NodeCell>> {
        self.ready().iter().flat_map(|mirror| cells(mirror)).collect()
    }

    fn other_bytes(&self) -> usize {
        match &self.backing {
            Backing::Local { .. } => 0,
            Backing::Nodes(_) => self.ready().iter().map(|mirror| mirror.fanout().bytes()).sum(),
        }
    }

    fn end_idle(&self, wanted: usize) -> usize {
        let mut idle: Vec<_> =
            self.entries().into_iter().filter_map(|entry| self.unused_bytes(entry)).collect();
        idle.sort_by_key(|(entry, _)| entry.usage.idle_since());
        let mut freed = 0;
        for (entry, bytes) in idle {
            if freed >= wanted {
                break;
            }
            // Somebody may have come meanwhile.
            if entry.usage.end_if_unused() {
                freed += bytes;
            }
        }
        freed
    }
}

impl Mirrors {
    /// What would go with a mirror that may end and that nobody uses.
    fn unused_bytes(&self, (resource, entry): (GroupVersionResource, Entry)) -> Option<(Entry, usize)> {
        if self.is_named(&resource) {
            return None;
        }
        entry.usage.idle_since()?;
        let State::Ready(mirror) = entry.state.borrow().clone() else { return None };
        let bytes: usize = cells(&mirror).iter().map(|cell| cell.holdings().accounted()).sum();
        (bytes > 0).then_some((entry, bytes))
    }
}

/// The shards of a mirror that are in this process.
fn cells(mirror: &Mirror) -> Vec<Arc<NodeCell>> {
    let links = mirror.shards().links();
    let here = links.values().filter_map(|link| match link {
        Link::Local(link) => Some(link.cell().clone()),
        Link::Remote(_) => None,
    });
    here.collect()
}
