//! A simulated kube-apiserver: the upstream of `weir dev` and of tests.
//!
//! Its rules are written anew from what the real one does, not shared with weir's store: a fault in one must not hide
//! in the other. [`Cluster`] is the whole of it as a plain value without tokio; [`Sim`] puts it behind a lock and HTTP.
//!
//! What it does not do, it refuses as the real one refuses what it does not know: protobuf, YAML and Table answers,
//! patches other than merge patches, server-side apply, shard selectors (ignored, as with upstream's gate off).
//! It has no admission, no defaults and no controllers: an object is what was written, and its namespace must exist.

mod catalog;
mod churn;
mod clock;
mod cluster;
mod fault;
mod fields;
mod http;
mod instance;
mod json;
mod log;
mod object;
mod read;
mod refusal;
mod seed;
mod selection;
mod sim;
mod users;
mod watching;
mod write;

pub use catalog::{Caching, Catalog, Origin, ResourceId, ResourceInfo, Scope};
pub use churn::{Churn, ChurnHandle, ChurnShape, gauges};
pub use cluster::{Cluster, ClusterConfig, Record};
pub use fault::{Effect, Fault, FaultPlan, Fits, Frozen, InstanceId, PlanShape, Rule, Upheaval};
pub use http::{Handle, Listen};
pub use instance::{Instance, Pace, StreamEnd};
pub use json::{Node, object};
pub use log::{EventType, History, Log, LogEvent};
pub use object::{Object, StoreKey};
pub use read::{AnyState, ListQuery, ListVersion, NextPage, Page, Patience, Step};
pub use seed::Seed;
pub use selection::Selection;
pub use sim::{InstanceHandle, RequestLine, Sim, SimConfig, Timing};
pub use users::{Attributes, ResourceAttributes, Right, User, Users};
pub use watching::{Bookmarks, EndMark, Then, Watch, WatchFrom, WatchItem, WatchQuery};
pub use write::{Op, Preconditions, Written};
