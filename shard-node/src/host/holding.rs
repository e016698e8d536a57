//! What the mirrors of a shard node hold, for its memory limit. Those that no session carries can be ended; proxies keep theirs
//! for as long as they use them.

use std::sync::Arc;

use super::{Entry, Host};
use crate::memory::Holder;
use crate::node::cell::NodeCell;

// === impl Host ===

impl Holder for Host {
    fn cells(&self) -> Vec<Arc<NodeCell>> {
        self.mirrors.lock().entries.values().map(|entry| entry.cell.clone()).collect()
    }

    fn other_bytes(&self) -> usize {
        0
    }

    fn end_idle(&self, wanted: usize) -> usize {
        let is_unused = |entry: &Entry| entry.cell.sessions() == 0;
        let mirrors = self.mirrors.lock();
        let unused =
            mirrors.entries.iter().filter(|(resource, entry)| is_unused(entry) && !self.is_named(resource));
        let mut unused: Vec<_> =
            unused.map(|(resource, entry)| (entry.used, entry.number, resource.clone())).collect();
        drop(mirrors);
        unused.sort();
        let mut freed = 0;
        for (_, number, resource) in unused {
            if freed >= wanted {
                break;
            }
            let mut bytes = 0;
            // A session may have come meanwhile.
            let is_meant = |entry: &mut Entry| {
                bytes = entry.cell.holdings().accounted();
                entry.number == number && is_unused(entry) && bytes > 0
            };
            if self.end_where(&resource, is_meant) {
                freed += bytes;
            }
        }
        freed
    }
}
