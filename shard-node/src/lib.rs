//! A shard node: feed → store → node. The feed reads one mirror from upstream; a store holds a shard's objects and its
//! recent log; a node matches registered interests. Ring, store and node are synchronous: they take messages and a time
//! and return messages; tasks only carry them.
//!
//! In a process of its own (`weir shard`) there is more around that: `host` has the mirrors, `feeds` the feeds that run here,
//! `nodes` knows the other nodes, `remote` follows a feed wherever it is, `warm` copies a replica, and `rpc` serves proxies and
//! nodes; `memory` keeps what all of them hold below a limit. `node` is one mirror's shard here; `nodes` are the other processes.

pub mod feed;
pub mod feeds;
pub mod host;
pub mod memory;
pub mod node;
pub mod nodes;
mod refusal;
pub mod remote;
pub mod rpc;
pub mod store;
pub mod subscriber;
#[cfg(test)]
mod testing;
pub mod warm;
