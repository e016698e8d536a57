//! One version of one object: upstream's bytes in an allocation of their own, and what matching needs of them. The kept
//! bytes are those of an item in upstream's list: built-in kinds without `kind` and `apiVersion`, custom ones with them.
//!
//! An object never changes; a new version is a new value. What differs for one client is made on the way out.

pub mod list_reader;
pub mod scan;
pub mod watch_line;

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::hash::fnv1a64;
use crate::resource_version::{NotAResourceVersion, ResourceVersion};
use crate::selector::FieldTable;
use crate::slot::Slot;
use scan::{FieldPathError, FieldPaths, ScanError, Span, Text};

/// `namespace/name`, or `name` for cluster-scoped kinds; ordered by bytes, as upstream orders its storage keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(Arc<str>);

/// One version of one object.
#[derive(Clone, Debug)]
pub struct Object {
    bytes: Bytes,
    key: ObjectKey,
    rv: ResourceVersion,
    uid_hash: u64,
    namespace_hash: u64,
    uid: Span,
    rv_digits: Span,
    labels: Box<[(Span, Span)]>,
    fields: Box<[Field]>,
}

/// What is read out of every object of one resource.
#[derive(Clone, Debug)]
pub struct ObjectSchema {
    table: FieldTable,
    paths: FieldPaths,
}

/// Why bytes cannot be kept as an object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// They are not the JSON of an object.
    #[error("scan object")]
    Scan(#[from] ScanError),
    /// An object without a name has no key.
    #[error("object without a name")]
    NoName,
    /// Its resourceVersion is not a number.
    #[error("object {key} has the resourceVersion {text:?}")]
    Version {
        /// Which object.
        key: ObjectKey,
        /// What stands there.
        text: String,
        /// Why it is none.
        #[source]
        source: NotAResourceVersion,
    },
}

/// The value of a selectable field: in the bytes as it stands, or decoded where it held an escape.
#[derive(Clone, Debug)]
enum Field {
    Absent,
    At(Span),
    Decoded(Box<str>),
}

// === impl ObjectKey ===

impl ObjectKey {
    /// The key of a name in a namespace; an empty namespace means cluster-scoped.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() { Self(name.into()) } else { Self(format!("{namespace}/{name}").into()) }
    }

    /// Reads the whole text again; `None` where it is no key.
    pub fn parse(text: &str) -> Option<Self> {
        let is_key = text.splitn(3, '/').count() < 3 && !text.split('/').any(str::is_empty);
        is_key.then(|| Self(text.into()))
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace; empty for cluster-scoped kinds.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Object ===

impl Object {
    /// Keeps one object as upstream sent it, in a list or in a watch event.
    pub fn parse(raw: &[u8], schema: &ObjectSchema) -> Result<Self, ObjectError> {
        let scanned = scan::scan(raw, &schema.paths)?;
        if scanned.name.is_empty() {
            return Err(ObjectError::NoName);
        }
        let key = ObjectKey::new(&scanned.namespace.value, &scanned.name.value);
        let digits = &scanned.resource_version;
        let rv = digits.value.parse().map_err(|source| ObjectError::Version {
            key: key.clone(),
            text: digits.value.to_string(),
            source,
        })?;
        // The scan knows where kind and apiVersion stand, so what is kept is one cut and one allocation.
        let cut = scanned.type_meta;
        let mut bytes = Vec::with_capacity(raw.len() - cut.len());
        bytes.extend_from_slice(&raw[..cut.start as usize]);
        bytes.extend_from_slice(&raw[cut.end as usize..]);
        let shift = Shift { from: cut.end, by: -(cut.len() as i64) };
        Ok(Self {
            bytes: bytes.into(),
            rv,
            uid_hash: fnv1a64(scanned.uid.value.as_bytes()),
            namespace_hash: fnv1a64(key.namespace().as_bytes()),
            uid: shift.apply(scanned.uid.span),
            rv_digits: shift.apply(digits.span),
            labels: scanned.labels.iter().map(|(k, v)| (shift.apply(k.span), shift.apply(v.span))).collect(),
            fields: scanned.fields.iter().map(|text| shift.apply_field(&Field::of(text.as_ref()))).collect(),
            key,
        })
    }

    /// The kept bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The key.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// `metadata.resourceVersion`.
    pub fn rv(&self) -> ResourceVersion {
        self.rv
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text(self.uid)
    }

    /// The hash of the uid, by which objects are spread over shards.
    pub fn uid_hash(&self) -> u64 {
        self.uid_hash
    }

    /// The hash of the namespace; of the empty text for cluster-scoped kinds.
    pub fn namespace_hash(&self) -> u64 {
        self.namespace_hash
    }

    /// The slot that the object lives in.
    pub fn slot(&self) -> Slot {
        Slot::of(self.uid_hash)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| self.text(*k) == key).map(|(_, value)| self.text(*value))
    }

    /// The value of the selectable field with this index; empty where the object lacks it.
    pub fn field(&self, index: usize) -> &str {
        match self.fields.get(index) {
            None | Some(Field::Absent) => "",
            Some(Field::At(span)) => self.text(*span),
            Some(Field::Decoded(text)) => text,
        }
    }

    /// The same content carrying another resourceVersion: what a client is shown as DELETED when an object leaves its
    /// selector.
    #[must_use]
    pub fn with_rv(&self, rv: ResourceVersion) -> Self {
        let (start, end) = (self.rv_digits.start as usize, self.rv_digits.end as usize);
        let digits = rv.to_string();
        let mut bytes = Vec::with_capacity(self.bytes.len() - (end - start) + digits.len());
        bytes.extend_from_slice(&self.bytes[..start]);
        bytes.extend_from_slice(digits.as_bytes());
        bytes.extend_from_slice(&self.bytes[end..]);
        let shift = Shift { from: self.rv_digits.end, by: digits.len() as i64 - (end - start) as i64 };
        Self {
            bytes: bytes.into(),
            key: self.key.clone(),
            rv,
            uid_hash: self.uid_hash,
            namespace_hash: self.namespace_hash,
            uid: shift.apply(self.uid),
            rv_digits: Span { start: self.rv_digits.start, end: self.rv_digits.start + digits.len() as u32 },
            labels: self.labels.iter().map(|(k, v)| (shift.apply(*k), shift.apply(*v))).collect(),
            fields: self.fields.iter().map(|field| shift.apply_field(field)).collect(),
        }
    }

    /// Accounted bytes: the object's own allocations.
    pub fn size(&self) -> usize {
        size_of::<Self>()
            + self.bytes.len()
            + self.key.0.len()
            + self.labels.len() * size_of::<(Span, Span)>()
            + self.fields.len() * size_of::<Field>()
    }

    fn text(&self, span: Span) -> &str {
        std::str::from_utf8(span.of(&self.bytes)).unwrap_or_default()
    }
}

