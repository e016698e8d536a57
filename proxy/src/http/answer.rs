//! The way of a request: who asks, may they, what do they want, how fresh, answer. What a mirror cannot answer exactly is
//! passed through, with one exception: a shard selector never reaches an upstream that might ignore it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::request::Parts;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use tokio::sync::watch;
use weir_core::accept::Family;
use weir_core::mirror::JsonForm;
use weir_core::options::{Freshness, GetIntent, request_timeout};
use weir_core::{ResourceVersion, Status};
use weir_shard_node::memory::{Admission, Refused};

use super::body::ProxyBody;
use super::clients::{Clients, Guest, PeerAddress};
use super::fail;
use super::gate::{Gate, Place, Size};
use super::passed_watch::{self, Framing};
use super::reading::{Others, Outcome, Reading};
use super::request::{ReadRequest, Target, shards_unserved};
use super::trail::{AUDIT_ID, Asked, Trail, audit_id};
use crate::audit::Audit;
use crate::auth::{Authorizer, NoPermit, Permit, certificate};
use crate::drain::Drain;
use crate::mirror::Mirror;
use crate::mirror::registry::{Mirrors, State};
use crate::mirror::usage::InUse;
use crate::passthrough::{Passed, Passthrough};

/// How long a watch waits for its mirror to load.
const LOADING_LIMIT: Duration = Duration::from_secs(10);
/// When somebody is to come again who was refused for want of memory, in seconds; it is looked at every second.
const OUT_OF_MEMORY_RETRY: u32 = 5;
/// Upstream's own limit for requests that are no watch.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Answers requests.
#[derive(Debug)]
pub struct Proxy {
    mirrors: Arc<Mirrors>,
    authorizer: Authorizer,
    passthrough: Passthrough,
    gate: Gate,
    drain: Drain,
    admission: Admission,
    clients: Clients,
    audit: Audit,
}

// === impl Proxy ===

impl Proxy {
    /// A proxy over these mirrors, whose clients leave by `drain`.
    pub fn new(
        mirrors: Arc<Mirrors>,
        authorizer: Authorizer,
        passthrough: Passthrough,
        drain: Drain,
    ) -> Self {
        let passthrough = passthrough.drained_by(drain.clone());
        let (gate, admission, clients) = (Gate::new(), Admission::default(), Clients::default());
        let audit = Audit::none();
        Self { mirrors, authorizer, passthrough, gate, drain, admission, clients, audit }
    }

    /// The same, refusing what the memory limit leaves no room for.
    #[must_use]
    pub fn admitting(self, admission: Admission) -> Self {
        Self { admission, ..self }
    }

    /// The same, refusing clients that cost too much by the limits of these.
    #[must_use]
    pub fn limiting(self, clients: Clients) -> Self {
        Self { clients, ..self }
    }

    /// The same, whose answers are told to auditors.
    #[must_use]
    pub fn audited(self, audit: Audit) -> Self {
        Self { audit, ..self }
    }

