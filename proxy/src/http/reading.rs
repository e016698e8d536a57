//! A read that its caller may do, of a mirror that answers: what comes of it.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Response};
use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::options::{
    Freshness, GetIntent, ListAt, ListIntent, ListOptions, PathForm, Reach, WatchListGate,
};
use weir_core::{ObjectKey, Status};

use super::body::{Held, ProxyBody};
use super::clients::Guest;
use super::fresh::Otherwise;
use super::gate::{Gate, Place, Size};
use super::list::{Listed, Listing};
use super::pages::PageSource;
use super::request::{ReadRequest, Target};
use super::watch::{Watched, Watching};
use super::{fail, get, list_body, watch_body};
use crate::auth::{Authorizer, Permit};
use crate::drain::Drain;
use crate::mirror::Mirror;
use crate::mirror::proofs::Proof;
use crate::mirror::usage::InUse;
use crate::passthrough::{Passed, Passthrough};

/// From so many objects on a list is a large one.
const LARGE: usize = 1_000;

/// What comes of a request.
pub(super) enum Outcome {
    /// This answer.
    Answer(Box<Response<ProxyBody>>),
    /// Upstream's, with a place in the gate where one is needed.
    Pass(Passed, Option<Place>),
    /// Upstream's refusal of the same request without its shard selector; anything but a refusal is not for the client.
    Refusal,
}

/// A read that is being answered.
pub(super) struct Reading<'a> {
    pub(super) permit: Permit,
    pub(super) mirror: &'a Arc<Mirror>,
    pub(super) request: &'a ReadRequest,
    pub(super) parts: &'a Parts,
    pub(super) is_pretty: bool,
    pub(super) others: Others<'a>,
    pub(super) in_use: &'a InUse,
    pub(super) guest: &'a Guest,
}

/// What an answer needs beside the mirror.
#[derive(Clone, Copy)]
pub(super) struct Others<'a> {
    /// How much may go to upstream.
    pub(super) gate: &'a Gate,
    /// Asks again for those whose answers go on.
    pub(super) authorizer: &'a Authorizer,
    /// Tells clients to leave.
    pub(super) drain: &'a Drain,
    /// The way to upstream.
    pub(super) passthrough: &'a Passthrough,
}

/// How a list is narrowed, and in what terms its tokens are.
struct Narrowed {
    interest: Arc<Interest>,
    namespace: Option<Arc<str>>,
    reach: Reach,
}

// === impl Reading ===

