//! The language of weir and the rules of the Kubernetes API that it follows: positions, statements, objects, selectors,
//! options and the bodies of errors. Pure: no tokio, no I/O, no clock. Whoever looks for a socket or a timer is in the
//! wrong crate.

pub mod accept;
pub mod continue_token;
mod go_text;
pub mod hash;
pub mod history;
pub mod interest;
pub mod message;
pub mod mirror;
pub mod object;
pub mod options;
pub mod policy;
pub mod query;
pub mod rendezvous;
pub mod request_info;
pub mod resource;
pub mod resource_version;
pub mod selector;
pub mod shard_selector;
pub mod slot;
pub mod statement;
pub mod status;
pub mod window;

pub use hash::{HashRange, fnv1a64};
pub use history::History;
pub use object::{Object, ObjectKey};
pub use resource::{GroupResource, GroupVersionResource};
pub use resource_version::ResourceVersion;
pub use slot::{Slot, SlotSet};
pub use statement::{SourceId, Statement};
pub use status::Status;
pub use window::WindowBounds;
