//! What the micro-benchmarks and the measurements of the bounds share: objects, mirrors, a served weir, clients, and the
//! figures of memory and processors. Nothing here is measured by itself.
//!
//! Three ways lead to a mirror: [`mirrored`] feeds one by hand, in process; [`served`] is the whole of weir behind TLS, in
//! front of a simulated apiserver; [`processes`] are shard nodes and proxies with connections between them, in front of the
//! same.

pub mod client;
pub mod cpu;
pub mod memory;
pub mod mirrored;
pub mod pods;
pub mod processes;
pub mod report;
pub mod served;
pub mod simulated;
