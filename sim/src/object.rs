//! An object as the simulated apiserver keeps it: the bytes that a GET answers, and what selection needs of them.
//!
//! The bytes are those of a single object. A list item of a built-in kind is the same text without its kind and
//! apiVersion, which stand first for exactly that reason; see [`Object::item`].

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use weir_core::ResourceVersion;

use crate::catalog::ResourceInfo;
use crate::fields;
use crate::json::{Node, object};

/// Where an object stands in its collection: `namespace/name`, or `name` where there are no namespaces. Ordered by
/// bytes, as etcd orders; that is not the order of (namespace, name) pairs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey(Arc<str>);

/// One state of one object. Immutable.
#[derive(Debug, Clone)]
pub struct Object {
    key: StoreKey,
    uid: Arc<str>,
    rv: ResourceVersion,
    bytes: Bytes,
    item: Range<usize>,
    labels: BTreeMap<String, String>,
    fields: Vec<(&'static str, String)>,
    custom_fields: Vec<(String, String)>,
}

const METADATA_ORDER: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

// === impl StoreKey ===

impl StoreKey {
    /// The key of an object.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self(namespace.map_or_else(|| name.into(), |namespace| format!("{namespace}/{name}").into()))
    }

    /// The whole key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace; empty for an object that is in none.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

impl std::borrow::Borrow<str> for StoreKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Object ===

impl Object {
    /// Makes the object of a complete tree: its metadata has name, uid and resourceVersion (and a namespace where
    /// the resource has them). Orders the keys as the resource's kind has them.
    pub fn from_tree(info: &ResourceInfo, mut tree: Node) -> Self {
        order(info, &mut tree);
        let text = |key| tree.text_at(&["metadata", key]).unwrap_or_default();
        let namespace = info.is_namespaced().then(|| text("namespace"));
        let bytes = Bytes::from(tree.to_text());
        let prefix = type_meta_len(info);
        Self {
            key: StoreKey::new(namespace, text("name")),
            uid: text("uid").into(),
            rv: text("resourceVersion").parse().unwrap_or(ResourceVersion::ZERO),
            item: prefix..bytes.len(),
            bytes,
            labels: labels(&tree),
            fields: fields::values(info, &tree),
            custom_fields: fields::custom_values(info, &tree),
        }
    }

    /// Its key.
    pub fn key(&self) -> &StoreKey {
        &self.key
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The resourceVersion that its bytes show.
    pub fn rv(&self) -> ResourceVersion {
        self.rv
    }

    /// Its bytes as GET and watch send them.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its bytes as a list has them, in two parts to be joined: a built-in kind loses kind and apiVersion.
    pub fn item(&self) -> [&[u8]; 2] {
        match self.item.start {
            0 => [b"", &self.bytes],
            start => [b"{", &self.bytes[start..]],
        }
    }

    /// Its labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    /// The value of a field selector's label; `None` where the kind does not set it.
    pub fn field(&self, label: &str) -> Option<&str> {
        match label {
            "metadata.name" => return Some(self.key.name()),
            "metadata.namespace" => return Some(self.key.namespace()),
            _ => {}
        }
        let label = if label == "spec.host" { "spec.nodeName" } else { label };
        let built_in = self.fields.iter().find(|(known, _)| *known == label).map(|(_, value)| value.as_str());
        built_in.or_else(|| {
            self.custom_fields.iter().find(|(known, _)| known == label).map(|(_, value)| value.as_str())
        })
    }

    /// Its bytes as a tree.
    pub fn tree(&self) -> Node {
        Node::parse(&self.bytes).expect("the bytes of an object were written from a tree")
    }

    /// The same content under another resourceVersion, as DELETED events show it.
    #[must_use]
    pub fn at(&self, info: &ResourceInfo, rv: ResourceVersion) -> Self {
        let mut tree = self.tree();
        tree.entry("metadata").set("resourceVersion", Node::from(rv.to_string()));
        Self::from_tree(info, tree)
    }

    /// Only its metadata, as a metadata client sees it. Custom kinds too have it in struct order there.
    pub fn metadata_only(&self) -> Node {
        let mut metadata = self.tree().remove("metadata").unwrap_or_else(Node::object);
        metadata.order_first(&METADATA_ORDER);
        object([
            ("kind", Node::from("PartialObjectMetadata")),
            ("apiVersion", Node::from("meta.k8s.io/v1")),
            ("metadata", metadata),
        ])
    }
}

fn order(info: &ResourceInfo, tree: &mut Node) {
    tree.set("kind", Node::from(info.kind.as_str()));
    tree.set("apiVersion", Node::from(info.gvr.api_version()));
    if info.is_custom() {
        tree.sort_deep();
        return;
    }
    let status = tree.remove("status");
    if let Some(status) = status {
        tree.set("status", status);
    }
    tree.order_first(&["kind", "apiVersion", "metadata", "spec"]);
    let metadata = tree.entry("metadata");
    metadata.order_first(&METADATA_ORDER);
    for map in ["labels", "annotations"] {
        if metadata.get(map).is_some() {
            metadata.entry(map).sort_deep();
        }
    }
}

/// How many bytes of a built-in object its kind and apiVersion take, the brace included.
fn type_meta_len(info: &ResourceInfo) -> usize {
    if info.is_custom() {
        return 0;
    }
    let head = object([
        ("kind", Node::from(info.kind.as_str())),
        ("apiVersion", Node::from(info.gvr.api_version())),
    ]);
    head.to_text().len()
}

fn labels(tree: &Node) -> BTreeMap<String, String> {
    let pairs = tree.at(&["metadata", "labels"]).map_or(&[][..], Node::pairs);
    pairs
        .iter()
        .filter_map(|(key, value)| value.as_text().map(|value| (key.clone(), value.to_owned())))
        .collect()
}