    /// What tells clients to leave.
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// The answer to a request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<ProxyBody> {
        let (mut parts, body) = request.into_parts();
        let (outcome, guest) = match certificate::identify(&mut parts) {
            Ok(()) => self.decide(&parts).await,
            Err(status) => (refused(&parts, &status), None),
        };
        let served = |body| match guest {
            Some(guest) => guest.served(body),
            None => body,
        };
        match outcome {
            Outcome::Answer(mut response) => {
                response.headers_mut().entry(AUDIT_ID).or_insert_with(|| audit_id(&parts));
                response.map(served)
            }
            Outcome::Pass(why, place) => self.pass((parts, body), (why, place)).await.map(served),
            Outcome::Refusal => self.refusal(parts, body).await,
        }
    }

    async fn pass(
        &self,
        (parts, body): (Parts, Incoming),
        (why, place): (Passed, Option<Place>),
    ) -> Response<ProxyBody> {
        let is_watch = ReadRequest::read(&parts).is_ok_and(|request| request.is_watch());
        let request = Request::from_parts(parts, body);
        // What upstream answers in a mirror's place is not to be worse for it.
        let answer = match place.is_some() && !is_watch {
            true => self.passthrough.forward_read(request, why).await,
            false => self.passthrough.forward(request, why).await,
        };
        let (parts, body) = answer.into_parts();
        let framing = Framing::of(&parts).filter(|_| is_watch);
        let body = match framing {
            Some(framing) => passed_watch::watch(body, framing, (self.drain.turn(), place)),
            None => ProxyBody::Passed(body, place),
        };
        Response::from_parts(parts, body)
    }

    /// What comes of a request, and who made it, if it can be one of many.
    async fn decide(&self, parts: &Parts) -> (Outcome, Option<Guest>) {
        let request = match ReadRequest::read(parts) {
            Ok(request) => request,
            Err(why) => return (Outcome::Pass(why, None), None),
        };
        if let Some(why) = self.passes(&request) {
            return (Outcome::Pass(why, None), None);
        }
        let guest = match self.clients.admit(parts, &request) {
            Ok(guest) => guest,
            Err(status) => return (refused(parts, &status), None),
        };
        let outcome = self.read(parts, (&request, &guest)).await;
        let outcome = match outcome {
            Ok(Outcome::Pass(why, _)) if request.names_shards() => match why {
                Passed::NoPermit => Outcome::Refusal,
                why => refused(parts, &shards_unpassed(why)),
            },
            Ok(outcome) => outcome,
            Err(status) => refused(parts, &status),
        };
        guest.noted(&request, &outcome);
        (outcome, Some(guest))
    }

    /// Why one object is always read at upstream, where it is.
    fn passes(&self, request: &ReadRequest) -> Option<Passed> {
        let Target::Object { .. } = request.target else { return None };
        let is_free = !request.names_shards();
        if is_free && !self.mirrors.allows(&request.resource) {
            return Some(Passed::NotMirrored);
        }
        (is_free && needs_proof(request)).then_some(Passed::Freshness)
    }

    /// A read of a form that mirrors know.
    async fn read(&self, parts: &Parts, (request, guest): (&ReadRequest, &Guest)) -> Result<Outcome, Status> {
        if !self.mirrors.allows(&request.resource) {
            return Ok(Outcome::Pass(Passed::NotMirrored, None));
        }
        if matches!(request.target, Target::Object { .. }) && needs_proof(request) {
            return Ok(Outcome::Pass(Passed::Freshness, None));
        }
        let received = self.audit.covers(&request.resource).then(SystemTime::now);
        let permit = match self.authorizer.authorize(parts, &request.info).await {
            Ok(permit) => permit,
            Err(reason) => return Ok(Outcome::Pass(pass_of(reason), None)),
        };
        let Some(received) = received else { return self.permitted((parts, request, guest), permit).await };
        let Some(trail) = self.trail((parts, request), &permit, received).await else {
            return Ok(Outcome::Pass(Passed::Audit, None));
        };
        Ok(match self.permitted((parts, request, guest), permit).await {
            Ok(Outcome::Answer(response)) => Outcome::Answer(Box::new(trail.of(*response))),
            Ok(other) => other,
            Err(status) => Outcome::Answer(Box::new(trail.of(fail::outcome(parts, &status)))),
        })
    }

    /// What will be told of an answer; `None` where it could not be told now, or of whom.
    async fn trail(
        &self,
        (parts, request): (&Parts, &ReadRequest),
        permit: &Permit,
        received: SystemTime,
    ) -> Option<Trail> {
        if !self.audit.is_up() {
            return None;
        }
        let user = self.authorizer.holder(permit).await?;
        let reason = self.authorizer.reason(permit).await;
        let peer = parts.extensions.get::<PeerAddress>().map(|PeerAddress(address)| *address);
        let asked = Asked { parts, request, user, reason, peer, received, id: audit_id(parts) };
        Some(Trail::new(&self.audit, asked))
    }

    /// The same by a caller who may.
    async fn permitted(
        &self,
        (parts, request, guest): (&Parts, &ReadRequest, &Guest),
        permit: Permit,
    ) -> Result<Outcome, Status> {
        if self.mirrors.has_hole() {
            return Err(Status::service_unavailable("a part of this resource is on no shard node now", 1));
        }
        self.admit(request)?;
        if !self.is_worth_a_mirror(request) {
            return Ok(Outcome::Pass(Passed::Lone, None));
        }
        let (mirror, in_use) = match self.mirror(request).await {
            Ok(found) => found,
            Err(other) => return other,
        };
        let family = match mirror.spec().form {
            JsonForm::BuiltIn => Family::BuiltIn,
            JsonForm::Custom => Family::Custom,
        };
        let Some(is_pretty) = request.json(parts, family) else {
            return Ok(Outcome::Pass(Passed::Encoding, None));
        };
        let Self { gate, authorizer, drain, passthrough, .. } = self;
        let others = Others { gate, authorizer, drain, passthrough };
        let reading =
            Reading { permit, mirror: &mirror, request, parts, is_pretty, others, in_use: &in_use, guest };
        if request.is_watch() {
            return Ok(reading.answer().await);
        }
        let limit = request_timeout(&request.query, REQUEST_LIMIT)?;
        let answer = tokio::time::timeout(limit, reading.answer()).await;
        Ok(answer.unwrap_or_else(|_| Outcome::Answer(Box::new(fail::over_deadline()))))
    }

    /// Refuses a new list or watch while there is no memory for it.
    fn admit(&self, request: &ReadRequest) -> Result<(), Status> {
        let kind = match request.target {
            Target::Object { .. } => return Ok(()),
            Target::Collection { .. } if request.is_watch() => Refused::Watches,
            Target::Collection { .. } => Refused::Lists,
        };
        if self.admission.refuses(kind) {
            return Err(Status::too_many_requests("weir has reached its memory limit", OUT_OF_MEMORY_RETRY));
        }
        Ok(())
    }

    /// Whether there is a mirror, or will be for this request. A hash range is answered from one or not at all.
    fn is_worth_a_mirror(&self, request: &ReadRequest) -> bool {
        let resource = &request.resource;
        if self.mirrors.is_begun(resource) || request.names_shards() {
            return true;
        }
        match request.target {
            Target::Object { .. } => false,
            Target::Collection { .. } => {
                request.is_watch() || request.query.has("continue") || self.mirrors.is_listed_again(resource)
            }
        }
    }

    /// The mirror, once it answers; what to do without it.
    async fn mirror(&self, request: &ReadRequest) -> Result<(Arc<Mirror>, InUse), Result<Outcome, Status>> {
        let (mut state, in_use) = self.mirrors.begin(&request.resource).await;
        if request.is_watch() || request.names_shards() {
            let loaded = tokio::time::timeout(LOADING_LIMIT, loaded(&mut state)).await;
            loaded.map_err(|_| Err(self.gate.later()))?;
        }
        let state = state.borrow().clone();
        match state {
            State::Ready(mirror) => Ok((mirror, in_use)),
            State::Refused => Err(Ok(Outcome::Pass(Passed::NotMirrored, None))),
            State::Loading | State::Over => {
                let place = if request.is_watch() { self.gate.watch() } else { self.gate.list(Size::Small) };
                Err(place.map(|place| Outcome::Pass(Passed::Loading, Some(place))))
            }
        }
    }

    /// Upstream's own refusal to a caller without rights. A request that upstream would answer is not answered here.
    async fn refusal(&self, mut parts: Parts, body: Incoming) -> Response<ProxyBody> {
        let busy =
            fail::outcome(&parts, &fail::busy("shardSelector needs a credential that weir can have judged"));
        let pairs = parts.uri.query().unwrap_or_default().split('&').filter(|pair| !names_shards(pair));
        let query = pairs.collect::<Vec<_>>().join("&");
        let Ok(uri) = format!("{}?{query}", parts.uri.path()).parse::<Uri>() else { return busy };
        parts.uri = uri;
        let answer = self.passthrough.forward(Request::from_parts(parts, body), Passed::NoPermit).await;
        if answer.status().is_client_error() {
            answer.map(|body| ProxyBody::Passed(body, None))
        } else {
            busy
        }
    }
}

