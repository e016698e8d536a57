//! Whoever asks, as far as weir knows them: by what they show. Only upstream knows who that is.
//!
//! A credential is kept for as long as something has to be asked in its name, and never written out: what names a caller in
//! maps is a keyed hash, and its `Debug` says nothing.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use weir_core::fnv1a64;
use weir_core::request_info::RequestInfo;
use weir_upstream::Affinity;

use super::NoPermit;
use super::certificate::CertificateUser;
use super::review::{ResourceAttributes, Review};

/// Somebody whom upstream can judge. One is never the other, whatever their bytes.
#[derive(Clone, Hash)]
pub(super) enum Caller {
    /// Who shows a bearer token: the header as it came, by which upstream judges it as it would on the request itself.
    Token(HeaderValue),
    /// Whom weir has verified by their certificate; upstream is asked about them in weir's name.
    User(Arc<CertificateUser>),
}

/// Whether upstream finds a bearer token in this header: one word behind the scheme and one space.
pub(super) fn shows_token(authorization: &HeaderValue) -> bool {
    let Some((scheme, token)) = authorization.as_bytes().split_at_checked(7) else { return false };
    scheme.eq_ignore_ascii_case(b"bearer ") && token.first().is_some_and(|first| *first != b' ')
}

/// A caller, as a keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallerKey(pub(super) [u64; 2]);

// === impl Caller ===

impl Caller {
    /// The caller of a request, if it is one that weir can have judged.
    pub(super) fn of(parts: &Parts) -> Result<Self, NoPermit> {
        let headers = &parts.headers;
        if headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Err(NoPermit::Impersonation);
        }
        if let Some(user) = parts.extensions.get::<Arc<CertificateUser>>() {
            return Ok(Self::User(user.clone()));
        }
        let shown = headers.get(AUTHORIZATION).ok_or(NoPermit::NoToken)?;
        if shows_token(shown) { Ok(Self::Token(shown.clone())) } else { Err(NoPermit::NoToken) }
    }

    /// The question whether they may do what a request asks.
    pub(super) fn review(&self, info: &RequestInfo) -> Bytes {
        match self {
            Self::Token(_) => Review::of(info).body(),
            Self::User(user) => user.review(&ResourceAttributes::of(info)).to_string().into(),
        }
    }

    /// The same on its own: the header of a request may be a slice of all that its connection read.
    pub(super) fn kept(&self) -> Self {
        let Self::Token(shown) = self else { return self.clone() };
        let mut own = HeaderValue::from_bytes(shown.as_bytes()).unwrap_or_else(|_| shown.clone());
        own.set_sensitive(true);
        Self::Token(own)
    }

    /// Questions about one caller go to one instance, and those about many callers to all of them.
    pub(super) fn affinity(&self) -> Affinity {
        match self {
            Self::Token(shown) => Affinity(fnv1a64(shown.as_bytes())),
            Self::User(user) => user.affinity(),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Caller")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, value: &'static str) -> Result<Caller, NoPermit> {
        let request = http::Request::builder().header(name, value).body(()).unwrap();
        Caller::of(&request.into_parts().0)
    }

    fn shown(caller: &Caller) -> &HeaderValue {
        let Caller::Token(shown) = caller else { panic!("a user") };
        shown
    }

    #[test]
    fn only_bearers_are_judged_and_none_who_ask_as_somebody_else() {
        assert!(of("authorization", "Bearer t").is_ok() && of("authorization", "bEARER t").is_ok());
        for other in ["Basic Ym9i", "Bearer ", "Bearer", "Bearer  t", ""] {
            assert_eq!(of("authorization", other).unwrap_err(), NoPermit::NoToken, "{other:?}");
        }
        assert_eq!(of("accept", "*/*").unwrap_err(), NoPermit::NoToken);
        assert_eq!(of("impersonate-uid", "7").unwrap_err(), NoPermit::Impersonation);
    }

    #[test]
    fn a_credential_is_never_written_out() {
        let caller = of("authorization", "Bearer canary").unwrap();
        let kept = caller.kept();
        assert_eq!(shown(&kept), shown(&caller));
        assert!(!format!("{caller:?} {kept:?} {:?}", shown(&kept)).contains("canary"));
    }
}
