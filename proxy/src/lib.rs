//! The proxy: shards → merge → hub → http. It terminates client HTTP, authorizes, merges the shards of each mirror into
//! one order and streams; it holds no objects. What it does not serve itself it passes through.

pub mod auth;
pub mod drain;
pub mod http;
pub mod hub;
pub mod link;
pub mod merge;
pub mod metrics;
pub mod mirror;
pub mod passthrough;
pub mod peers;
pub mod shards;
