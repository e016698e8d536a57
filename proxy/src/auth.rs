//! Who may read what. [`authorize`] asks upstream with the caller's own token; the [`Permit`] that it makes is what the
//! handlers take, so no path serves data unchecked.
//!
//! [`authorize`]: Authorizer::authorize

mod caller;
pub mod certificate;
pub mod decisions;
mod identity;
mod metrics;
mod rbac;
mod reasons;
mod recheck;
mod review;
mod standings;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::StatusCode;
use http::request::Parts;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use tracing::{debug, warn};
use weir_core::request_info::RequestInfo;
use weir_upstream::{ReviewAnswer, Upstream};

use crate::audited::Audited;

use self::caller::{Caller, CallerKey};
pub use self::decisions::DecisionLimits;
use self::decisions::{Decisions, Question, Reviewed};
pub use self::identity::Identity;
use self::identity::{Identities, Unsaid};
pub use self::metrics::DecisionMetrics;
use self::metrics::RecheckMetrics;
pub use self::rbac::RbacReader;
use self::reasons::Reasons;
pub use self::recheck::Rechecks;
use self::review::ResourceAttributes;
use self::standings::Standings;
pub use self::standings::{Standing, StandingLimits};

/// How often it is said that reviews of users with certificates are refused: each request of theirs finds out.
const UNJUDGED_SAID_EVERY: Duration = Duration::from_secs(60);

/// Proof that upstream lets the caller read what the request asks for. Only [`Authorizer::authorize`] makes one.
#[derive(Debug)]
pub struct Permit {
    question: Question,
    /// When upstream said so.
    answered: Instant,
    caller: Caller,
}

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

/// Asks upstream, remembers for a few seconds what it said, and for as long as answers go on by it what it was asked. Clones
/// share all of it.
#[derive(Clone, Debug)]
pub struct Authorizer {
    upstream: Upstream,
    decisions: Decisions,
    counted: DecisionMetrics,
    identities: Identities,
    reasons: Reasons,
    standings: Arc<Standings>,
    rechecks: RecheckMetrics,
    unjudged: Arc<Unjudged>,
}

/// Says that weir may not ask about users with certificates, now and then.
#[derive(Debug, Default)]
struct Unjudged(Mutex<Option<Instant>>);

// === impl Unjudged ===

impl Unjudged {
    fn say(&self, status: StatusCode) {
        let mut said = self.0.lock();
        if said.is_none_or(|said| said.elapsed() >= UNJUDGED_SAID_EVERY) {
            *said = Some(Instant::now());
            warn!(%status, "weir may not create subjectaccessreviews, so no mirror answers users with certificates");
        }
    }
}

// === impl Authorizer ===

impl Authorizer {
    /// Over this upstream.
    pub fn new(upstream: Upstream) -> Self {
        let counted = DecisionMetrics::default();
        Self {
            upstream,
            decisions: Decisions::new(DecisionLimits::default(), counted.clone()),
            counted,
            identities: Identities::new(),
            reasons: Reasons::new(None),
            standings: Arc::new(Standings::new(StandingLimits::default())),
            rechecks: RecheckMetrics::default(),
            unjudged: Arc::default(),
        }
    }

    /// The same with decisions that count for so long.
    #[must_use]
    pub fn remembering(self, limits: DecisionLimits) -> Self {
        Self { decisions: Decisions::new(limits, self.counted.clone()), ..self }
    }

    /// The same that remembers upstream's reasons where they are audited.
    #[must_use]
    pub fn explaining(self, audited: Audited) -> Self {
        Self { reasons: Reasons::new(Some(audited)), ..self }
    }

    /// The same whose answers that go on are asked for again by these limits.
    #[must_use]
    pub fn rechecked(self, limits: StandingLimits) -> Self {
        Self { standings: Arc::new(Standings::new(limits)), ..self }
    }

    /// Shows the numbers.
    pub fn register(&self, registry: &mut Registry) {
        self.counted.register(registry);
        self.rechecks.register(&self.standings, registry);
    }

