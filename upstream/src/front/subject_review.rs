//! Reviews that weir asks for in its own name, about users whom it has verified itself.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Limited};

use super::Whose;
use crate::{
    connection::Role,
    error::{ConnectError, ForwardError},
    forward::{Affinity, REVIEW_BYTES, REVIEW_LIMIT, REVIEW_PATIENCE, RequestBody, ReviewAnswer, full},
    passing::Repeat,
    traffic::Traffic,
    upstream::Upstream,
};

const REVIEW_PATH: PathAndQuery =
    PathAndQuery::from_static("/apis/authorization.k8s.io/v1/subjectaccessreviews");

// === impl Upstream ===

impl Upstream {
    /// Asks upstream in weir's name what `body`, a SubjectAccessReview in JSON, asks. A 401 or 403 is about weir, not about the
    /// user in it.
    pub async fn review_subject(
        &self,
        body: Bytes,
        affinity: Affinity,
    ) -> Result<ReviewAnswer, ForwardError> {
        let asked = tokio::time::timeout(REVIEW_LIMIT, self.ask_about(body, affinity));
        asked.await.map_err(|_| ForwardError::Timeout)?
    }

    async fn ask_about(&self, body: Bytes, affinity: Affinity) -> Result<ReviewAnswer, ForwardError> {
        let answer = self.ask_once(body.clone(), affinity).await?;
        let (generation, answer) = answer;
        if answer.status != StatusCode::UNAUTHORIZED || !self.access().renew_refused(generation).await {
            return Ok(answer);
        }
        Ok(self.ask_once(body, affinity).await?.1)
    }

    async fn ask_once(&self, body: Bytes, affinity: Affinity) -> Result<(u64, ReviewAnswer), ForwardError> {
        let shown = self.access().headers().await;
        let shown =
            shown.map_err(|source| ForwardError::Unreachable(ConnectError::Credentials { source }))?;
        // A review changes nothing, so it may be asked twice.
        let how = (Repeat::Once { patience: Some(REVIEW_PATIENCE) }, Traffic::Reviews);
        let request = question(body, shown.headers);
        let answer = self.exchange_over(Whose::Own, (request, how), affinity).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), REVIEW_BYTES);
        let body = body.collect().await.map_err(ForwardError::Answer)?.to_bytes();
        Ok((shown.generation, ReviewAnswer { status, body }))
    }
}

fn question(body: Bytes, shown: HeaderMap) -> Request<RequestBody> {
    let json = HeaderValue::from_static("application/json");
    let mut request = Request::new(full(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = REVIEW_PATH.into();
    let headers = request.headers_mut();
    headers.extend(shown);
    headers.insert(header::CONTENT_TYPE, json.clone());
    headers.insert(header::ACCEPT, json);
    headers.insert(header::USER_AGENT, Role::Review.user_agent());
    request
}
