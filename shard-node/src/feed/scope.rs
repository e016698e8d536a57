//! What one name, a namespace, or a small collection, holds at upstream now: the keys, uids and resourceVersions of its objects,
//! read as one metadata-only list, or digests of their bytes too, read as one list of whole objects. A mirror that holds
//! exactly these *is* at that revision for the scope, whether or not its frontier has come there.
//!
//! Equal content does not mean an equal log: an object created and deleted in between leaves no trace here, and its two
//! events are still to come. So a comparison never moves a frontier.

mod metadata;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, header::CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tracing::warn;
use weir_core::ResourceVersion;
use weir_core::interest::Scope;
use weir_core::mirror::MirrorSpec;
use weir_core::object::list_reader::ListReader;
use weir_core::object::scan::{self, FieldPaths};
use weir_core::query::escape;
use weir_core::{Object, ObjectKey, fnv1a64};
use weir_upstream::Connection;

use super::request::{self, RequestError};

/// Objects that a scope may hold to be compared: about 1 MB of metadata.
pub const MAX_OBJECTS: usize = 1_000;

/// The same where whole objects are read to be digested: they may be a thousand times as large.
pub const MAX_DIGESTED: usize = 200;

/// Metadata only, in protobuf.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, \
                        application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The same in JSON.
const METADATA_IN_JSON: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// How long a body may take. What is asked about is small, so one that takes longer has stalled, and with it perhaps the connection.
const BODY_LIMIT: Duration = Duration::from_secs(30);

/// The longest list in protobuf: it is read in one piece. One in JSON is read item by item, however long it is.
const MAX_PROTOBUF_BYTES: usize = 16 << 20;

/// What is read of each object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detail {
    /// Key, uid and resourceVersion.
    Metadata,
    /// A digest of its bytes besides: a new default of a custom resource changes them at the same resourceVersion.
    Bytes,
}

