//! A metadata-only list in protobuf. Upstream writes it for a third of what it costs in JSON, and of each object only four texts are
//! read here: the rest, managed fields above all, is passed over.

use bytes::Bytes;
use prost::{DecodeError, Message};
use weir_core::ObjectKey;
use weir_core::resource_version::NotAResourceVersion;

use super::{Entry, ScopeContent};

/// What every body begins with; a `runtime.Unknown` follows.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body is no list.
#[derive(Debug, thiserror::Error)]
pub(super) enum MetadataError {
    #[error("a body that does not begin as Kubernetes' protobuf does")]
    Magic,
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("a list or an object without a resourceVersion")]
    ResourceVersion(#[from] NotAResourceVersion),
}

/// `runtime.Unknown`.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

/// `meta.v1.PartialObjectMetadataList`.
#[derive(Clone, PartialEq, Message)]
struct List {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<Item>,
}

/// `meta.v1.ListMeta`.
#[derive(Clone, PartialEq, Message)]
struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    continue_token: String,
}

/// `meta.v1.PartialObjectMetadata`.
#[derive(Clone, PartialEq, Message)]
struct Item {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
}

/// `meta.v1.ObjectMeta`.
#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
}

/// What a body says.
pub(super) fn read(body: &Bytes) -> Result<ScopeContent, MetadataError> {
    if !body.starts_with(MAGIC) {
        return Err(MetadataError::Magic);
    }
    let Unknown { raw } = Unknown::decode(body.slice(MAGIC.len()..))?;
    let List { metadata, items } = List::decode(raw)?;
    let ListMeta { resource_version, continue_token } = metadata.unwrap_or_default();
    Ok(ScopeContent {
        revision: resource_version.parse()?,
        entries: items.into_iter().map(Item::entry).collect::<Result<_, _>>()?,
        is_whole: continue_token.is_empty(),
    })
}

// === impl Item ===

impl Item {
    fn entry(self) -> Result<Entry, MetadataError> {
        let ObjectMeta { name, namespace, uid, resource_version } = self.metadata.unwrap_or_default();
        let (key, rv) = (ObjectKey::new(&namespace, &name), resource_version.parse()?);
        Ok(Entry { key, uid: uid.into(), rv, digest: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body as upstream writes it, with fields that are not read here.
    fn body(revision: &str, continue_token: &str, items: Vec<ObjectMeta>) -> Bytes {
        let metadata = Some(ListMeta {
            resource_version: revision.to_owned(),
            continue_token: continue_token.to_owned(),
        });
        let items = items.into_iter().map(|metadata| Item { metadata: Some(metadata) }).collect();
        let raw = List { metadata, items }.encode_to_vec().into();
        let type_meta = *b"\x0a\x08\x0a\x02v1\x12\x02xx";
        let unknown = Unknown { raw }.encode_to_vec();
        [MAGIC, &type_meta, &unknown, b"\x1a\0\x22\0"].concat().into()
    }

    fn meta(name: &str, resource_version: &str) -> ObjectMeta {
        ObjectMeta {
            name: name.to_owned(),
            namespace: "n".to_owned(),
            uid: "u".to_owned(),
            resource_version: resource_version.to_owned(),
        }
    }

    #[test]
    fn keys_uids_and_versions_are_read_and_whether_there_is_more() {
        let content = read(&body("9", "", vec![meta("a", "5"), meta("b", "6")])).unwrap();
        let of = |entry: &Entry| (entry.key.to_string(), entry.uid.to_string(), entry.rv.get());
        let entries: Vec<_> = content.entries().iter().map(of).collect();
        assert_eq!(entries, [("n/a".into(), "u".into(), 5), ("n/b".into(), "u".into(), 6)]);
        assert_eq!((content.revision().get(), content.is_whole()), (9, true));
        assert!(!read(&body("9", "more", vec![])).unwrap().is_whole());
    }

    /// The bytes that kube-apiserver sends.
    #[test]
    fn an_empty_list_is_its_metadata() {
        let content =
            read(&Bytes::from_static(b"k8s\0\x12\x0b\x0a\x09\x0a\0\x12\x03640\x1a\0\x22\0")).unwrap();
        assert_eq!((content.revision().get(), content.entries().len(), content.is_whole()), (640, 0, true));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let whole = body("9", "", vec![meta("a", "5")]);
        assert!(read(&whole.slice(..whole.len() - 5)).is_err(), "cut");
        assert!(matches!(read(&Bytes::from_static(b"{}")), Err(MetadataError::Magic)));
        assert!(matches!(read(&body("", "", vec![])), Err(MetadataError::ResourceVersion(_))));
        assert!(matches!(read(&body("9", "", vec![meta("a", "x")])), Err(MetadataError::ResourceVersion(_))));
    }
}
