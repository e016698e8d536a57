//! One request and its answer: who asks, may they, what do they want.
//!
//! The order is upstream's: 401, then 403 (for unknown resources too), then what the path names, then the options.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::http::Request;
use weir_core::Status;
use weir_core::query::Query;

use super::body::{self, Body, Flow};
use super::form::Form;
use super::route::{PathForm, Route, Target};
use super::{discovery, objects, reads, reviews, streams};
use crate::catalog::{ResourceId, ResourceInfo};
use crate::cluster::Cluster;
use crate::fault::{Effect, InstanceId};
use crate::read::{Patience, Step};
use crate::refusal;
use crate::sim::{RequestLine, Sim};
use crate::users::{self, Attributes, ResourceAttributes, User};

/// A request that was let in, with all that its answer may need.
pub(super) struct Exchange {
    pub(super) sim: Sim,
    pub(super) id: InstanceId,
    pub(super) parts: Parts,
    pub(super) body: Bytes,
    pub(super) query: Query,
    pub(super) user: User,
}

/// A request for a resource that is there.
pub(super) struct ResourceCall {
    pub(super) exchange: Exchange,
    pub(super) target: Target,
    pub(super) resource: ResourceId,
    pub(super) info: Arc<ResourceInfo>,
}

/// An answer before its common headers.
pub(super) enum Answer {
    /// A text of a media type, with its code.
    Text(u16, &'static str, String),
    /// An error.
    Failure(Status),
    /// A watch.
    Stream(Body),
}

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Upstream's limit for the body of a request.
const BODY_BYTES: usize = 3 * 1_024 * 1_024;

/// Answers one request.
pub(super) async fn answer(
    sim: Sim,
    id: InstanceId,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    thawed(&sim, id).await;
    let (parts, incoming) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let route = Route::parse(parts.uri.path());
    let errors = Form::plain(&parts.headers, &query);
    let audit_id = audit_id(&parts);
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let user = sim.who(header(AUTHORIZATION));
    let wanted = attributes(&parts, &route, &query);
    let verb = verb_of(&wanted);
    let mut line = RequestLine {
        instance: id,
        verb: verb.to_owned(),
        uri: parts.uri.to_string(),
        user_agent: header(USER_AGENT).unwrap_or_default().to_owned(),
        user: user.as_ref().map(|user| user.name.clone()).unwrap_or_default(),
        code: 0,
    };
    let resource = sim.ask(|cluster| resource_of(cluster, &route));
    let refused = sim.ask(|cluster| cluster.rules(id).take((&verb, resource), Effect::refusal));
    let flow = sim.ask(|cluster| flow(cluster, id, (&verb, resource)));
    let answer = match (refused, user) {
        (Some(code), _) => refusal_of(code),
        (None, None) => Answer::Failure(Status::new(401, "Unauthorized", "Unauthorized")),
        (None, Some(user)) if !user.is_allowed(&wanted) => Answer::Failure(users::forbidden(&user, &wanted)),
        (None, Some(user)) => match Limited::new(incoming, BODY_BYTES).collect().await {
            Err(_) => {
                Answer::Failure(Status::new(413, "RequestEntityTooLarge", "Request entity is too large"))
            }
            Ok(body) => {
                let body = body.to_bytes();
                Exchange { sim: sim.clone(), id, parts, body, query, user }.answer(route).await
            }
        },
    };
    let response = respond(answer, errors, (flow, audit_id));
    line.code = response.status().as_u16();
    sim.note(line);
    Ok(response)
}

// === impl Exchange ===

impl Exchange {
    async fn answer(self, route: Route) -> Answer {
        let is_get = self.parts.method == Method::GET;
        match route {
            Route::Resource(target) => self.resource(target).await,
            Route::Version if is_get => discovery::version(),
            Route::Health if is_get => Answer::Text(200, PLAIN, "ok".to_owned()),
            Route::CoreVersions if is_get => discovery::core_versions(&self),
            Route::Groups if is_get => discovery::groups(&self),
            Route::Group(group) if is_get => discovery::group(&self, &group),
            Route::Resources(group, version) if is_get => discovery::resources(&self, &group, &version),
            Route::Unknown => Answer::not_found(),
            Route::Version
            | Route::Health
            | Route::CoreVersions
            | Route::Groups
            | Route::Group(_)
            | Route::Resources(..) => Answer::Failure(refusal::method_not_allowed()),
        }
    }

