//! The wire between weir's processes: feeds, shard nodes and proxies. The messages stand in `weir/v1/*.proto`; each has a
//! strict twin here, in which a value that must exist is no `Option` and everything was checked. Whoever receives a message
//! reads it into its twin first; types of [`wire`] go no further than that.
//!
//! Objects, and fields of selectors, mean something only together with a mirror's schema. Twins that hold objects are read
//! with `read(message, schema)`; interests arrive as [`NamedInterest`] and are resolved against the mirror that they are
//! for. Everything else is `TryFrom`.

pub mod encoded;
mod error;
pub mod feed;
mod hello;
mod interest;
pub mod limits;
mod mirror;
mod parts;
pub mod read;
pub mod session;
pub mod wire;

pub use encoded::Encoded;
pub use error::ProtocolError;
pub use hello::{Protocol, Spoken};
pub use interest::{NamedInterest, NamedTarget, NamedTerm};
pub use parts::MirrorRange;
