//! One request and its answer: who asks, may they, what do they want.
//!
//! The order is upstream's: 401, then 403 (for unknown resources too), then what the path names, then the options.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use weir_core::Status;
use weir_core::options::request_timeout;
use weir_core::query::Query;
use weir_core::status::DEADLINE_BODY;

use super::body::{Body, Flow};
use super::respond::{self, Answer, Common};
use super::route::{PathForm, Route, Target};
use super::{access, discovery, objects, openapi, reads, reviews, streams};
use crate::catalog::{ResourceId, ResourceInfo};
use crate::cluster::Cluster;
use crate::fault::InstanceId;
use crate::read::{Patience, Step};
use crate::refusal;
use crate::sim::{RequestLine, Sim};
use crate::users::{self, User};

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

/// Upstream's limit for the body of a request.
const BODY_BYTES: usize = 3 * 1_024 * 1_024;

/// Upstream's limit for all but watches.
const LONGEST_REQUEST: Duration = Duration::from_secs(60);

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
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let wanted = access::attributes(&parts, &route, &query);
    let user = access::who(&sim, &parts, &wanted);
    let mut line = RequestLine {
        instance: id,
        verb: wanted.verb().to_owned(),
        uri: parts.uri.to_string(),
        user_agent: header(USER_AGENT).unwrap_or_default().to_owned(),
        user: user.as_ref().map(|user| user.name.clone()).unwrap_or_default(),
        code: 0,
    };
    let (fault, flow, common) = sim.ask(|cluster| {
        let resource = resource_of(cluster, &route);
        let asked = (wanted.verb(), resource);
        let warning = resource.and_then(|id| cluster.catalog().info(id).deprecation.clone());
        let rules = cluster.rules(id);
        let fault = rules.take(asked, respond::refusal);
        let truncate_at = rules.take(asked, respond::truncation);
        let flow = Flow { bytes_per_second: rules.bytes_per_second(asked), truncate_at };
        (fault, flow, Common::new(&parts, &query, warning))
    });
    let answer = match (fault, user) {
        (Some(refusal), _) => refusal,
        (None, Err(status)) => Answer::Failure(status),
        (None, Ok(user)) if !user.is_allowed(&wanted) => Answer::Failure(users::forbidden(&user, &wanted)),
        (None, Ok(user)) => match Limited::new(incoming, BODY_BYTES).collect().await {
            Err(_) => {
                Answer::Failure(Status::new(413, "RequestEntityTooLarge", "Request entity is too large"))
            }
            Ok(body) => {
                let body = body.to_bytes();
                let exchange = Exchange { sim: sim.clone(), id, parts, body, query, user };
                exchange.answer_in_time(route, wanted.verb()).await
            }
        },
    };
    let response = common.respond(answer, flow);
    line.code = response.status().as_u16();
    sim.note(line);
    Ok(response)
}

// === impl Exchange ===

impl Exchange {
    /// Answers within the time that the request gives itself; a watch has its own.
    async fn answer_in_time(self, route: Route, verb: &str) -> Answer {
        if verb == "watch" {
            return self.answer(route).await;
        }
        let limit = match request_timeout(&self.query, LONGEST_REQUEST) {
            Ok(limit) => limit,
            Err(status) => return Answer::Failure(status),
        };
        let late = || Answer::Text(504, respond::PLAIN, DEADLINE_BODY.to_owned());
        // Shorter than any clock here can tell.
        if limit < Duration::from_millis(1) {
            return late();
        }
        tokio::time::timeout(limit, self.answer(route)).await.unwrap_or_else(|_| late())
    }

    async fn answer(self, route: Route) -> Answer {
        let is_get = self.parts.method == Method::GET;
        match route {
            Route::Resource(target) => self.resource(target).await,
            Route::Version if is_get => discovery::version(),
            Route::Health if is_get => Answer::Text(200, respond::PLAIN, "ok".to_owned()),
            Route::CoreVersions if is_get => discovery::core_versions(&self),
            Route::Groups if is_get => discovery::groups(&self),
            Route::Group(group) if is_get => discovery::group(&self, &group),
            Route::Resources(group, version) if is_get => discovery::resources(&self, &group, &version),
            Route::OpenApi if is_get => openapi::index(&self),
            Route::OpenApiOf(root) if is_get => openapi::document(&self, &root),
            Route::Unknown if self.parts.uri.path().starts_with("/api/") => {
                Answer::Failure(refusal::no_such_resource())
            }
            Route::Unknown => Answer::not_found(),
            Route::Version
            | Route::Health
            | Route::CoreVersions
            | Route::Groups
            | Route::Group(_)
            | Route::OpenApi
            | Route::OpenApiOf(_)
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
        let method = match self.exchange.parts.method.clone() {
            // Custom resources are dispatched by verb, and its body is left out on the way.
            Method::HEAD if self.info.is_custom() => Method::GET,
            method => method,
        };
        let result = match (method, has_name) {
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

/// Waits while an instance is frozen.
pub(super) async fn thawed(sim: &Sim, id: InstanceId) {
    until(sim, |cluster| !cluster.rules(id).is_frozen).await;
}

/// Waits while an instance is frozen, or its watches of a collection say nothing.
pub(super) async fn unmuted(sim: &Sim, id: InstanceId, resource: ResourceId) {
    let speaks = |cluster: &mut Cluster| {
        let rules = cluster.rules(id);
        !rules.is_frozen && !rules.muted.contains(&resource)
    };
    until(sim, speaks).await;
}

async fn until(sim: &Sim, is_so: impl Fn(&mut Cluster) -> bool) {
    let mut changes = sim.changes();
    while !sim.ask(&is_so) {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

fn resource_of(cluster: &mut Cluster, route: &Route) -> Option<ResourceId> {
    match route {
        Route::Resource(target) => cluster.catalog().find_version(&target.gvr),
        Route::Version
        | Route::Health
        | Route::CoreVersions
        | Route::Groups
        | Route::Group(_)
        | Route::OpenApi
        | Route::OpenApiOf(_)
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
