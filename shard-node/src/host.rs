//! All mirrors of one shard node.

pub mod hosted;

pub use hosted::Hosted;
