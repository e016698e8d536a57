//! Reading a collection in pages. The pages of one list are one snapshot; a 410 between them starts the list again, and
//! the inconsistent rest that upstream offers then is never taken.

use std::sync::Arc;

use http_body_util::BodyExt;
use weir_core::message::{ListChunk, ListId};
use weir_core::mirror::MirrorSpec;
use weir_core::object::ObjectError;
use weir_core::object::list_reader::{ListEnvelope, ListError, ListReader};
use weir_core::{Object, ResourceVersion};
use weir_upstream::Connection;

use super::request::{self, RequestError};

/// Objects a page.
const PAGE: usize = 500;

/// Why a list came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    /// Upstream did not answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The body broke off.
    #[error("read a page of the list")]
    Body(#[source] hyper::Error),
    /// The body is no list.
    #[error("understand a page of the list")]
    Page(#[from] ListError),
    /// An item cannot be kept.
    #[error("keep an item of the list")]
    Object(#[from] ObjectError),
    /// Two pages of one list at two revisions.
    #[error("a page at {got} in a list at {expected}")]
    Mixed {
        /// The first page's revision.
        expected: ResourceVersion,
        /// The other's.
        got: ResourceVersion,
    },
}

/// One page as it was read.
#[derive(Debug)]
pub struct Page {
    /// For the stores.
    pub chunk: ListChunk,
    /// What stood around the items.
    pub envelope: ListEnvelope,
    /// `Warning` headers.
    pub warnings: Vec<Arc<str>>,
}

/// A list that is being read.
#[derive(Debug)]
pub struct Listing<'a> {
    connection: &'a Connection,
    spec: &'a MirrorSpec,
    list: ListId,
    seq: u32,
    at: Option<ResourceVersion>,
    next: Option<String>,
}

// === impl Listing ===

impl<'a> Listing<'a> {
    /// A list from the beginning. Its resourceVersion is left unset, so upstream answers with its newest state.
    pub fn new(connection: &'a Connection, spec: &'a MirrorSpec, list: ListId) -> Self {
        Self { connection, spec, list, seq: 0, at: None, next: None }
    }

    /// The next page; its chunk says whether it is the last one.
    pub async fn next_page(&mut self) -> Result<Page, ListingError> {
        let mut query = format!("limit={PAGE}");
        if let Some(token) = &self.next {
            query.push_str("&continue=");
            query.push_str(token);
        }
        let path = request::collection(&self.spec.resource, None, &query);
        let response = request::get(self.connection, &path).await?;
        let warnings = response.headers().get_all("warning").iter().filter_map(|value| value.to_str().ok());
        let warnings = warnings.map(Arc::from).collect();
        let (objects, envelope) = self.read(response.into_body()).await?;
        let got = envelope.resource_version;
        let expected = *self.at.get_or_insert(got);
        if got != expected {
            return Err(ListingError::Mixed { expected, got });
        }
        self.next.clone_from(&envelope.continue_token);
        let chunk =
            ListChunk { list: self.list, at: got, seq: self.seq, is_last: self.next.is_none(), objects };
        self.seq += 1;
        Ok(Page { chunk, envelope, warnings })
    }

    async fn read(
        &self,
        mut body: hyper::body::Incoming,
    ) -> Result<(Vec<Arc<Object>>, ListEnvelope), ListingError> {
        let mut reader = ListReader::default();
        let mut objects = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(ListingError::Body)?.into_data() {
                reader.push(&data);
                while let Some(item) = reader.next_item()? {
                    objects.push(Arc::new(Object::parse(item, &self.spec.schema)?));
                }
            }
        }
        Ok((objects, reader.finish()?))
    }
}
