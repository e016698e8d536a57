//! Which requests a mirror may answer. Wherever upstream's routing could read a path in another way than its
//! authorization does, the request is none of ours: passing it through is always right. That goes for `namespaces//pods`
//! too: upstream answers it for all namespaces, but only if the resource lives in namespaces, which no path tells.

use std::fmt;

use super::{RequestInfo, Verb, split};
use crate::query::Query;

/// A read that a mirror may know how to answer. Whether the resource is mirrored, and whether it lives in namespaces,
/// only the mirror knows: a namespaced resource without a namespace has no objects to get, a cluster-wide one no
/// namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A list or watch of a collection; the verb says which.
    Collection {
        /// `None`: all namespaces, or a resource without them.
        namespace: Option<String>,
    },
    /// A get of one object.
    Object {
        /// `None` for a resource without namespaces.
        namespace: Option<String>,
        /// The object's name.
        name: String,
    },
    /// A watch by the old path prefix; its options are checked as a list's.
    LegacyWatch {
        /// `None`: all namespaces, or a resource without them.
        namespace: Option<String>,
        /// Stands for a field selector with this name.
        name: Option<String>,
    },
    /// Upstream answers it.
    Other(Unserved),
}

/// Why a mirror does not answer a request of this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unserved {
    /// Not about a resource: discovery, health, versions.
    NoResource,
    /// Not a GET.
    Method,
    /// A subresource, or the old path prefix `proxy`.
    Subresource,
    /// Empty or dot segments, or bytes that no name may hold.
    UncleanPath,
    /// A slash in the path came as an escape.
    EscapedSlash,
    /// The query's bytes are no text.
    UnreadableQuery,
}

/// Judges a request that has been read.
pub(super) fn judge(info: &RequestInfo, method: &str, query: &Query) -> Shape {
    if !info.is_resource_request {
        return Shape::Other(Unserved::NoResource);
    }
    if method != "GET" {
        return Shape::Other(Unserved::Method);
    }
    if !info.subresource.is_empty() || info.verb == Verb::Proxy {
        return Shape::Other(Unserved::Subresource);
    }
    if !query.is_utf8() {
        return Shape::Other(Unserved::UnreadableQuery);
    }
    of_segments(&split(&info.path)).filter(|_| !info.path.starts_with("//")).unwrap_or(UNCLEAN)
}

const UNCLEAN: Shape = Shape::Other(Unserved::UncleanPath);

fn of_segments(segments: &[&str]) -> Option<Shape> {
    let (is_core, rest) = match segments {
        ["api", version, rest @ ..] => (true, is_clean(version).then_some(rest)?),
        ["apis", group, version, rest @ ..] => {
            (false, (is_clean(group) && is_clean(version)).then_some(rest)?)
        }
        _ => return None,
    };
    match rest {
        ["watch", rest @ ..] => of_place(is_core, rest).and_then(legacy),
        _ => of_place(is_core, rest),
    }
}

fn of_place(is_core: bool, segments: &[&str]) -> Option<Shape> {
    if !segments.iter().all(|segment| is_clean(segment)) {
        return None;
    }
    let owned = |text: &str| text.to_owned();
    match segments {
        // A group of its own may have a resource of this name; upstream's two readings of it differ.
        ["namespaces"] | ["namespaces", _] if !is_core => None,
        ["namespaces", name] => Some(Shape::Object { namespace: None, name: owned(name) }),
        ["namespaces", namespace, _] => Some(Shape::Collection { namespace: Some(owned(namespace)) }),
        ["namespaces", namespace, _, name] => {
            Some(Shape::Object { namespace: Some(owned(namespace)), name: owned(name) })
        }
        [_] => Some(Shape::Collection { namespace: None }),
        [_, name] => Some(Shape::Object { namespace: None, name: owned(name) }),
        _ => None,
    }
}

fn legacy(shape: Shape) -> Option<Shape> {
    match shape {
        Shape::Collection { namespace } => Some(Shape::LegacyWatch { namespace, name: None }),
        Shape::Object { namespace, name } => Some(Shape::LegacyWatch { namespace, name: Some(name) }),
        Shape::LegacyWatch { .. } | Shape::Other(_) => None,
    }
}

/// Visible ASCII that no part of upstream takes for anything but itself.
fn is_clean(segment: &str) -> bool {
    !matches!(segment, "" | "." | "..") && segment.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%')
}

// === impl Unserved ===

impl Unserved {
    /// A few words for a header, a log or a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoResource => "no resource",
            Self::Method => "method",
            Self::Subresource => "subresource",
            Self::UncleanPath => "unclean path",
            Self::EscapedSlash => "escaped slash",
            Self::UnreadableQuery => "unreadable query",
        }
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
