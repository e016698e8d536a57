//! How the nodes get on, as the merges see it: who serves which shard, who is behind, and for whom events wait.

use std::collections::BTreeMap;

use weir_core::ResourceVersion;

use super::range::Range;
use super::{Merges, NodeIndex, ShardIndex};

// === impl Merges ===

impl Merges {
    /// How often a shard went on at another node than before.
    pub fn moves(&self) -> u64 {
        self.nodes.moves()
    }

    /// The shards that no node serves now.
    pub fn holes(&self) -> Vec<ShardIndex> {
        let shards = self.nodes.shards().map(|(shard, _)| shard);
        shards.filter(|shard| self.nodes.serving(*shard).next().is_none()).collect()
    }

    /// The nodes that ranges follow now, with how far each has come, and how far the furthest replica of its shard has.
    pub fn followed(&mut self) -> Vec<(NodeIndex, ResourceVersion, ResourceVersion)> {
        let shards: Vec<_> = self.nodes.shards().map(|(shard, _)| shard).collect();
        let followed = shards.into_iter().filter_map(|shard| {
            let node = self.nodes.choose(shard)?;
            let furthest = self.nodes.serving(shard).map(|(_, state)| state.said).max()?;
            Some((node, self.nodes.said(Some(node)), furthest))
        });
        followed.collect()
    }

    /// The nodes for which events wait that others have sent, and up to where.
    pub fn awaited(&self) -> BTreeMap<NodeIndex, ResourceVersion> {
        let mut awaited = BTreeMap::new();
        for merge in self.waiting.iter().filter_map(|id| self.merges.get(id)) {
            let Some((last, _)) = merge.buffer.last_key_value() else { continue };
            for node in merge.ranges.values().filter_map(Range::node) {
                if self.nodes.said(Some(node)) < *last {
                    let at = awaited.entry(node).or_insert(*last);
                    *at = (*last).max(*at);
                }
            }
        }
        awaited
    }
}
