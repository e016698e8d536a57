//! A client's request, read once: what it asks for, how it wants it, who may answer. Everything later works on this value.

use http::header;
use http::request::Parts;
use weir_core::accept::{self, Asked, Encoding, Family, Negotiated, Transform, Want};
use weir_core::options::PathForm;
use weir_core::query::Query;
use weir_core::request_info::{RequestInfo, RequestInfoError, Shape, Verb};
use weir_core::{GroupVersionResource, Status};

use crate::passthrough::{self, Passed};

/// A request that a mirror may answer.
#[derive(Debug)]
pub struct ReadRequest {
    /// What it asks, as access rules see it.
    pub info: RequestInfo,
    /// Its options.
    pub query: Query,
    /// Which collection.
    pub resource: GroupVersionResource,
    /// What of it.
    pub target: Target,
}

/// What of a collection is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A list or watch.
    Collection {
        /// One namespace, or all.
        namespace: Option<String>,
        /// One object, from the path of an old watch.
        name: Option<String>,
        /// How the path asks.
        path: PathForm,
    },
    /// One object.
    Object {
        /// Its namespace, if it has one.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
}

// === impl ReadRequest ===

impl ReadRequest {
    /// Reads a request; why it is passed through, if no mirror could answer one of this form.
    pub fn read(parts: &Parts) -> Result<Self, Passed> {
        if passthrough::asks_for_upgrade(parts) {
            return Err(Passed::Upgrade);
        }
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let info = RequestInfo::parse(parts.method.as_str(), parts.uri.path(), &query);
        let info = info.map_err(|error: RequestInfoError| {
            tracing::debug!(%error, "request cannot be read");
            Passed::NotARead
        })?;
        let target = match info.shape.clone() {
            Shape::Collection { namespace } => {
                Target::Collection { namespace, name: None, path: PathForm::Plain }
            }
            Shape::LegacyWatch { namespace, name } => {
                Target::Collection { namespace, name, path: PathForm::Watch }
            }
            Shape::Object { namespace, name } => Target::Object { namespace, name },
            Shape::Other(_) => return Err(Passed::NotARead),
        };
        Ok(Self { resource: info.group_version_resource(), info, query, target })
    }

    /// Whether the query asks for a part of the hash space, well or badly.
    pub fn names_shards(&self) -> bool {
        self.query.has("shardSelector") || self.query.drops("shardSelector")
    }

    /// Whether it is a watch.
    pub fn is_watch(&self) -> bool {
        self.info.verb == Verb::Watch
    }

    /// How the client wants the answer: `Some` where a mirror can give it, with whether it is to be indented.
    pub fn json(&self, parts: &Parts, family: Family) -> Option<bool> {
        let want = match &self.target {
            Target::Object { .. } => Want::Get,
            Target::Collection { .. } if self.is_watch() => Want::Watch,
            Target::Collection { .. } => Want::List,
        };
        let asked = asked(parts, &self.query)?;
        match accept::negotiate(&asked, want, family).ok()? {
            Negotiated { encoding: Encoding::Json, transform: Transform::None } => Some(false),
            Negotiated { encoding: Encoding::PrettyJson, transform: Transform::None } => Some(true),
            _ => None,
        }
    }
}

/// What of a request says which form its answer takes; `None` where a header is no text, which upstream may yet read.
pub fn asked<'a>(parts: &'a Parts, query: &'a Query) -> Option<Asked<'a>> {
    let text = |name| parts.headers.get(name).map(|value| value.to_str()).transpose().ok();
    Some(Asked {
        accept: text(header::ACCEPT)?,
        user_agent: text(header::USER_AGENT)?,
        raw_query: parts.uri.query().unwrap_or_default(),
        query,
    })
}

/// The refusal of a shard selector on a form that weir cannot serve.
pub fn shards_unserved(reason: &str) -> Status {
    Status::new(406, "NotAcceptable", format!("shardSelector cannot be honoured here: {reason}"))
}
