//! The process skeleton that every role of weir stands on: tasks and their end, signals, logs, TLS and the listening
//! socket. Nothing here knows Kubernetes; whoever looks for HTTP finds it in the proxy.

pub mod lifecycle;
pub mod limits;
pub mod listener;
pub mod signals;
pub mod telemetry;
pub mod tls;

pub use lifecycle::{Lifecycle, StopCause, Stopped};
pub use listener::{Listener, SocketOptions};
pub use signals::{Signal, Signals};