    async fn resource(self, target: Target) -> Answer {
        if reviews::is_review(&target) {
            return reviews::answer(&self, &target);
        }
        let found = self.sim.ask(|cluster| {
            let catalog = cluster.catalog();
            let found = catalog.find_version(&target.gvr).map(|id| (id, Arc::new(catalog.info(id).clone())));
            let is_group_built_in =
                catalog.all().any(|(_, info)| info.gvr.group == target.gvr.group && !info.is_custom());
            found.ok_or(is_group_built_in)
        });
        match found {
            Err(true) => Answer::Failure(refusal::no_such_resource()),
            Err(false) => Answer::not_found(),
            Ok((_, info)) if !is_right_scope(&info, &target) => {
                if info.is_custom() {
                    Answer::not_found()
                } else {
                    Answer::Failure(refusal::no_such_resource())
                }
            }
            Ok((resource, info)) => ResourceCall { exchange: self, target, resource, info }.answer().await,
        }
    }

    /// Asks the cluster until it has an answer or the time is up.
    pub(super) async fn patiently<T>(
        &self,
        mut ask: impl FnMut(&mut Cluster, Patience) -> Result<Step<T>, Status>,
    ) -> Result<T, Status> {
        let mut changes = self.sim.changes();
        let deadline = tokio::time::Instant::now() + self.sim.timing().patience;
        loop {
            changes.borrow_and_update();
            if let Step::Ready(answer) = self.sim.ask(|cluster| ask(cluster, Patience::Waits))? {
                return Ok(answer);
            }
            if tokio::time::timeout_at(deadline, changes.changed()).await.is_err() {
                break;
            }
        }
        match self.sim.ask(|cluster| ask(cluster, Patience::Exhausted))? {
            Step::Ready(answer) => Ok(answer),
            Step::Wait(rv) => Err(refusal::too_new(rv, rv, 1)),
        }
    }
}

// === impl ResourceCall ===

impl ResourceCall {
    async fn answer(self) -> Answer {
        let has_name = self.target.name.is_some();
        let is_watch_path = self.target.form == PathForm::Watch;
        let result = match (self.exchange.parts.method.clone(), has_name) {
            (Method::GET, true) if !is_watch_path => reads::get(&self).await,
            (Method::GET, _) => match reads::Options::read(&self) {
                Ok(options) if options.is_watch => streams::watch(self, options).await,
                Ok(options) => reads::list(&self, options).await,
                Err(status) => Err(status),
            },
            (Method::POST, false) => objects::create(&self),
            (Method::PUT, true) => objects::update(&self),
            (Method::PATCH, true) => objects::patch(&self),
            (Method::DELETE, true) => objects::delete(&self),
            (Method::DELETE, false) => objects::delete_all(&self),
            _ => Err(refusal::method_not_allowed()),
        };
        result.unwrap_or_else(Answer::Failure)
    }
}

// === impl Answer ===

impl Answer {
    /// A JSON text.
    pub(super) fn json(code: u16, text: String) -> Self {
        Self::Text(code, JSON, text)
    }

    /// The bare 404 of a path that nobody serves.
    pub(super) fn not_found() -> Self {
        Self::Text(404, PLAIN, "404 page not found\n".to_owned())
    }
}

// === impl Effect ===

impl Effect {
    fn refusal(self) -> Option<u16> {
        match self {
            Self::Refuse(code) => Some(code),
            Self::CutAfter(_) | Self::EndAfter(_) | Self::TruncateAt(_) => None,
        }
    }

