//! A read that its caller may do, of a mirror that answers: what comes of it.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Response};
use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::options::{GetIntent, ListOptions, PathForm, Reach, WatchListGate};
use weir_core::{ObjectKey, Status};

use super::body::ProxyBody;
use super::gate::{Gate, Place};
use super::list::{Listed, Listing};
use super::request::{ReadRequest, Target};
use super::watch::Watched;
use super::{fail, get, list_body, watch, watch_body};
use crate::auth::Permit;
use crate::drain::Drain;
use crate::mirror::Mirror;
use crate::mirror::proofs::Proof;
use crate::mirror::usage::InUse;
use crate::passthrough::Passed;

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
    pub(super) is_pretty: bool,
    pub(super) gate: &'a Gate,
    pub(super) drain: &'a Drain,
    pub(super) in_use: &'a InUse,
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
    pub(super) async fn answer(&self, parts: &Parts) -> Outcome {
        match self.outcome().await {
            Ok(outcome) => outcome,
            Err(status) => Outcome::Answer(Box::new(self.with_warnings(fail::outcome(parts, &status)))),
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

    async fn list(&self, narrowed: &Narrowed, options: &ListOptions) -> Result<Outcome, Status> {
        let intent = options.list_intent(narrowed.reach)?;
        let listing = Listing {
            mirror: self.mirror,
            interest: narrowed.interest.clone(),
            namespace: narrowed.namespace.as_deref(),
            reach: narrowed.reach,
        };
        match listing.answer(&intent).await {
            Listed::Answer(meta, items, proof) => {
                let Some(facts) = self.mirror.facts() else { return self.passed(Passed::Loading) };
                let shard = meta.shard.clone();
                let body = list_body::list((self.mirror.spec(), &facts), &meta, items, self.is_pretty);
                Ok(self.answered(body, shard.as_deref(), proof))
            }
            Listed::Pass(why) => self.passed(why),
            Listed::Refuse(status) => Err(status),
        }
    }

    async fn watch(&self, narrowed: &Narrowed, options: &ListOptions) -> Result<Outcome, Status> {
        let interest = &narrowed.interest;
        let (body, proof) = match watch::watch(self.mirror, interest, options, self.drain).await? {
            Watched::Answer(plan, proof) => (watch_body::watch(*plan), proof),
            Watched::Over => (ProxyBody::Full(None), None),
            Watched::Failed(status) => (watch_body::error(&status), None),
            Watched::Pass(Passed::TooOld) if interest.shard.is_some() => {
                let floor = self.mirror.window().map(|window| window.floor).unwrap_or_default();
                let from = options.resource_version.parse().unwrap_or_default();
                (watch_body::error(&Status::watch_too_old(from, floor)), None)
            }
            Watched::Pass(why) => return self.passed(why),
        };
        let shard = interest.shard.as_ref().map(ToString::to_string);
        Ok(self.answered(body, shard.as_deref(), proof))
    }

    /// Upstream answers; for want of what the mirror should have, for few at once. A mirror that was emptied because
    /// upstream's history went back has told all its clients to begin again, and they come together.
    fn passed(&self, why: Passed) -> Result<Outcome, Status> {
        let is_watch = self.request.is_watch();
        if is_watch && [Passed::Loading, Passed::TooOld].contains(&why) {
            return Ok(Outcome::Pass(why, Some(self.gate.watch()?)));
        }
        let place = if why == Passed::Loading { Some(self.gate.list()?) } else { None };
        Ok(Outcome::Pass(why, place))
    }

    /// An answer from the mirror. It leaves only here, and only beside the permit.
    fn answered(&self, body: ProxyBody, shard: Option<&str>, proof: Option<Proof>) -> Outcome {
        let body = body.of_mirror(self.in_use.clone());
        let mut response = self.with_warnings(fail::json(&self.permit, body, proof));
        if let Some(value) = shard.and_then(|selector| HeaderValue::from_str(selector).ok()) {
            response.headers_mut().insert("weir-shard-selector", value);
        }
        Outcome::Answer(Box::new(response))
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
    let is_point = name.is_some() && (namespace.is_some() || !spec.is_namespaced) && is_list;
    let shard = options.shard_selector()?;
    let scope = Scope { namespace: namespace.clone(), name };
    Ok(Narrowed {
        interest: Arc::new(Interest::new(scope, options.label_selector.clone(), fields, shard)),
        namespace,
        reach: if is_point { Reach::Object } else { Reach::Collection },
    })
}
