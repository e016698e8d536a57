//! Who may ask what. The caller is what the connection's certificate says, never what a request says.

use http::Extensions;
use tonic::Status;
use weir_daemon::peer::Caller;

/// The methods of the service, as far as callers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Live events.
    Session,
    /// Snapshots, logs, counts and windows: nodes that start copy from each other.
    Read,
}

/// Who asks; refuses who may not.
pub(super) fn check(extensions: &Extensions, method: Method) -> Result<Caller, Status> {
    let caller = Caller::of(extensions).ok_or_else(|| Status::unauthenticated("the caller is not known"))?;
    match (caller, method) {
        (Caller::Proxy | Caller::Trusted, Method::Session | Method::Read)
        | (Caller::Shard { .. }, Method::Read) => Ok(caller),
        (Caller::Shard { .. }, Method::Session) => Err(Status::permission_denied("sessions are for proxies")),
    }
}
