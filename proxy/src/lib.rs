//! The proxy: peers → link → shards → merge → hub → http. It terminates client HTTP, authorizes, merges the shards of each
//! mirror into one order and streams; it holds no objects. What it does not serve itself it passes through.
//!
//! `peers` are the shard nodes in other processes, `link` is one node of one mirror, here or there, and `shards` asks one
//! replica of each shard; `mirror` puts these together for one resource. `drain` ends clients one after the other.

pub mod audit;
pub mod audited;
pub mod auth;
mod bucket;
pub mod drain;
pub mod http;
pub mod hub;
mod known;
pub mod link;
pub mod merge;
pub mod metrics;
pub mod mirror;
pub mod passthrough;
pub mod peers;
pub mod shards;
