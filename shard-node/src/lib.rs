//! feed, store and shard node.