    fn truncation(self) -> Option<usize> {
        match self {
            Self::TruncateAt(bytes) => Some(bytes),
            Self::CutAfter(_) | Self::EndAfter(_) | Self::Refuse(_) => None,
        }
    }
}

/// Waits while an instance is frozen.
pub(super) async fn thawed(sim: &Sim, id: InstanceId) {
    let mut changes = sim.changes();
    while sim.ask(|cluster| cluster.rules(id).is_frozen) {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn flow(cluster: &mut Cluster, id: InstanceId, asked: (&str, Option<ResourceId>)) -> Flow {
    let rules = cluster.rules(id);
    Flow { bytes_per_second: rules.bytes_per_second, truncate_at: rules.take(asked, Effect::truncation) }
}

fn respond(answer: Answer, errors: Form, (flow, audit_id): (Flow, HeaderValue)) -> Response<Body> {
    let (code, content_type, body) = match answer {
        Answer::Text(code, content_type, text) => (code, content_type, body::whole(text, flow)),
        Answer::Stream(body) => (200, JSON, body),
        Answer::Failure(status) => {
            let retry_after = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            let mut response = response(status.code, JSON, body::whole(errors.error(&status), flow));
            if retry_after > 0 {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after));
            }
            response.headers_mut().insert(AUDIT_ID, audit_id);
            return response;
        }
    };
    let mut response = response(code, content_type, body);
    if code == 429 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(1));
    }
    response.headers_mut().insert(AUDIT_ID, audit_id);
    response
}

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

fn response(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// What a rule's refusal says: upstream's text for 429 and 401, an internal error for the rest.
fn refusal_of(code: u16) -> Answer {
    match code {
        429 => Answer::Text(429, PLAIN, "Too many requests, please try again later.\n".to_owned()),
        401 => Answer::Failure(Status::new(401, "Unauthorized", "Unauthorized")),
        code => {
            Answer::Failure(Status::new(code, "InternalError", "Internal error occurred: a simulated fault"))
        }
    }
}

fn audit_id(parts: &Parts) -> HeaderValue {
    static ANSWERED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let given = parts.headers.get(AUDIT_ID).cloned();
    given.unwrap_or_else(|| {
        let number = ANSWERED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let text = format!("00000000-0000-4000-8000-{number:012x}");
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("0"))
    })
}

fn resource_of(cluster: &Cluster, route: &Route) -> Option<ResourceId> {
    match route {
        Route::Resource(target) => cluster.catalog().find_version(&target.gvr),
        Route::Version
        | Route::Health
        | Route::CoreVersions
        | Route::Groups
        | Route::Group(_)
        | Route::Resources(..)
        | Route::Unknown => None,
    }
}

fn is_right_scope(info: &ResourceInfo, target: &Target) -> bool {
    match (info.is_namespaced(), &target.namespace) {
        (true, Some(_)) | (false, None) => true,
        (true, None) => target.name.is_none(),
        (false, Some(_)) => false,
    }
}

fn verb_of(wanted: &Attributes) -> String {
    match wanted {
        Attributes::Resource(wanted) => wanted.verb.clone(),
        Attributes::Path { verb, .. } => verb.clone(),
    }
}

/// What the request is judged as, before anything in it is known to be right.
fn attributes(parts: &Parts, route: &Route, query: &Query) -> Attributes {
    let Route::Resource(target) = route else {
        let verb = parts.method.as_str().to_lowercase();
        return Attributes::Path { verb, path: parts.uri.path().to_owned() };
    };
    let is_watch = query.get("watch").is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false"));
    let verb = match (parts.method.as_str(), target.name.is_some()) {
        ("GET" | "HEAD", _) if target.form == PathForm::Watch => "watch",
        ("GET" | "HEAD", true) => "get",
        ("GET" | "HEAD", false) if is_watch => "watch",
        ("GET" | "HEAD", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    };
    let named =
        reads::named_by_selector(query).filter(|_| ["list", "watch", "deletecollection"].contains(&verb));
    let own_namespace = (target.gvr.group.is_empty() && &*target.gvr.resource == "namespaces")
        .then(|| target.name.clone())
        .flatten();
    Attributes::Resource(ResourceAttributes {
        verb: verb.to_owned(),
        group: target.gvr.group.to_string(),
        resource: target.gvr.resource.to_string(),
        subresource: target.subresource.clone().unwrap_or_default(),
        namespace: target.namespace.clone().or(own_namespace).unwrap_or_default(),
        name: target.name.clone().or(named).unwrap_or_default(),
    })
}
