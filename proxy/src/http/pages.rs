//! A list that is read at upstream for a watch whose mirror cannot prove that it is fresh: page by page, all of them one
//! snapshot, with the client's own credentials. The watch goes on in the mirror behind the list's revision, so that nothing of
//! it stays at upstream.

use std::collections::VecDeque;
use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;
use http_body_util::BodyExt;
use weir_core::interest::Interest;
use weir_core::mirror::MirrorSpec;
use weir_core::object::list_reader::{ListEnvelope, ListReader};
use weir_core::query::escape;
use weir_core::{Object, ResourceVersion, Status};
use weir_shard_node::feed::request::collection;
use weir_upstream::BoxError;

use super::gate::Place;
use crate::passthrough::{PassedBody, Passthrough};

/// Objects of one page.
const PAGE: usize = 500;

/// What is read, and for whom.
#[derive(Clone, Debug)]
pub struct PageSource {
    /// The way to upstream.
    pub passthrough: Passthrough,
    /// The request of the client.
    pub client: Parts,
    /// The kind of objects.
    pub spec: Arc<MirrorSpec>,
    /// Which of them.
    pub interest: Arc<Interest>,
    /// The selectors as the client wrote them, beside what the interest takes from the path.
    pub selectors: Vec<(&'static str, String)>,
}

/// A list that is being read, and its place in the gate.
pub struct Pages {
    source: PageSource,
    at: ResourceVersion,
    ready: VecDeque<Arc<Object>>,
    next: Option<String>,
    _place: Place,
}

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("upstream refused a page with {0}")]
    Refused(StatusCode),
    #[error("upstream did not answer: {}", .0.message)]
    Unanswered(Box<Status>),
    #[error("a page at {got} in a list at {expected}")]
    Mixed { expected: ResourceVersion, got: ResourceVersion },
}

// === impl PageSource ===

impl PageSource {
    /// Reads the first page, of at most so many objects.
    pub async fn open(self, limit: Option<usize>, place: Place) -> Result<Pages, BoxError> {
        let (objects, envelope) = self.page(limit.unwrap_or(PAGE), None).await?;
        let next = envelope.continue_token.filter(|_| limit.is_none());
        Ok(Pages { source: self, at: envelope.resource_version, ready: objects, next, _place: place })
    }

    async fn page(
        &self,
        limit: usize,
        token: Option<&str>,
    ) -> Result<(VecDeque<Arc<Object>>, ListEnvelope), BoxError> {
        let mut query = format!("limit={limit}");
        let selectors = self.selectors.iter().map(|(name, value)| (*name, value.as_str()));
        for (name, value) in selectors.chain(token.map(|token| ("continue", token))) {
            query.push_str(&format!("&{name}={}", escape(value)));
        }
        let path = collection(&self.spec.resource, self.interest.scope.namespace.as_deref(), &query);
        let answer = self.passthrough.read_for(&self.client, &path).await;
        let answer = answer.map_err(|status| PageError::Unanswered(Box::new(status)))?;
        if answer.status() != StatusCode::OK {
            return Err(PageError::Refused(answer.status()).into());
        }
        self.read(answer.into_body()).await
    }

    async fn read(&self, mut body: PassedBody) -> Result<(VecDeque<Arc<Object>>, ListEnvelope), BoxError> {
        let (mut reader, mut objects) = (ListReader::default(), VecDeque::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            reader.push(&data);
            while let Some(item) = reader.next_item()? {
                let object = Object::parse(item, &self.spec.schema)?;
                // Upstream knows nothing of hash ranges.
                if self.interest.matches(&object) {
                    objects.push_back(Arc::new(object));
                }
            }
        }
        Ok((objects, reader.finish()?))
    }
}

// === impl Pages ===

impl Pages {
    /// The revision that the list is the state of.
    pub fn at(&self) -> ResourceVersion {
        self.at
    }

    /// The next objects in key order, at most `max`; empty at the end.
    pub async fn next(&mut self, max: usize) -> Result<Vec<Arc<Object>>, BoxError> {
        while self.ready.is_empty() {
            let Some(token) = self.next.take() else { return Ok(Vec::new()) };
            let (objects, envelope) = self.source.page(PAGE, Some(&token)).await?;
            let (expected, got) = (self.at, envelope.resource_version);
            if got != expected {
                return Err(PageError::Mixed { expected, got }.into());
            }
            (self.ready, self.next) = (objects, envelope.continue_token);
        }
        Ok(self.ready.drain(..max.min(self.ready.len())).collect())
    }
}
