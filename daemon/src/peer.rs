//! The transport between weir's own processes: who they are to each other, TLS by certificates of a CA of weir's own, the
//! HTTP/2 server of a shard node and the dialing of one. What a [`Caller`] may ask is no matter of the transport: each
//! service finds the caller in the extensions of a request and decides.
//!
//! A name inside a request never tells who calls. Only the certificate of the connection does; without certificates there
//! are loopback addresses, and everybody on the machine is trusted.

mod caller;
pub mod certs;
mod dialer;
mod preface;
mod server;
mod tls;

use std::time::Duration;

pub use caller::{Caller, CallerError};
pub use dialer::{DialError, Dialer};
pub use server::{PeerPort, PeerServer};
pub use tls::{PeerFiles, PeerTls, PeerTlsError};

/// How often a quiet connection is asked whether its other end is there, by both ends, and how long that may take to say
/// so. A process that hangs while its kernel lives is gone after 20 s; sessions have beats of their own and judge sooner.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
pub(crate) mod tests;
