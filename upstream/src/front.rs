//! Requests of users whom weir itself has verified, by their client certificates. They go over connections of their own, on
//! which weir shows a certificate that upstream takes for that of a front proxy, and say in headers whose they are.
//!
//! The key of this certificate is the key to everything: whoever has it is anybody. Two things are therefore never left to
//! care. A request without a user on such a connection would be judged as the front proxy itself, so it ends the process. And an
//! upstream that does not take the certificate for a front proxy's would judge all users as the one that the certificate names,
//! so each connection is tried with a user whom nobody is, before any request goes over it.

mod headers;
mod pair;
mod proof;
mod subject_review;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use http::{HeaderMap, Request, Response};

pub(crate) use self::pair::FrontProxy;
pub(crate) use self::proof::prove;
pub use self::{
    headers::{NotCarried, RemoteUser, RequestHeaders},
    pair::FrontProxyFiles,
};
use crate::{
    error::ForwardError,
    forward::{Affinity, ForwardedBody, RequestBody},
    instance::Instance,
    pool::Pool,
    strangers::{Party, Refused},
    upstream::Upstream,
};

/// Whose connections a request goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those on which a request says itself whose it is, by its token.
    Callers,
    /// Those of the front proxy.
    Front,
    /// Those on which weir asks in its own name.
    Own,
}

// === impl Whose ===

impl Whose {
    pub(crate) fn pool(self, instance: &Instance) -> &Pool {
        match self {
            Self::Callers => &instance.pool,
            Self::Front => &instance.front,
            Self::Own => &instance.own,
        }
    }

    /// Among whom a request goes. Whoever weir has verified is no stranger, and neither is weir.
    pub(crate) fn party(self, refused: &Refused, headers: &HeaderMap) -> Party {
        match self {
            Self::Callers => refused.party(headers),
            Self::Front | Self::Own => Party::Known,
        }
    }

    /// To be called right before a request is sent.
    ///
    /// # Panics
    /// If the request would be taken for the front proxy's own. A panic ends the process.
    pub(crate) fn check(self, headers: &HeaderMap, names: Option<&RequestHeaders>) {
        if self == Self::Front {
            let is_named = names.is_some_and(|names| names.name_user(headers));
            assert!(is_named, "a request without a user must not be sent as the front proxy");
        }
    }
}

// === impl Upstream ===

impl Upstream {
    /// Passes a request on as that of a verified user. What else it says of users, and its token, stays here. Otherwise it is
    /// [`Upstream::forward`].
    pub async fn forward_as(
        &self,
        user: &RemoteUser,
        mut request: Request<RequestBody>,
        affinity: Affinity,
    ) -> Result<Response<ForwardedBody>, ForwardError> {
        self.name(user, request.headers_mut())?;
        self.forward_over(Whose::Front, request, affinity).await
    }

    /// The same for a request that asks for an upgrade; see [`Upstream::upgrade`].
    pub async fn upgrade_as(
        &self,
        user: &RemoteUser,
        mut request: Request<RequestBody>,
        affinity: Affinity,
    ) -> Result<Response<ForwardedBody>, ForwardError> {
        self.name(user, request.headers_mut())?;
        self.upgrade_over(Whose::Front, request, affinity).await
    }

    /// Takes away what a client says of itself that only a front proxy may say, under whatever names upstream reads it.
    pub fn remove_claims(&self, headers: &mut HeaderMap) {
        static USUAL: LazyLock<RequestHeaders> = LazyLock::new(RequestHeaders::default);
        self.access().front().map_or(&*USUAL, FrontProxy::headers).remove_claims(headers);
    }

    fn name(&self, user: &RemoteUser, headers: &mut HeaderMap) -> Result<(), ForwardError> {
        let front = self.access().front().ok_or_else(ForwardError::no_front_proxy)?;
        user.apply(front.headers(), headers);
        Ok(())
    }
}
