//! The feed: reads one mirror from one upstream instance and hands it to shards. [`ring`] holds what was read last, so
//! that reading from upstream never waits for a subscriber; [`plan`] decides what to do next; [`reader`] does it, over
//! [`list`] and [`watch`], with what late subscribers need beside the main watch; and [`verify`] asks on every new connection whether upstream's history is still the same.

mod beside;
pub mod describe;
mod facts;
mod failure;
pub mod handle;
pub mod list;
pub mod metrics;
mod pacing;
pub mod plan;
pub mod prove;
pub mod reader;
pub mod request;
pub mod ring;
pub mod scope;
pub mod subscription;
pub mod tick;
pub mod verify;
mod waiting;
pub mod watch;
