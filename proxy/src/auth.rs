//! Who may read what. [`authorize`] asks upstream with the caller's own token; the [`Permit`] that it makes is what the
//! handlers take, so no path serves data unchecked.
//!
//! [`authorize`]: Authorizer::authorize

mod decisions;
mod review;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use tracing::debug;
use weir_core::fnv1a64;
use weir_core::request_info::RequestInfo;
use weir_upstream::{Affinity, ForwardError, Upstream};

pub use self::decisions::DecisionLimits;
use self::decisions::{Decisions, Reviewed};
use self::review::{ResourceAttributes, Review};

/// Proof that upstream lets the caller read what the request asks for. Only [`Authorizer::authorize`] makes one.
#[derive(Debug)]
pub struct Permit(());

/// Why there is no permit. In every case upstream is to answer the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPermit {
    /// No bearer token: anonymous, or known by something that weir does not judge.
    #[error("no bearer token")]
    NoToken,
    /// The caller asks as somebody else, which upstream judges by rules of its own.
    #[error("impersonation")]
    Impersonation,
    /// Upstream says no.
    #[error("not allowed")]
    Denied,
    /// Upstream did not say.
    #[error("no decision")]
    Undecided,
}

/// Asks upstream, and remembers for a few seconds what it said.
#[derive(Clone, Debug)]
pub struct Authorizer {
    upstream: Upstream,
    decisions: Decisions,
}

// === impl Authorizer ===

impl Authorizer {
    /// Over this upstream.
    pub fn new(upstream: Upstream) -> Self {
        Self { upstream, decisions: Decisions::new(DecisionLimits::default()) }
    }

    /// The same with decisions that count for so long.
    #[must_use]
    pub fn remembering(self, limits: DecisionLimits) -> Self {
        Self { decisions: Decisions::new(limits), ..self }
    }

    /// Whether the caller may do what the request asks, as upstream would decide it. Anything but a plain yes is no.
    pub async fn authorize(&self, headers: &HeaderMap, info: &RequestInfo) -> Result<Permit, NoPermit> {
        if headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Err(NoPermit::Impersonation);
        }
        let token = headers.get(AUTHORIZATION).ok_or(NoPermit::NoToken)?;
        let is_bearer =
            token.as_bytes().get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        if !is_bearer || token.len() == 7 {
            return Err(NoPermit::NoToken);
        }
        let question = self.decisions.question(&(token.as_bytes(), ResourceAttributes::of(info)));
        match self.decisions.decide(question, || self.review(token, info).boxed()).await {
            Reviewed::Allowed => Ok(Permit(())),
            Reviewed::Denied => Err(NoPermit::Denied),
            Reviewed::Undecided | Reviewed::Unreachable => Err(NoPermit::Undecided),
        }
    }

    /// Asks now.
    async fn review(&self, token: &HeaderValue, info: &RequestInfo) -> Reviewed {
        let Ok(body) = serde_json::to_vec(&Review::of(info)) else { return Reviewed::Undecided };
        let answer = match self.upstream.review(token, Bytes::from(body), affinity(token)).await {
            Ok(answer) => answer,
            Err(error) => {
                debug!(error = &error as &dyn std::error::Error, "no answer to an access review");
                return match error {
                    ForwardError::Malformed(_) | ForwardError::Answer(_) => Reviewed::Undecided,
                    ForwardError::Unreachable(_) | ForwardError::Broken(_) | ForwardError::Timeout => {
                        Reviewed::Unreachable
                    }
                };
            }
        };
        review::judge(&answer)
    }
}

/// Reviews of one caller go to one instance, and those of many callers to all of them.
fn affinity(token: &HeaderValue) -> Affinity {
    Affinity(fnv1a64(token.as_bytes()))
}