impl Reading<'_> {
    /// The answer, an error in the encoding of errors among them, or who else has to give it.
    pub(super) async fn answer(&self) -> Outcome {
        match self.outcome().await {
            Ok(outcome) => outcome,
            Err(status) => Outcome::Answer(Box::new(self.with_warnings(fail::outcome(self.parts, &status)))),
        }
    }

    async fn outcome(&self) -> Result<Outcome, Status> {
        let is_namespaced = self.mirror.spec().is_namespaced;
        match &self.request.target {
            Target::Object { namespace, .. } if is_namespaced != namespace.is_some() => {
                self.passed(Passed::NotARead)
            }
            Target::Object { namespace, name } => {
                self.get(&ObjectKey::new(namespace.as_deref().unwrap_or_default(), name)).await
            }
            Target::Collection { namespace, .. } if namespace.is_some() && !is_namespaced => {
                self.passed(Passed::NotARead)
            }
            // Upstream knows old watches of one object by its whole name only, where it has a namespace.
            Target::Collection { namespace: None, name: Some(_), .. } if is_namespaced => {
                self.passed(Passed::NotARead)
            }
            Target::Collection { namespace, name, path } => {
                self.collection(namespace.as_deref(), name.as_deref(), *path).await
            }
        }
    }

    async fn collection(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
        path: PathForm,
    ) -> Result<Outcome, Status> {
        let mut options = ListOptions::decode(&self.request.query)?;
        options.validate(WatchListGate::On)?;
        let narrowed = narrow(self.mirror, &options, namespace, name)?;
        if options.is_watch(path) {
            self.watch(&narrowed, &options).await
        } else {
            self.list(&narrowed, &options).await
        }
    }

    async fn get(&self, key: &ObjectKey) -> Result<Outcome, Status> {
        match get::get(self.mirror, key, GetIntent::of(&self.request.query)).await {
            Ok(object) => {
                let body = list_body::object(self.mirror.spec(), &object, self.is_pretty);
                Ok(self.answered(body, None, None))
            }
            Err(why) => self.passed(why),
        }
    }

    /// A list that upstream has no place for is given more time: what the mirror lacks may come.
    async fn list(&self, narrowed: &Narrowed, options: &ListOptions) -> Result<Outcome, Status> {
        let intent = options.list_intent(narrowed.reach)?;
        let otherwise = match narrowed.interest.shard {
            Some(_) => Otherwise::Nobody,
            None => Otherwise::Upstream,
        };
        match self.listed(narrowed, &intent, otherwise).await? {
            Outcome::Pass(why, _) if narrowed.interest.shard.is_some() => Ok(Outcome::Pass(why, None)),
            Outcome::Pass(why, _) => match self.others.gate.list(self.size(narrowed, &intent).await) {
                Ok(place) => Ok(Outcome::Pass(why, Some(place))),
                Err(refusal) if why != Passed::Freshness => Err(refusal),
                Err(refusal) => match self.listed(narrowed, &intent, Otherwise::Nobody).await {
                    Ok(answer @ Outcome::Answer(_)) => Ok(answer),
                    _ => Err(refusal),
                },
            },
            outcome => Ok(outcome),
        }
    }

    /// The mirror's answer to a list, or why it has none.
    async fn listed(
        &self,
        narrowed: &Narrowed,
        intent: &ListIntent,
        otherwise: Otherwise,
    ) -> Result<Outcome, Status> {
        let listing = Listing {
            mirror: self.mirror,
            interest: narrowed.interest.clone(),
            namespace: narrowed.namespace.as_deref(),
            reach: narrowed.reach,
            otherwise,
        };
        match listing.answer(intent).await {
            Listed::Answer(meta, items, proof) => {
                let Some(facts) = self.mirror.facts() else {
                    return Ok(Outcome::Pass(Passed::Loading, None));
                };
                let shard = meta.shard.clone();
                let body = list_body::list((self.mirror.spec(), &facts), &meta, items, self.is_pretty);
                Ok(self.answered(body, shard.as_deref(), proof))
            }
            Listed::Pass(why) => Ok(Outcome::Pass(why, None)),
            Listed::Refuse(status) => Err(status),
        }
    }

    /// How much a list would ask of upstream, as far as the mirror knows.
    async fn size(&self, narrowed: &Narrowed, intent: &ListIntent) -> Size {
        if narrowed.interest.scope.is_one_object(self.mirror.spec().is_namespaced) {
            return Size::Object;
        }
        let is_page = intent.limit.is_some_and(|limit| limit.get() < LARGE as u64);
        let (false, Reach::Collection, Some(newest)) = (is_page, narrowed.reach, self.mirror.newest()) else {
            return Size::Small;
        };
        let scope = Scope { namespace: narrowed.namespace.clone(), name: None };
        let count = self.mirror.shards().count(&scope, (newest, None), LARGE).await;
        if count.is_ok_and(|count| count >= LARGE) { Size::Large } else { Size::Small }
    }

    /// A watch that the mirror cannot prove to be fresh is not left to upstream for hours: only its state is read there.
    async fn watch(&self, narrowed: &Narrowed, options: &ListOptions) -> Result<Outcome, Status> {
        let interest = &narrowed.interest;
        self.guest.watches(self.parts, (&self.request.resource, interest))?;
        let watching = Watching { mirror: self.mirror, interest, options, drain: self.others.drain };
        let (body, proof) = match self.watched(narrowed, &watching).await? {
            Watched::Answer(plan, proof) => (watch_body::watch_of(*plan, self.guest), proof),
            Watched::Over => (ProxyBody::Full(None), None),
            Watched::Failed(status) => (watch_body::error(&status), None),
            Watched::Pass(Passed::TooOld) if interest.shard.is_some() => {
                let floor = self.mirror.window().map(|window| window.floor).unwrap_or_default();
                let from = options.resource_version.parse().unwrap_or_default();
                (watch_body::error(&Status::watch_too_old(from, floor)), None)
            }
            Watched::Pass(why) if interest.shard.is_some() => return Ok(Outcome::Pass(why, None)),
            Watched::Pass(why) => return Ok(Outcome::Pass(why, Some(self.others.gate.watch()?))),
        };
        let shard = interest.shard.as_ref().map(ToString::to_string);
        Ok(self.answered(body, shard.as_deref(), proof))
    }

    async fn watched(&self, narrowed: &Narrowed, watching: &Watching<'_>) -> Result<Watched, Status> {
        let refusal = match watching.answer(Otherwise::Upstream).await? {
            Watched::Pass(Passed::Freshness) => {
                let list = ListIntent { at: ListAt::Latest(Freshness::Consistent), limit: None };
                match self.others.gate.list(self.size(narrowed, &list).await) {
                    Ok(place) => match watching.answer_after(self.pages(narrowed), place).await? {
                        Some(watched) => return Ok(watched),
                        None => fail::busy("the mirror of this resource cannot answer now, nor can upstream"),
                    },
                    Err(refusal) => refusal,
                }
            }
            watched => return Ok(watched),
        };
        match watching.answer(Otherwise::Nobody).await? {
            answer @ Watched::Answer(..) => Ok(answer),
            _ => Err(refusal),
        }
    }

    /// What a watch shows at its start, at upstream.
    fn pages(&self, narrowed: &Narrowed) -> PageSource {
        let named = narrowed.interest.scope.name.as_ref().map(|name| format!("metadata.name={name}"));
        let asked = |name| self.request.query.get(name).map(str::to_owned);
        let fields = named.or_else(|| asked("fieldSelector"));
        let selectors = [("fieldSelector", fields), ("labelSelector", asked("labelSelector"))];
        PageSource {
            passthrough: self.others.passthrough.clone(),
            client: self.parts.clone(),
            spec: self.mirror.spec().clone(),
            interest: narrowed.interest.clone(),
            selectors: selectors.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
        }
    }

    /// A get or a form that no mirror answers: upstream does, for few at once where the mirror should have.
    fn passed(&self, why: Passed) -> Result<Outcome, Status> {
        let place = match why {
            Passed::Loading => Some(self.others.gate.list(Size::Small)?),
            _ => None,
        };
        Ok(Outcome::Pass(why, place))
    }

    /// An answer from the mirror. It leaves only here, and only beside the permit.
    fn answered(&self, body: ProxyBody, shard: Option<&str>, proof: Option<Proof>) -> Outcome {
        let body = body.holding(|| self.held());
        let mut response = self.with_warnings(fail::json(&self.permit, body, proof));
        if let Some(value) = shard.and_then(|selector| HeaderValue::from_str(selector).ok()) {
            response.headers_mut().insert("weir-shard-selector", value);
        }
        Outcome::Answer(Box::new(response))
    }

    /// What such an answer holds to its end. A list shows one state that its caller might see when they asked; a watch goes on
    /// for hours, for as long as they may.
    fn held(&self) -> Held {
        let standing = || self.others.authorizer.standing(&self.permit, &self.request.info);
        let standing = self.request.is_watch().then(standing);
        Held { mirror: Some(self.in_use.clone()), standing, audit: None }
    }

    /// Upstream's warnings about the resource; the old watch paths carry none.
    fn with_warnings(&self, mut response: Response<ProxyBody>) -> Response<ProxyBody> {
        if matches!(&self.request.target, Target::Collection { path: PathForm::Watch, .. }) {
            return response;
        }
        let facts = self.mirror.facts();
        let warnings = facts.iter().flat_map(|facts| &facts.warnings);
        for warning in warnings.filter_map(|text| HeaderValue::from_str(text).ok()) {
            response.headers_mut().append("warning", warning);
        }
        response
    }
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
        let is_exact =
            |term: &&FieldTerm| term.target == target && !term.is_negated && !term.value.is_empty();
        fields.iter().find(is_exact).map(|term| term.value.clone())
    };
    let by_field = exact(FieldTarget::Namespace).filter(|_| spec.is_namespaced);
    let namespace: Option<Arc<str>> = namespace.map(Arc::from).or(by_field);
    let is_list = options.continue_token.is_empty();
    let name = exact(FieldTarget::Name);
    let shard = options.shard_selector()?;
    let scope = Scope { namespace: namespace.clone(), name };
    let is_point = scope.is_one_object(spec.is_namespaced) && is_list;
    Ok(Narrowed {
        interest: Arc::new(Interest::new(scope, options.label_selector.clone(), fields, shard)),
        namespace,
        reach: if is_point { Reach::Object } else { Reach::Collection },
    })
}