/// What a scope holds at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeContent {
    revision: ResourceVersion,
    entries: Vec<Entry>,
    is_whole: bool,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.resourceVersion`.
    pub rv: ResourceVersion,
    /// Of its bytes, where they were read.
    pub digest: Option<u64>,
}

/// Why a body could not be read.
type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Reads a scope; one that holds too much is not read to the end.
pub async fn read(
    connection: &Connection,
    spec: &MirrorSpec,
    (scope, detail): (&Scope, Detail),
) -> Result<ScopeContent, RequestError> {
    let mut query = format!("limit={}", detail.max_objects());
    if let Some(name) = &scope.name {
        query.push_str("&fieldSelector=metadata.name%3D");
        query.push_str(&escape(name));
    }
    let path = request::collection(&spec.resource, scope.namespace.as_deref(), &query);
    let fault = |source| RequestError::Body { path: path.clone(), source };
    let response = request::get_as(connection, &path, detail.accept()).await?;
    if response.headers().get(CONTENT_TYPE).is_some_and(is_protobuf) {
        if let Some(content) = within(read_protobuf(response.into_body())).await.map_err(fault)? {
            return Ok(content);
        }
        let response = request::get_as(connection, &path, METADATA_IN_JSON).await?;
        return within(read_json(response.into_body(), detail)).await.map_err(fault);
    }
    within(read_json(response.into_body(), detail)).await.map_err(fault)
}

/// Nobody is asked for the scope again before.
async fn within<T>(read: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    tokio::time::timeout(BODY_LIMIT, read).await.unwrap_or_else(|_| Err("it took too long".into()))
}

fn is_protobuf(content_type: &HeaderValue) -> bool {
    content_type.as_bytes().starts_with(PROTOBUF.as_bytes())
}

/// `None` where it is too long to be read like this, or is not as it should be: JSON is what everybody writes.
async fn read_protobuf(body: Incoming) -> Result<Option<ScopeContent>, Fault> {
    match Limited::new(body, MAX_PROTOBUF_BYTES).collect().await {
        Ok(body) => match metadata::read(&body.to_bytes()) {
            Ok(content) => Ok(Some(content)),
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "cannot read a list of upstream's in protobuf"
                );
                Ok(None)
            }
        },
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn read_json(mut body: Incoming, detail: Detail) -> Result<ScopeContent, Fault> {
    let (mut reader, mut entries) = (ListReader::default(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        reader.push(&data);
        while let Some(item) = reader.next_item()? {
            entries.push(Entry::read(item, detail)?);
        }
    }
    let envelope = reader.finish()?;
    let is_whole = envelope.continue_token.is_none();
    Ok(ScopeContent { revision: envelope.resource_version, entries, is_whole })
}

// === impl Detail ===

impl Detail {
    /// How many objects a scope may hold.
    pub fn max_objects(self) -> usize {
        match self {
            Self::Metadata => MAX_OBJECTS,
            Self::Bytes => MAX_DIGESTED,
        }
    }

    fn accept(self) -> &'static str {
        match self {
            Self::Metadata => METADATA,
            Self::Bytes => "application/json",
        }
    }
}

// === impl ScopeContent ===

impl ScopeContent {
    /// All that a scope holds at a revision, in key order.
    pub fn whole(revision: ResourceVersion, entries: Vec<Entry>) -> Self {
        Self { revision, entries, is_whole: true }
    }

    /// Its objects, in key order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Upstream's revision when it answered.
    pub fn revision(&self) -> ResourceVersion {
        self.revision
    }

    /// Whether everything in the scope was read.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How many objects are in one of the two only, or differ; `None` where the scope was not read to its end.
    pub fn differing<'a>(&self, objects: impl Iterator<Item = &'a Object>) -> Option<usize> {
        if !self.is_whole {
            return None;
        }
        let mut unseen: BTreeMap<&ObjectKey, &Entry> =
            self.entries.iter().map(|entry| (&entry.key, entry)).collect();
        let is_same = |entry: Option<&Entry>, object: &Object| entry.is_some_and(|entry| entry.is(object));
        let differing = objects.filter(|object| !is_same(unseen.remove(object.key()), object)).count();
        Some(differing + unseen.len())
    }
}

// === impl Entry ===

impl Entry {
    fn read(item: &[u8], detail: Detail) -> Result<Self, Fault> {
        let scanned = scan::scan(item, &FieldPaths::default())?;
        Ok(Self {
            key: ObjectKey::new(&scanned.namespace.value, &scanned.name.value),
            uid: scanned.uid.value.into(),
            rv: scanned.resource_version.value.parse()?,
            digest: (detail == Detail::Bytes).then(|| fnv1a64(item)),
        })
    }

    fn is(&self, object: &Object) -> bool {
        self.rv == object.rv()
            && *self.uid == *object.uid()
            && self.digest.is_none_or(|digest| digest == fnv1a64(object.bytes()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weir_core::GroupVersionResource;
    use weir_core::object::ObjectSchema;
    use weir_core::selector::FieldTable;

    use super::*;

    fn object(name: &str, uid: &str, rv: u64) -> Object {
        let table = FieldTable::of(&GroupVersionResource::new("", "v1", "configmaps"), None).unwrap();
        let raw = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{uid}","resourceVersion":"{rv}"}}}}"#
        );
        Object::parse(&Bytes::from(raw), &ObjectSchema::new(table).unwrap()).unwrap()
    }

    fn entry(object: &Object, digest: Option<u64>) -> Entry {
        Entry { key: object.key().clone(), uid: object.uid().into(), rv: object.rv(), digest }
    }

    #[test]
    fn only_the_same_keys_uids_and_versions_are_equal() {
        let held = [object("a", "1", 5), object("b", "2", 6)];
        let entries = held.iter().map(|object| entry(object, None)).collect();
        let content = ScopeContent::whole(ResourceVersion::new(9), entries);
        let differing = |objects: &[Object]| content.differing(objects.iter());
        assert_eq!(differing(&held), Some(0));
        assert_eq!(differing(&held[..1]), Some(1), "one is missing");
        assert_eq!(differing(&[]), Some(2), "both are");
        let third = object("c", "3", 7);
        assert_eq!(differing(&[held[0].clone(), held[1].clone(), third.clone()]), Some(1), "one too many");
        assert_eq!(differing(&[held[0].clone(), object("b", "2", 7)]), Some(1), "another version");
        assert_eq!(differing(&[held[0].clone(), object("b", "3", 6)]), Some(1), "recreated");
        assert_eq!(differing(&[held[0].clone(), third]), Some(2), "one for another");
        let unread = ScopeContent { is_whole: false, ..content.clone() };
        assert_eq!(unread.differing(held.iter()), None, "not read to the end");
    }

    #[test]
    fn other_bytes_at_the_same_version_differ_where_they_were_read() {
        let (held, other) = (object("a", "1", 5), fnv1a64(b"other"));
        for (digest, differing) in [(None, 0), (Some(fnv1a64(held.bytes())), 0), (Some(other), 1)] {
            let content = ScopeContent::whole(ResourceVersion::new(9), vec![entry(&held, digest)]);
            assert_eq!(content.differing([&held].into_iter()), Some(differing), "{digest:?}");
        }
    }
}
