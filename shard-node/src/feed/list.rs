//! Reading a collection in pages. The pages of one list are one snapshot; a 410 between them starts the list again, and
//! the inconsistent rest that upstream offers then is never taken.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use weir_core::message::{ListChunk, ListId};
use weir_core::mirror::MirrorSpec;
use weir_core::object::ObjectError;
use weir_core::object::list_reader::{ListEnvelope, ListError, ListReader};
use weir_core::{Object, ResourceVersion};
use weir_upstream::Connection;

use super::facts;
use super::failure::{ReadError, within};
use super::handle::FeedHandle;
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

/// A whole list on its way into the ring: the pages are read as its readers make room.
#[derive(Debug)]
pub(super) struct WholeList {
    pub(super) connection: Arc<Connection>,
    pub(super) spec: Arc<MirrorSpec>,
    pub(super) feed: Arc<FeedHandle>,
    /// How long upstream may take for a page.
    pub(super) answer: Duration,
}

/// What a whole list was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// Its revision.
    pub(super) at: ResourceVersion,
    /// How many objects it has.
    pub(super) objects: usize,
}

// === impl WholeList ===

impl WholeList {
    /// Reads the list; `seen` is shown every object.
    pub(super) async fn read(self, list: ListId, mut seen: impl FnMut(&Object)) -> Result<Listed, ReadError> {
        let Self { connection, spec, feed, answer } = self;
        let mut listing = Listing::new(&connection, &spec, list);
        let mut objects = 0;
        loop {
            let page = within(answer, listing.next_page()).await??;
            let Page { chunk, envelope, warnings } = page;
            if chunk.seq == 0 {
                feed.counters().lists.inc();
            }
            objects += chunk.objects.len();
            chunk.objects.iter().for_each(|object| seen(object));
            let (at, is_last) = (chunk.at, chunk.is_last);
            if is_last {
                let facts = facts::with_list(&connection, &spec, (&envelope, warnings));
                feed.set_facts(within(answer, facts).await??);
            }
            feed.push_list(chunk).await;
            if is_last {
                return Ok(Listed { at, objects });
            }
        }
    }
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
        let warnings = facts::warnings(response.headers());
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
