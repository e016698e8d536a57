//! Integration, conformance and fault tests, and what they share: the checker, which judges what clients saw, and a model
//! of upstream to drive the synchronous types with.

pub mod checker;
pub mod model;
