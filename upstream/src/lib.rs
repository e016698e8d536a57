//! How weir reaches kube-apiserver. Ways that never mix: connections of weir's own, with weir's credentials
//! ([`Connection`]), and requests passed on for others, which carry what their senders gave and nothing of weir's, not
//! even a client certificate ([`Upstream::forward`], [`Upstream::upgrade`], [`Upstream::review`]). And a third, for users whom
//! weir has verified: with the certificate of a front proxy, and never without saying whose they are ([`Upstream::forward_as`]).
//!
//! kube reads the configuration and makes credentials; no request goes through it.

mod access;
mod addresses;
mod connection;
mod dial;
mod error;
mod forward;
mod front;
mod instance;
mod kubeconfig;
mod passing;
mod pool;
mod rewind;
mod strangers;
mod traffic;
mod upstream;
mod wire;

pub use connection::{Connection, Protocol, Role};
pub use error::{BoxError, ConnectError, FailureKind, ForwardError, LoadError, SendError};
pub use forward::{Affinity, ForwardedBody, RequestBody, ReviewAnswer};
pub use front::{FrontProxyFiles, NotCarried, RemoteUser, RequestHeaders};
pub use instance::Instance;
pub use kubeconfig::{ExportError, Origin};
pub use upstream::{Upstream, UpstreamOptions};
pub use weir_daemon::TaskExecutor;

#[cfg(test)]
mod testing;
