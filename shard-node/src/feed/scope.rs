//! What a namespace, or a small collection, holds at upstream now: the keys, uids and resourceVersions of its objects,
//! read as one metadata-only list. A mirror that holds exactly these *is* at that revision for the scope, whether or not
//! its frontier has come there.
//!
//! Equal content does not mean an equal log: an object created and deleted in between leaves no trace here, and its two
//! events are still to come. So a comparison never moves a frontier.

use std::sync::Arc;

use http_body_util::BodyExt;
use weir_core::ResourceVersion;
use weir_core::mirror::MirrorSpec;
use weir_core::object::list_reader::ListReader;
use weir_core::object::scan::{self, FieldPaths};
use weir_core::{Object, ObjectKey};
use weir_upstream::Connection;

use super::request::{self, RequestError};

/// Objects that a scope may hold to be compared: about 1 MB of metadata.
pub const MAX_OBJECTS: usize = 1_000;

/// Metadata only, in JSON.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// What a scope holds at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeContent {
    revision: ResourceVersion,
    entries: Vec<Entry>,
    is_whole: bool,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: ObjectKey,
    uid: Arc<str>,
    rv: ResourceVersion,
}

/// Reads a scope; one that holds too much is not read to the end.
pub async fn read(
    connection: &Connection,
    spec: &MirrorSpec,
    namespace: Option<&str>,
) -> Result<ScopeContent, RequestError> {
    let path = request::collection(&spec.resource, namespace, &format!("limit={MAX_OBJECTS}"));
    let fault =
        |source: Box<dyn std::error::Error + Send + Sync>| RequestError::Body { path: path.clone(), source };
    let mut body = request::get_as(connection, &path, METADATA).await?.into_body();
    let (mut reader, mut entries) = (ListReader::default(), Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| fault(error.into()))?.into_data() else { continue };
        reader.push(&data);
        while let Some(item) = reader.next_item().map_err(|error| fault(error.into()))? {
            entries.push(Entry::read(item).map_err(fault)?);
        }
    }
    let envelope = reader.finish().map_err(|error| fault(error.into()))?;
    let is_whole = envelope.continue_token.is_none();
    Ok(ScopeContent { revision: envelope.resource_version, entries, is_whole })
}

// === impl ScopeContent ===

impl ScopeContent {
    /// All that a scope holds at a revision: key, uid and resourceVersion of each object, in key order.
    pub fn whole(
        revision: ResourceVersion,
        entries: impl Iterator<Item = (ObjectKey, Arc<str>, ResourceVersion)>,
    ) -> Self {
        let entries = entries.map(|(key, uid, rv)| Entry { key, uid, rv }).collect();
        Self { revision, entries, is_whole: true }
    }

    /// Its objects, in key order.
    pub fn entries(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<str>, ResourceVersion)> {
        self.entries.iter().map(|entry| (&entry.key, &entry.uid, entry.rv))
    }

    /// Upstream's revision when it answered.
    pub fn revision(&self) -> ResourceVersion {
        self.revision
    }

    /// Whether everything in the scope was read.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether these objects, in key order, are exactly the scope's.
    pub fn equals<'a>(&self, mut objects: impl Iterator<Item = &'a Object>) -> bool {
        let mut entries = self.entries.iter();
        let all_equal = objects.by_ref().all(|object| entries.next().is_some_and(|entry| entry.is(object)));
        self.is_whole && all_equal && entries.next().is_none()
    }
}

// === impl Entry ===

impl Entry {
    fn read(item: &[u8]) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let scanned = scan::scan(item, &FieldPaths::default())?;
        Ok(Self {
            key: ObjectKey::new(&scanned.namespace.value, &scanned.name.value),
            uid: scanned.uid.value.into(),
            rv: scanned.resource_version.value.parse()?,
        })
    }

    fn is(&self, object: &Object) -> bool {
        self.rv == object.rv() && self.key == *object.key() && *self.uid == *object.uid()
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

    #[test]
    fn only_the_same_keys_uids_and_versions_are_equal() {
        let held = [object("a", "1", 5), object("b", "2", 6)];
        let entries = held.iter().map(|object| Entry {
            key: object.key().clone(),
            uid: object.uid().into(),
            rv: object.rv(),
        });
        let content =
            ScopeContent { revision: ResourceVersion::new(9), entries: entries.collect(), is_whole: true };
        assert!(content.equals(held.iter()));
        assert!(!content.equals(held[..1].iter()), "one is missing");
        assert!(
            !content.equals([object("a", "1", 5), object("b", "2", 6), object("c", "3", 7)].iter()),
            "one too many"
        );
        assert!(!content.equals([object("a", "1", 5), object("b", "2", 7)].iter()), "another version");
        assert!(!content.equals([object("a", "1", 5), object("b", "3", 6)].iter()), "recreated");
        assert!(!ScopeContent { is_whole: false, ..content }.equals(held.iter()), "not read to the end");
    }
}
