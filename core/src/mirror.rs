//! A mirror: one upstream collection in one encoding. What a feed learns about it before it reads, and what answers made
//! from it need besides the objects.

use std::sync::Arc;

use bytes::Bytes;

use crate::object::ObjectSchema;
use crate::resource::GroupVersionResource;

/// What is known of a collection before it is read.
#[derive(Clone, Debug)]
pub struct MirrorSpec {
    /// The resource.
    pub resource: GroupVersionResource,
    /// The kind of its objects.
    pub kind: Arc<str>,
    /// Whether objects live in namespaces.
    pub is_namespaced: bool,
    /// Who writes its JSON.
    pub form: JsonForm,
    /// What is read out of every object.
    pub schema: Arc<ObjectSchema>,
}

/// The two ways in which upstream writes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonForm {
    /// Keys in the order of the type's fields; items of lists carry no kind.
    BuiltIn,
    /// Keys in alphabetical order; every object carries its kind; lists always have `continue`.
    Custom,
}

/// What a feed learns while it reads, and answers repeat.
#[derive(Clone, Debug)]
pub struct MirrorFacts {
    /// The kind of lists, from upstream's own list.
    pub list_kind: Arc<str>,
    /// `Warning` headers of upstream's list.
    pub warnings: Vec<Arc<str>>,
    /// The bookmark.
    pub bookmark: BookmarkTemplate,
}

/// A bookmark as upstream writes it for this kind, cut where its resourceVersion stands. Kinds of upstream have their zero
/// values in it, so it is kept and not composed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookmarkTemplate {
    plain: Cut,
    end: Cut,
}

/// The bytes before and behind a resourceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    head: Bytes,
    tail: Bytes,
}

/// The annotation on the bookmark that ends the initial events.
const END_ENTRY: &str = r#""k8s.io/initial-events-end":"true""#;

// === impl MirrorSpec ===

impl MirrorSpec {
    /// Whether both describe the same collection: what was read as the one may be read on as the other.
    pub fn is_same(&self, other: &Self) -> bool {
        let Self { resource, kind, is_namespaced, form, schema } = self;
        let is_alike = *resource == other.resource && *kind == other.kind && *form == other.form;
        is_alike && *is_namespaced == other.is_namespaced && schema.table() == other.schema.table()
    }
}

// === impl BookmarkTemplate ===

impl BookmarkTemplate {
    /// From the object of a bookmark that ended initial events. `None` when it isn't one.
    pub fn of_end_bookmark(object: &str) -> Option<Self> {
        let plain = without_end_mark(object)?;
        Some(Self { plain: Cut::at_version(&plain)?, end: Cut::at_version(object)? })
    }

    /// From the pieces of [`Self::plain`] and [`Self::end`].
    pub fn from_pieces(plain: (Bytes, Bytes), end: (Bytes, Bytes)) -> Self {
        let cut = |(head, tail)| Cut { head, tail };
        Self { plain: cut(plain), end: cut(end) }
    }

    /// A bookmark of nothing but metadata, for an upstream that never sent one; every client takes it.
    pub fn composed(spec: &MirrorSpec) -> Self {
        let (kind, api_version) = (&spec.kind, spec.resource.api_version());
        let type_meta = match spec.form {
            JsonForm::BuiltIn => format!(r#""kind":"{kind}","apiVersion":"{api_version}""#),
            JsonForm::Custom => format!(r#""apiVersion":"{api_version}","kind":"{kind}""#),
        };
        let (version, mark) = (r#""resourceVersion":""#, format!(r#""annotations":{{{END_ENTRY}}}"#));
        let plain = Cut::new(format!(r#"{{{type_meta},"metadata":{{{version}"#), r#""}}"#.to_owned());
        let end = match spec.form {
            JsonForm::BuiltIn => {
                Cut::new(format!(r#"{{{type_meta},"metadata":{{{version}"#), format!(r#"",{mark}}}}}"#))
            }
            JsonForm::Custom => {
                Cut::new(format!(r#"{{{type_meta},"metadata":{{{mark},{version}"#), r#""}}"#.to_owned())
            }
        };
        Self { plain, end }
    }

    /// What stands before and behind the resourceVersion in an ordinary bookmark's object.
    pub fn plain(&self) -> (Bytes, Bytes) {
        (self.plain.head.clone(), self.plain.tail.clone())
    }

    /// The same for the bookmark that ends the initial events.
    pub fn end(&self) -> (Bytes, Bytes) {
        (self.end.head.clone(), self.end.tail.clone())
    }
}

// === impl Cut ===

impl Cut {
    fn new(head: String, tail: String) -> Self {
        Self { head: head.into(), tail: tail.into() }
    }

    fn at_version(object: &str) -> Option<Self> {
        let label = r#""resourceVersion":""#;
        let start = object.find(label)? + label.len();
        let digits = object[start..].find('"')?;
        Some(Self::new(object[..start].to_owned(), object[start + digits..].to_owned()))
    }
}

/// The same bookmark without its end mark. Upstream writes compact JSON, and a bookmark holds no text of a user, so its
/// pieces can be told by their text.
fn without_end_mark(object: &str) -> Option<String> {
    let at = object.find(END_ENTRY)?;
    let (head, tail) = (&object[..at], &object[at + END_ENTRY.len()..]);
    let (head, tail) = match (head.strip_suffix(','), tail.strip_prefix(',')) {
        (Some(head), _) => (head, tail),
        (None, Some(tail)) => (head, tail),
        (None, None) => {
            let (head, tail) = (head.strip_suffix(r#""annotations":{"#)?, tail.strip_prefix('}')?);
            match (head.strip_suffix(','), tail.strip_prefix(',')) {
                (Some(head), _) => (head, tail),
                (None, Some(tail)) => (head, tail),
                (None, None) => (head, tail),
            }
        }
    };
    Some(format!("{head}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(object: &str) -> String {
        let (head, tail) = BookmarkTemplate::of_end_bookmark(object).unwrap().plain();
        format!("{}7{}", String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail))
    }

    #[test]
    fn the_mark_is_taken_out_and_nothing_else() {
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}"#;
        assert_eq!(
            plain(pod),
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"},"spec":{"containers":null},"status":{}}"#
        );
        let gauge = r#"{"apiVersion":"g/v1","kind":"Gauge","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"resourceVersion":"5"}}"#;
        assert_eq!(
            plain(gauge),
            r#"{"apiVersion":"g/v1","kind":"Gauge","metadata":{"resourceVersion":"7"}}"#
        );
        let set = r#"{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"resourceVersion":"5","annotations":{"deprecated.daemonset.template.generation":"0","k8s.io/initial-events-end":"true"}},"spec":{}}"#;
        assert_eq!(
            plain(set),
            r#"{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"resourceVersion":"7","annotations":{"deprecated.daemonset.template.generation":"0"}},"spec":{}}"#
        );
        assert_eq!(BookmarkTemplate::of_end_bookmark(r#"{"metadata":{"resourceVersion":"5"}}"#), None);
    }
}
