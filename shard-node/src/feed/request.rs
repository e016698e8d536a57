//! Requests of a feed on its connection: paths, and answers that are not 200 turned into errors.

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use weir_core::GroupVersionResource;
use weir_core::query::escape;
use weir_upstream::{Connection, SendError};

/// Small answers (discovery, single objects, errors) are read up to here.
const MAX_SMALL_BODY: usize = 8 << 20;

/// Of one object its metadata only, in JSON.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Why upstream did not answer a feed as asked.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// No answer came.
    #[error("ask upstream for {path}")]
    Send {
        /// What was asked.
        path: String,
        /// Why.
        #[source]
        source: SendError,
    },
    /// An answer came, and it was a refusal.
    #[error("upstream refused {path}: {code} {reason} {message}")]
    Refused {
        /// What was asked.
        path: String,
        /// The HTTP code.
        code: u16,
        /// The Status' reason.
        reason: String,
        /// The Status' message.
        message: String,
    },
    /// The body broke off or was too long.
    #[error("read the answer to {path}")]
    Body {
        /// What was asked.
        path: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The body is not what was asked for.
    #[error("understand the answer to {path}")]
    Json {
        /// What was asked.
        path: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Refusal {
    reason: String,
    message: String,
}

/// Sends a GET and returns the answer if it is 200.
pub async fn get(connection: &Connection, path: &str) -> Result<Response<Incoming>, RequestError> {
    get_as(connection, path, "application/json").await
}

/// Sends a GET that takes this form and returns the answer if it is 200.
pub async fn get_as(
    connection: &Connection,
    path: &str,
    accept: &str,
) -> Result<Response<Incoming>, RequestError> {
    answered(connection, path, Request::get(path).header(header::ACCEPT, accept).body(Bytes::new())).await
}

/// Changes an object by a JSON merge patch, and reads its metadata from the answer.
pub async fn patch_metadata<T: for<'a> Deserialize<'a>>(
    connection: &Connection,
    path: &str,
    patch: String,
) -> Result<T, RequestError> {
    let request = Request::patch(path)
        .header(header::CONTENT_TYPE, "application/merge-patch+json")
        .header(header::ACCEPT, METADATA)
        .body(patch.into());
    let response = answered(connection, path, request).await?;
    let body = small_body(path, response).await?;
    serde_json::from_slice(&body).map_err(|source| RequestError::Json { path: path.to_owned(), source })
}

/// Sends a GET and reads the answer as JSON.
pub async fn get_json<T: for<'a> Deserialize<'a>>(
    connection: &Connection,
    path: &str,
) -> Result<T, RequestError> {
    let response = get(connection, path).await?;
    let body = small_body(path, response).await?;
    serde_json::from_slice(&body).map_err(|source| RequestError::Json { path: path.to_owned(), source })
}

/// The path of a collection, or of it in one namespace, with a query. Namespaces come from clients' selectors too, so whatever
/// stands in one is one segment here.
pub fn collection(resource: &GroupVersionResource, namespace: Option<&str>, query: &str) -> String {
    match namespace {
        None => format!("{}?{query}", resource.collection_path()),
        Some(namespace) => format!("{}?{query}", within(resource, namespace)),
    }
}

/// The path of one object.
pub fn object(resource: &GroupVersionResource, namespace: &str, name: &str) -> String {
    format!("{}/{}", within(resource, namespace), escape(name))
}

fn within(resource: &GroupVersionResource, namespace: &str) -> String {
    let all = resource.collection_path();
    let prefix = all.strip_suffix(&*resource.resource).unwrap_or(&all);
    format!("{prefix}namespaces/{}/{}", escape(namespace), resource.resource)
}

async fn answered(
    connection: &Connection,
    path: &str,
    request: http::Result<Request<Bytes>>,
) -> Result<Response<Incoming>, RequestError> {
    let request =
        request.map_err(|source| RequestError::Body { path: path.to_owned(), source: source.into() })?;
    let sent = connection.send(request).await;
    let response = sent.map_err(|source| RequestError::Send { path: path.to_owned(), source })?;
    if response.status() == StatusCode::OK {
        return Ok(response);
    }
    let code = response.status().as_u16();
    let body = small_body(path, response).await.unwrap_or_default();
    let Refusal { reason, message } = serde_json::from_slice(&body).unwrap_or_default();
    Err(RequestError::Refused { path: path.to_owned(), code, reason, message })
}

async fn small_body(path: &str, response: Response<Incoming>) -> Result<Bytes, RequestError> {
    let body = Limited::new(response.into_body(), MAX_SMALL_BODY).collect().await;
    body.map(http_body_util::Collected::to_bytes)
        .map_err(|source| RequestError::Body { path: path.to_owned(), source })
}

// === impl RequestError ===

impl RequestError {
    /// The HTTP code of a refusal.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Send { .. } | Self::Body { .. } | Self::Json { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_one_segment_whatever_stands_in_it() {
        let maps = GroupVersionResource::new("", "v1", "configmaps");
        let gauges = GroupVersionResource::new("metering.test", "v1", "gauges");
        for (namespace, path) in [
            ("team-0", "/api/v1/namespaces/team-0/configmaps?limit=1"),
            ("a/secrets?watch=1&x=", "/api/v1/namespaces/a%2Fsecrets%3Fwatch%3D1%26x%3D/configmaps?limit=1"),
            ("a#b c%2f", "/api/v1/namespaces/a%23b%20c%252f/configmaps?limit=1"),
        ] {
            assert_eq!(collection(&maps, Some(namespace), "limit=1"), path);
        }
        assert_eq!(collection(&gauges, None, "x=1"), "/apis/metering.test/v1/gauges?x=1");
        assert_eq!(object(&gauges, "n", "a/b"), "/apis/metering.test/v1/namespaces/n/gauges/a%2Fb");
    }
}
