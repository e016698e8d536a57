//! What the micro-benchmarks and the measurements of the bounds share: objects, mirrors, a served weir, clients, and the
//! figures of memory. Nothing here is measured by itself.
//!
//! Two ways lead to a mirror: [`mirrored`] feeds one by hand, in process; [`served`] is the whole of weir behind TLS, in
//! front of a simulated apiserver.

pub mod client;
pub mod memory;
pub mod mirrored;
pub mod pods;
pub mod report;
pub mod served;
