//! The way of a request: who asks, may they, what do they want, how fresh, answer. What a mirror cannot answer exactly is
//! passed through, with one exception: a shard selector never reaches an upstream that might ignore it.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;
use weir_core::accept::Family;
use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::mirror::JsonForm;
use weir_core::options::{Freshness, GetIntent, ListOptions, Reach, WatchListGate, request_timeout};
use weir_core::{ObjectKey, Status};

use super::body::ProxyBody;
use super::gate::{Gate, Place};
use super::list::{Listed, Listing};
use super::request::{ReadRequest, Target, shards_unserved};
use super::watch::Watched;
use super::{fail, get, list_body, watch, watch_body};
use crate::auth::{Authorizer, NoPermit, Permit};
use crate::mirror::Mirror;
use crate::mirror::registry::{Mirrors, State};
use crate::passthrough::{Passed, Passthrough};

/// How long a watch waits for its mirror to load.
const LOADING_LIMIT: Duration = Duration::from_secs(10);
/// Upstream's own limit for requests that are no watch.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Answers requests.
#[derive(Debug)]
pub struct Proxy {
    mirrors: Arc<Mirrors>,
    authorizer: Authorizer,
    passthrough: Passthrough,
    gate: Gate,
    stop: CancellationToken,
}

/// What comes of a request.
enum Outcome {
    /// This answer.
    Answer(Response<ProxyBody>),
    /// Upstream's, with a place in the gate where one is needed.
    Pass(Passed, Option<Place>),
    /// Upstream's refusal of the same request without its shard selector; anything but a refusal is not for the client.
    Refusal,
}

/// How a list is narrowed, and in what terms its tokens are.
struct Narrowed {
    interest: Arc<Interest>,
    namespace: Option<Arc<str>>,
    reach: Reach,
}

// === impl Proxy ===

impl Proxy {
    /// A proxy over these mirrors; `stop` ends the watches.
    pub fn new(mirrors: Arc<Mirrors>, authorizer: Authorizer, passthrough: Passthrough, stop: CancellationToken) -> Self {
        Self { mirrors, authorizer, passthrough, gate: Gate::new(), stop }
    }

    /// The answer to a request.
    pub async fn answer(&self, request: Request<Incoming>) -> Response<ProxyBody> {
        let (parts, body) = request.into_parts();
        match self.decide(&parts).await {
            Outcome::Answer(response) => response,
            Outcome::Pass(why, place) => {
                let answer = self.passthrough.forward(Request::from_parts(parts, body), why).await;
                answer.map(|body| match place {
                    Some(place) => ProxyBody::held(body, place),
                    None => ProxyBody::Passed(body),
                })
            }
            Outcome::Refusal => self.refusal(parts, body).await,
        }
    }

    async fn decide(&self, parts: &Parts) -> Outcome {
        let request = match ReadRequest::read(parts) {
            Ok(request) => request,
            Err(why) => return Outcome::Pass(why, None),
        };
        let outcome = self.read(parts, &request).await;
        match outcome {
            Ok(Outcome::Pass(why, _)) if request.names_shards() => match why {
                Passed::NoPermit => Outcome::Refusal,
                why => fail::outcome(parts, &shards_unpassed(why)).into(),
            },
            Ok(outcome) => outcome,
            Err(status) => fail::outcome(parts, &status).into(),
        }
    }

