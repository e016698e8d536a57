//! Whether upstream takes a connection for one of a front proxy. Nothing in TLS says so: upstream may take the certificate for
//! a user's, or for nobody's. So it is asked who somebody is whom nobody is, and has to say that name.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tracing::warn;

use super::RemoteUser;
use crate::{
    error::ConnectError,
    forward::full,
    instance::Instance,
    wire::{Lost, Wire},
};

const WHO_PATH: PathAndQuery = PathAndQuery::from_static("/apis/authentication.k8s.io/v1/selfsubjectreviews");
const QUESTION: &[u8] = br#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
/// Bounds the question; it is part of opening a connection.
const PROOF_LIMIT: Duration = Duration::from_secs(5);
const ANSWER_BYTES: usize = 64 << 10;

/// Proves that a new connection is a front proxy's.
pub(crate) async fn prove(instance: &Instance, wire: &mut Wire) -> Result<(), ConnectError> {
    let name = || instance.name().to_owned();
    let asked = tokio::time::timeout(PROOF_LIMIT, ask(instance, wire)).await;
    let is_proved = asked.map_err(|_| ConnectError::Timeout { instance: name() })??;
    if is_proved {
        return Ok(());
    }
    warn!(instance = instance.name(), "upstream does not take weir's certificate for that of a front proxy");
    Err(ConnectError::NotFrontProxy { instance: name() })
}

async fn ask(instance: &Instance, wire: &mut Wire) -> Result<bool, ConnectError> {
    let nobody = format!("weir:nobody:{:016x}", rand::random::<u64>());
    let not_proved = || ConnectError::NotFrontProxy { instance: instance.name().to_owned() };
    let failed = |source| ConnectError::Http { instance: instance.name().to_owned(), source };
    let front = instance.access.front().ok_or_else(not_proved)?;
    let mut request = Request::new(full(Bytes::from_static(QUESTION)));
    *request.method_mut() = Method::POST;
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(header::CONTENT_TYPE, json.clone());
    request.headers_mut().insert(header::ACCEPT, json);
    let user = RemoteUser::new(&nobody).map_err(|_| not_proved())?;
    user.apply(front.headers(), request.headers_mut());
    wire.address(instance, &WHO_PATH, &mut request).map_err(|_| not_proved())?;
    let answer = wire.send(request).await.map_err(|lost| match lost {
        Lost::Unsent(source) | Lost::Refused(source) | Lost::Sent(source) => failed(source),
        Lost::Stuck | Lost::Silent => ConnectError::Timeout { instance: instance.name().to_owned() },
    })?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await.map_err(|_| not_proved())?;
    wire.ready().await.map_err(failed)?;
    let review: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    Ok(status == StatusCode::CREATED && review["status"]["userInfo"]["username"] == nobody)
}
