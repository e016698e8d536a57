//! What answers of a mirror repeat of upstream's: learned with a list, or, by a feed that begins with a watch, by asking for
//! an object that should not exist.

use std::sync::Arc;

use http::HeaderMap;
use http_body_util::BodyExt;
use weir_core::mirror::{BookmarkTemplate, MirrorFacts, MirrorSpec};
use weir_core::object::list_reader::{ListEnvelope, ListReader};
use weir_upstream::Connection;

use super::handle::FeedHandle;
use super::list::ListingError;
use super::request::{self, RequestError};
use super::verify;

/// The `Warning` headers of an answer.
pub(super) fn warnings(headers: &HeaderMap) -> Vec<Arc<str>> {
    let warnings = headers.get_all("warning").iter().filter_map(|value| value.to_str().ok());
    warnings.map(Arc::from).collect()
}

/// The facts that a list shows, and upstream's own bookmark of this kind.
pub(super) async fn with_list(
    connection: &Connection,
    spec: &MirrorSpec,
    (envelope, warnings): (&ListEnvelope, Vec<Arc<str>>),
) -> Result<MirrorFacts, RequestError> {
    let template = super::watch::end_bookmark(connection, spec).await?;
    // Composed where upstream doesn't know initial events.
    let bookmark = template.unwrap_or_else(|| BookmarkTemplate::composed(spec));
    Ok(MirrorFacts { list_kind: envelope.kind.as_str().into(), warnings, bookmark })
}

/// A feed that begins with a watch has seen no list.
pub(super) async fn learn(
    feed: &FeedHandle,
    connection: &Connection,
    spec: &MirrorSpec,
) -> Result<(), ListingError> {
    if feed.facts().borrow().is_none() {
        feed.set_facts(without_list(connection, spec).await?);
    }
    Ok(())
}

/// The facts without a list of the collection.
async fn without_list(connection: &Connection, spec: &MirrorSpec) -> Result<MirrorFacts, ListingError> {
    let response = request::get(connection, &verify::nobody(spec)).await?;
    let warnings = warnings(response.headers());
    let body = response.into_body().collect().await.map_err(ListingError::Body)?;
    let mut reader = ListReader::default();
    reader.push(&body.to_bytes());
    while reader.next_item()?.is_some() {}
    let envelope = reader.finish()?;
    Ok(with_list(connection, spec, (&envelope, warnings)).await?)
}