    /// A read of a form that mirrors know.
    async fn read(&self, parts: &Parts, request: &ReadRequest) -> Result<Outcome, Status> {
        if !self.mirrors.allows(&request.resource) {
            return Ok(Outcome::Pass(Passed::NotMirrored, None));
        }
        if matches!(request.target, Target::Object { .. }) && needs_proof(request) {
            return Ok(Outcome::Pass(Passed::Freshness, None));
        }
        let permit = match self.authorizer.authorize(&parts.headers, &request.info).await {
            Ok(permit) => permit,
            Err(reason) => return Ok(Outcome::Pass(pass_of(reason), None)),
        };
        let mirror = match self.mirror(request).await {
            Ok(mirror) => mirror,
            Err(other) => return other,
        };
        let spec = mirror.spec();
        let family = match spec.form {
            JsonForm::BuiltIn => Family::BuiltIn,
            JsonForm::Custom => Family::Custom,
        };
        let Some(is_pretty) = request.json(parts, family) else {
            return Ok(Outcome::Pass(Passed::Encoding, None));
        };
        match &request.target {
            Target::Object { namespace, name } => {
                if spec.is_namespaced != namespace.is_some() {
                    return Ok(Outcome::Pass(Passed::NotARead, None));
                }
                let key = ObjectKey::new(namespace.as_deref().unwrap_or_default(), name);
                Ok(self.get(&permit, &mirror, (request, &key), is_pretty))
            }
            Target::Collection { namespace, .. } if namespace.is_some() && !spec.is_namespaced => {
                Ok(Outcome::Pass(Passed::NotARead, None))
            }
            Target::Collection { namespace, name, path } => {
                let mut options = ListOptions::decode(&request.query)?;
                options.validate(WatchListGate::On)?;
                let narrowed = narrow(&mirror, &options, namespace.as_deref(), name.as_deref())?;
                if options.is_watch(*path) {
                    self.watch(&permit, &mirror, &narrowed, &options).await
                } else {
                    request_timeout(&request.query, REQUEST_LIMIT)?;
                    self.list(&permit, &mirror, (&narrowed, &options), is_pretty).await
                }
            }
        }
    }

    /// The mirror, once it answers; what to do without it.
    async fn mirror(&self, request: &ReadRequest) -> Result<Arc<Mirror>, Result<Outcome, Status>> {
        let mut state = self.mirrors.start(&request.resource);
        if (request.is_watch() || request.names_shards()) && matches!(*state.borrow(), State::Loading) {
            let loaded = state.wait_for(|state| !matches!(state, State::Loading));
            if tokio::time::timeout(LOADING_LIMIT, loaded).await.is_err() {
                return Err(Err(fail::busy("the mirror of this resource is loading")));
            }
        }
        let state = state.borrow().clone();
        match state {
            State::Ready(mirror) => Ok(mirror),
            State::Refused(_) => Err(Ok(Outcome::Pass(Passed::NotMirrored, None))),
            State::Loading => Err(self.gate.list().map(|place| Outcome::Pass(Passed::Loading, Some(place)))),
        }
    }

    fn get(
        &self,
        _permit: &Permit,
        mirror: &Mirror,
        (request, key): (&ReadRequest, &ObjectKey),
        is_pretty: bool,
    ) -> Outcome {
        match get::get(mirror, key, GetIntent::of(&request.query)) {
            Ok(object) => answered(mirror, list_body::object(mirror.spec(), &object, is_pretty)).into(),
            Err(why) => Outcome::Pass(why, None),
        }
    }

    async fn list(
        &self,
        _permit: &Permit,
        mirror: &Mirror,
        (narrowed, options): (&Narrowed, &ListOptions),
        is_pretty: bool,
    ) -> Result<Outcome, Status> {
        let intent = options.list_intent(narrowed.reach)?;
        let listing =
            Listing { mirror, interest: narrowed.interest.clone(), namespace: narrowed.namespace.as_deref() };
        match listing.answer(&intent).await {
            Listed::Answer(meta, items) => {
                let Some(facts) = mirror.facts() else { return Ok(Outcome::Pass(Passed::Loading, None)) };
                let shard = meta.shard.clone();
                let body = list_body::list((mirror.spec(), &facts), &meta, items, is_pretty);
                Ok(with_shard(answered(mirror, body), shard.as_deref()).into())
            }
            Listed::Pass(why) => Ok(Outcome::Pass(why, None)),
            Listed::Refuse(status) => Err(status),
        }
    }

    async fn watch(
        &self,
        _permit: &Permit,
        mirror: &Arc<Mirror>,
        narrowed: &Narrowed,
        options: &ListOptions,
    ) -> Result<Outcome, Status> {
        let body = match watch::watch(mirror, &narrowed.interest, options, &self.stop).await? {
            Watched::Answer(plan) => watch_body::watch(*plan),
            Watched::Over => ProxyBody::Full(None),
            Watched::Failed(status) => watch_body::error(&status),
            Watched::Pass(why) if narrowed.interest.shard.is_some() && why == Passed::TooOld => {
                let floor = mirror.window().map_or(Default::default(), |window| window.floor);
                watch_body::error(&Status::watch_too_old(options.resource_version.parse().unwrap_or_default(), floor))
            }
            Watched::Pass(why @ Passed::TooOld) => return Ok(Outcome::Pass(why, Some(self.gate.watch()?))),
            Watched::Pass(why) => return Ok(Outcome::Pass(why, None)),
        };
        let shard = narrowed.interest.shard.as_ref().map(ToString::to_string);
        Ok(with_shard(answered(mirror, body), shard.as_deref()).into())
    }