/// Waits until a mirror that may come answers; one that was emptied counts as one that has yet to come.
async fn loaded(state: &mut watch::Receiver<State>) {
    // One that has gone was over.
    let _ = state.wait_for(|state| !matches!(state, State::Loading)).await;
    let state = state.borrow().clone();
    if let State::Ready(mirror) = state {
        mirror.reached(ResourceVersion::ZERO.next()).await;
    }
}

/// Whether a get has to be fresh. Upstream answers one as cheaply as it would answer the question for a proof.
fn needs_proof(request: &ReadRequest) -> bool {
    GetIntent::of(&request.query) == GetIntent::Point(Freshness::Consistent)
}

fn refused(parts: &Parts, status: &Status) -> Outcome {
    Outcome::Answer(Box::new(fail::outcome(parts, status)))
}

fn pass_of(reason: NoPermit) -> Passed {
    tracing::debug!(%reason, "no permit");
    Passed::NoPermit
}

/// The answer to a request with a shard selector that would otherwise have been passed through.
fn shards_unpassed(why: Passed) -> Status {
    match why {
        Passed::Loading | Passed::Freshness | Passed::NotReached => fail::busy(
            "shardSelector is answered from a mirror only, which cannot answer this yet; resourceVersion=0 takes what it has",
        ),
        Passed::TooOld => Status::list_too_old(),
        why => shards_unserved(why.reason()),
    }
}

fn names_shards(pair: &str) -> bool {
    weir_core::query::Query::parse(pair).has("shardSelector") || pair.contains("shardSelector")
}