// === impl ObjectSchema ===

impl ObjectSchema {
    /// The schema of a resource with these selectable fields.
    pub fn new(table: FieldTable) -> Result<Self, FieldPathError> {
        let paths: Vec<&[String]> = table.fields().iter().map(|field| field.path.as_slice()).collect();
        Ok(Self { paths: FieldPaths::new(&paths)?, table })
    }

    /// Reads nothing but metadata: enough for whoever only hands objects on.
    pub fn bare() -> Self {
        Self { table: FieldTable::bare(), paths: FieldPaths::default() }
    }

    /// The selectable fields.
    pub fn table(&self) -> &FieldTable {
        &self.table
    }
}

// === impl Field ===

impl Field {
    /// A value that upstream leaves out, `false` or 0, is absent; the table's terms are resolved to match that.
    fn of(text: Option<&Text<'_>>) -> Self {
        match text.filter(|text| !text.is_empty()) {
            None => Self::Absent,
            Some(text) if text.is_verbatim() => Self::At(text.span),
            Some(text) => Self::Decoded(text.value.as_ref().into()),
        }
    }
}

/// Moves the spans behind a replaced piece of text.
struct Shift {
    from: u32,
    by: i64,
}

impl Shift {
    fn apply(&self, span: Span) -> Span {
        if span.start < self.from {
            return span;
        }
        let moved = |at: u32| (i64::from(at) + self.by) as u32;
        Span { start: moved(span.start), end: moved(span.end) }
    }

    fn apply_field(&self, field: &Field) -> Field {
        match field {
            Field::Absent => Field::Absent,
            Field::At(span) => Field::At(self.apply(*span)),
            Field::Decoded(text) => Field::Decoded(text.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_its_text_again() {
        for key in [ObjectKey::new("default", "web-0"), ObjectKey::new("", "system:node")] {
            assert_eq!(ObjectKey::parse(key.as_str()), Some(key));
        }
        for text in ["", "/", "a/", "/a", "a/b/c", "a//b"] {
            assert_eq!(ObjectKey::parse(text), None, "{text:?}");
        }
    }
}