    /// Upstream's own refusal to a caller without rights. A request that upstream would answer is not answered here.
    async fn refusal(&self, mut parts: Parts, body: Incoming) -> Response<ProxyBody> {
        let busy = fail::outcome(&parts, &fail::busy("shardSelector needs a bearer token that weir can have judged"));
        let pairs = parts.uri.query().unwrap_or_default().split('&').filter(|pair| !names_shards(pair));
        let query = pairs.collect::<Vec<_>>().join("&");
        let Ok(uri) = format!("{}?{query}", parts.uri.path()).parse::<Uri>() else { return busy };
        parts.uri = uri;
        let answer = self.passthrough.forward(Request::from_parts(parts, body), Passed::NoPermit).await;
        if answer.status().is_client_error() { answer.map(ProxyBody::Passed) } else { busy }
    }
}

impl From<Response<ProxyBody>> for Outcome {
    fn from(response: Response<ProxyBody>) -> Self {
        Self::Answer(response)
    }
}

/// Whether a get has to be fresh. Upstream answers one as cheaply as it would answer the question for a proof.
fn needs_proof(request: &ReadRequest) -> bool {
    GetIntent::of(&request.query) == GetIntent::Point(Freshness::Consistent)
}

fn narrow(
    mirror: &Mirror,
    options: &ListOptions,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Narrowed, Status> {
    let spec = mirror.spec();
    let fields = options.field_terms(spec.schema.table(), name)?;
    let exact = |target: FieldTarget| {
        let is_exact = |term: &&FieldTerm| term.target == target && !term.is_negated && !term.value.is_empty();
        fields.iter().find(is_exact).map(|term| term.value.clone())
    };
    let by_field = exact(FieldTarget::Namespace).filter(|_| spec.is_namespaced);
    let namespace: Option<Arc<str>> = namespace.map(Arc::from).or(by_field);
    let is_list = options.continue_token.is_empty();
    let name = exact(FieldTarget::Name);
    let is_point = name.is_some() && (namespace.is_some() || !spec.is_namespaced) && is_list;
    let shard = options.shard_selector()?;
    let scope = Scope { namespace: namespace.clone(), name };
    Ok(Narrowed {
        interest: Arc::new(Interest::new(scope, options.label_selector.clone(), fields, shard)),
        namespace,
        reach: if is_point { Reach::Object } else { Reach::Collection },
    })
}

fn pass_of(reason: NoPermit) -> Passed {
    tracing::debug!(%reason, "no permit");
    Passed::NoPermit
}

/// The answer to a request with a shard selector that would otherwise have been passed through.
fn shards_unpassed(why: Passed) -> Status {
    match why {
        Passed::Loading | Passed::Freshness | Passed::NotReached => {
            fail::busy("shardSelector is answered from a mirror only, which cannot answer this yet; resourceVersion=0 takes what it has")
        }
        Passed::TooOld => Status::list_too_old(),
        why => shards_unserved(why.reason()),
    }
}

fn names_shards(pair: &str) -> bool {
    weir_core::query::Query::parse(pair).has("shardSelector") || pair.contains("shardSelector")
}

fn answered(mirror: &Mirror, body: ProxyBody) -> Response<ProxyBody> {
    let mut response = fail::json(body);
    if let Some(facts) = mirror.facts() {
        let warnings = facts.warnings.iter().filter_map(|text| HeaderValue::from_str(text).ok());
        for warning in warnings {
            response.headers_mut().append("warning", warning);
        }
    }
    response
}

fn with_shard(mut response: Response<ProxyBody>, selector: Option<&str>) -> Response<ProxyBody> {
    if let Some(value) = selector.and_then(|selector| HeaderValue::from_str(selector).ok()) {
        response.headers_mut().insert("weir-shard-selector", value);
    }
    response
}
