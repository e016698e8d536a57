//! The process skeleton that every role of weir stands on: tasks and their end, signals, logs, TLS, the listening
//! socket, and the connections between weir's own processes. Nothing here knows Kubernetes; whoever looks for what clients
//! are answered finds it in the proxy.

pub mod admin;
pub mod clients;
mod executor;
pub mod followed;
pub mod lifecycle;
pub mod limits;
pub mod listener;
pub mod members;
pub mod peer;
pub mod readiness;
pub mod signals;
pub mod telemetry;
pub mod tls;

pub use executor::TaskExecutor;
pub use lifecycle::{Lifecycle, StopCause, Stopped};
pub use listener::{Listener, SocketOptions};
pub use readiness::Readiness;
pub use signals::{Signal, Signals};