    /// Whether the caller may do what the request asks, as upstream would decide it. Anything but a plain yes is no.
    pub async fn authorize(&self, parts: &Parts, info: &RequestInfo) -> Result<Permit, NoPermit> {
        let caller = Caller::of(parts)?;
        let question = self.decisions.question(&(&caller, ResourceAttributes::of(info)));
        let verdict =
            self.decisions.decide(question, || self.review(&caller, (question, info)).boxed()).await;
        match verdict.reviewed {
            Reviewed::Allowed => Ok(Permit { question, answered: verdict.at, caller }),
            Reviewed::Denied | Reviewed::DeniedNow => Err(NoPermit::Denied),
            Reviewed::Undecided | Reviewed::Unreachable => Err(NoPermit::Undecided),
        }
    }

    /// Asks again what a permit was given for, for as long as the answer goes on that stands by it.
    pub fn standing(&self, permit: &Permit, info: &RequestInfo) -> Standing {
        let Permit { question, answered, caller } = permit;
        let key = self.decisions.caller(caller);
        let review = || caller.review(info);
        self.standings.add((*question, *answered), (key, caller), (review, &info.namespace))
    }

    /// Who holds a permit; `None` where upstream does not say.
    pub async fn holder(&self, permit: &Permit) -> Option<Arc<Identity>> {
        self.who(self.decisions.caller(&permit.caller), &permit.caller).await
    }

    /// Why upstream gave a permit, where that is audited and known.
    pub async fn reason(&self, permit: &Permit) -> Option<Arc<str>> {
        self.reasons.of(permit.question).await
    }

    /// Asks now. The rights of kubelets come and go with pods, so a no to one of them is not for later.
    async fn review(&self, caller: &Caller, (question, info): (Question, &RequestInfo)) -> Reviewed {
        let answer = match self.ask(caller, caller.review(info)).await {
            Ok(answer) => answer,
            Err(reviewed) => return reviewed,
        };
        let reviewed = review::judge(&answer);
        if reviewed == Reviewed::Allowed && self.reasons.covers(&info.group_version_resource()) {
            self.reasons.keep(question, review::reason(&answer)).await;
        }
        if reviewed != Reviewed::Denied || !answer.status.is_success() {
            return reviewed;
        }
        let identity = self.who(self.decisions.caller(caller), caller).await;
        if identity.is_some_and(|identity| identity.is_node()) { Reviewed::DeniedNow } else { reviewed }
    }

    async fn ask(&self, caller: &Caller, review: Bytes) -> Result<ReviewAnswer, Reviewed> {
        let answer = match caller {
            Caller::Token(token) => self.upstream.review(token, review, caller.affinity()).await,
            // Upstream sees the name only, and would go on to say yes.
            Caller::User(user) if !user.is_verified() => return Err(Reviewed::Denied),
            Caller::User(user) => self.upstream.review_subject(review, user.affinity()).await,
        };
        let answer = answer.map_err(|error| {
            debug!(error = &error as &dyn std::error::Error, "no answer to an access review");
            if self.upstream.is_away(&error) { Reviewed::Unreachable } else { Reviewed::Undecided }
        })?;
        let is_weirs_own = matches!(caller, Caller::User(_));
        if is_weirs_own && [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status) {
            self.unjudged.say(answer.status);
            return Err(Reviewed::Undecided);
        }
        Ok(answer)
    }

    /// Who a caller is, asked once for as long as it is remembered.
    async fn who(&self, key: CallerKey, caller: &Caller) -> Option<Arc<Identity>> {
        let token = match caller {
            Caller::Token(token) => token,
            Caller::User(user) => return Some(user.identity()),
        };
        let ask = async {
            let answer = self.upstream.who(token, caller.affinity()).await;
            match answer.map_err(|_| Unsaid)? {
                answer if answer.status.is_success() => Ok(Identity::of_review(&answer.body)),
                answer if answer.status.is_client_error() && answer.status.as_u16() != 429 => Ok(None),
                _ => Err(Unsaid),
            }
        };
        self.identities.who(key, || ask.boxed()).await
    }
}
