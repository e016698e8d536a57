//! How weir reaches kube-apiserver. Two ways that never mix: connections of weir's own, with weir's credentials
//! ([`Connection`]), and requests passed on for others, which carry what their senders gave and nothing of weir's, not
//! even a client certificate ([`Upstream::forward`], [`Upstream::upgrade`], [`Upstream::review`]).
//!
//! kube reads the configuration and makes credentials; no request goes through it.

mod access;
mod addresses;
mod connection;
mod dial;
mod error;
mod forward;
mod instance;
mod kubeconfig;
mod passing;
mod pool;
mod rewind;
mod strangers;
mod upstream;
mod wire;

pub use connection::{Connection, Protocol, Role};
pub use error::{BoxError, ConnectError, FailureKind, ForwardError, LoadError, SendError};
pub use forward::{Affinity, ForwardedBody, RequestBody, ReviewAnswer};
pub use instance::Instance;
pub use kubeconfig::{ExportError, Origin};
pub use upstream::{Upstream, UpstreamOptions};
pub use weir_daemon::TaskExecutor;

#[cfg(test)]
mod testing;
