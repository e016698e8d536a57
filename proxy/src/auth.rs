//! Who may read what. [`authorize`] asks upstream with the caller's own token; the [`Permit`] that it makes is what the
//! handlers take, so no path serves data unchecked.
//!
//! [`authorize`]: Authorizer::authorize

pub mod certificate;
mod decisions;
mod review;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use tracing::{debug, warn};
use weir_core::fnv1a64;
use weir_core::request_info::RequestInfo;
use weir_upstream::{Affinity, ForwardError, ReviewAnswer, Upstream};

use self::certificate::CertificateUser;
pub use self::decisions::DecisionLimits;
use self::decisions::{Decisions, Reviewed};
use self::review::{ResourceAttributes, Review};

/// Proof that upstream lets the caller read what the request asks for. Only [`Authorizer::authorize`] makes one.
#[derive(Debug)]
pub struct Permit(());

/// Why there is no permit. In every case upstream is to answer the request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPermit {
    /// No bearer token and no certificate: anonymous, or known by something that weir does not judge.
    #[error("no credential")]
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
    pub async fn authorize(&self, parts: &Parts, info: &RequestInfo) -> Result<Permit, NoPermit> {
        let headers = &parts.headers;
        if headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            return Err(NoPermit::Impersonation);
        }
        if let Some(user) = parts.extensions.get::<Arc<CertificateUser>>() {
            return self.authorize_user(user, info).await;
        }
        let token = headers.get(AUTHORIZATION).ok_or(NoPermit::NoToken)?;
        let is_bearer =
            token.as_bytes().get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer "));
        if !is_bearer || token.len() == 7 {
            return Err(NoPermit::NoToken);
        }
        let question = self.decisions.question(&("token", token.as_bytes(), ResourceAttributes::of(info)));
        permit(self.decisions.decide(question, || self.review(token, info).boxed()).await)
    }

    /// Whether a user may whom weir has verified. Upstream is asked in weir's name.
    async fn authorize_user(&self, user: &CertificateUser, info: &RequestInfo) -> Result<Permit, NoPermit> {
        let attributes = ResourceAttributes::of(info);
        let question = self.decisions.question(&("user", user, attributes));
        let review = || self.review_user(user, user.review(&attributes).to_string()).boxed();
        permit(self.decisions.decide(question, review).await)
    }

    async fn review_user(&self, user: &CertificateUser, review: String) -> Reviewed {
        let answer = self.upstream.review_subject(review.into(), user.affinity()).await;
        if let Ok(answer) = &answer
            && [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status)
        {
            warn!(status = %answer.status, "weir may not create subjectaccessreviews, so nothing is answered to users with certificates");
            return Reviewed::Undecided;
        }
        judge(answer)
    }

    /// Asks now.
    async fn review(&self, token: &HeaderValue, info: &RequestInfo) -> Reviewed {
        let Ok(body) = serde_json::to_vec(&Review::of(info)) else { return Reviewed::Undecided };
        judge(self.upstream.review(token, Bytes::from(body), affinity(token)).await)
    }
}

fn permit(reviewed: Reviewed) -> Result<Permit, NoPermit> {
    match reviewed {
        Reviewed::Allowed => Ok(Permit(())),
        Reviewed::Denied => Err(NoPermit::Denied),
        Reviewed::Undecided | Reviewed::Unreachable => Err(NoPermit::Undecided),
    }
}

/// What an answer means.
fn judge(answer: Result<ReviewAnswer, ForwardError>) -> Reviewed {
    match answer {
        Ok(answer) => review::judge(&answer),
        Err(error) => {
            debug!(error = &error as &dyn std::error::Error, "no answer to an access review");
            match error {
                ForwardError::Malformed(_) | ForwardError::Answer(_) => Reviewed::Undecided,
                ForwardError::Unreachable(_) | ForwardError::Broken(_) | ForwardError::Timeout => {
                    Reviewed::Unreachable
                }
            }
        }
    }
}

/// Reviews of one caller go to one instance, and those of many callers to all of them.
fn affinity(token: &HeaderValue) -> Affinity {
    Affinity(fnv1a64(token.as_bytes()))
}
