//! What a request asks for, read from its method, path and query as upstream reads them for authorization. This is the
//! one parser: the access check, the mirror and what is sent upstream all come from the same value. Upstream itself
//! reads a path twice, here and when routing, and not the same way; [`Shape`] names only those requests on which both
//! readings agree, everything else is passed through.

mod shape;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::options::ListOptions;
use crate::query::Query;
use crate::resource::GroupVersionResource;
pub use shape::{Shape, Unserved};

/// A request as upstream's authorizers see it. What a request does not have is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The path with its escapes decoded; it may hold slashes that were escaped.
    pub path: String,
    /// Whether it is about a resource. If not, only `path` and `verb` are set.
    pub is_resource_request: bool,
    /// The verb of the API.
    pub verb: Verb,
    /// `api` or `apis`.
    pub api_prefix: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace. A namespace itself is judged inside itself: its name stands here too.
    pub namespace: String,
    /// The plural of the resource.
    pub resource: String,
    /// The subresource, for example `log`.
    pub subresource: String,
    /// The name of the object, from the path or from `fieldSelector=metadata.name=…`.
    pub name: String,
    /// The raw `fieldSelector` of a list, watch or deletecollection; never that of a `/watch/` path.
    pub field_selector: Option<String>,
    /// The raw `labelSelector` of a list, watch or deletecollection; never that of a `/watch/` path.
    pub label_selector: Option<String>,
    /// What a mirror can make of it.
    pub shape: Shape,
}

/// A verb as access rules name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read a collection.
    List,
    /// Follow a collection.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// Delete one object.
    Delete,
    /// Delete a collection.
    DeleteCollection,
    /// The old path prefix `proxy`.
    Proxy,
    /// Another method on a resource; the verb is empty.
    None,
    /// Not about a resource: the method in lower case.
    Method(String),
}

/// Why a request cannot be read. Upstream refuses the first and the last; the other one is beyond our text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestInfoError {
    /// No two hex digits after a `%` in the path.
    #[error("the path holds a broken escape")]
    BadEscape,
    /// The decoded path is not UTF-8, which upstream takes.
    #[error("the path is not UTF-8")]
    NotUtf8,
    /// The path ends after `watch` or `proxy`.
    #[error("the path names no resource")]
    NoResource,
}

// === impl RequestInfo ===

impl RequestInfo {
    /// Reads a request. `raw_path` is the path as it came, without the query.
    pub fn parse(method: &str, raw_path: &str, query: &Query) -> Result<Self, RequestInfoError> {
        let path = decode(raw_path)?;
        let mut info = Self::of_path(method, &path)?;
        if info.is_resource_request {
            info.read_query(query);
        }
        info.shape = shape::judge(&info, method, query);
        if path.matches('/').count() != raw_path.matches('/').count() {
            info.shape = Shape::Other(Unserved::EscapedSlash);
        }
        info.path = path;
        Ok(info)
    }

    /// The resource at its version.
    pub fn group_version_resource(&self) -> GroupVersionResource {
        GroupVersionResource::new(&self.group, &self.version, &self.resource)
    }

    fn of_path(method: &str, path: &str) -> Result<Self, RequestInfoError> {
        let mut info = Self::unknown(method, path);
        let parts = split(path);
        let (prefix, rest) = match parts.split_first() {
            Some((prefix @ (&"api" | &"apis"), rest)) if rest.len() >= 2 => (*prefix, rest),
            _ => return Ok(info),
        };
        info.api_prefix = prefix.to_owned();
        let rest = match (prefix, rest) {
            ("apis", [group, rest @ ..]) if rest.len() >= 2 => {
                info.group = (*group).to_owned();
                rest
            }
            ("apis", _) => return Ok(info),
            _ => rest,
        };
        info.is_resource_request = true;
        info.version = rest[0].to_owned();
        let (verb, rest) = special_verb(&rest[1..])?;
        info.verb = verb.unwrap_or_else(|| Verb::of_method(method));
        info.read_resource(rest);
        Ok(info)
    }

    /// A request that is not about a resource.
    fn unknown(method: &str, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            is_resource_request: false,
            verb: Verb::Method(method.to_lowercase()),
            api_prefix: String::new(),
            group: String::new(),
            version: String::new(),
            namespace: String::new(),
            resource: String::new(),
            subresource: String::new(),
            name: String::new(),
            field_selector: None,
            label_selector: None,
            shape: Shape::Other(Unserved::NoResource),
        }
    }

    /// Reads `[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE…]]`.
    fn read_resource(&mut self, parts: &[&str]) {
        let mut parts = parts;
        if let ["namespaces", namespace, rest @ ..] = parts {
            self.namespace = (*namespace).to_owned();
            if rest.first().is_some_and(|next| !matches!(*next, "status" | "finalize")) {
                parts = rest;
            }
        }
        let part = |index: usize| parts.get(index).map_or_else(String::new, |part| (*part).to_owned());
        self.resource = part(0);
        self.name = part(1);
        if self.verb != Verb::Proxy {
            self.subresource = part(2);
        }
    }

    /// A request without a name is about a collection; only its query says more.
    fn read_query(&mut self, query: &Query) {
        if self.verb == Verb::Watch {
            // By path prefix: not every such watch heeds selectors, so they widen nobody's access.
            return;
        }
        if self.name.is_empty() && self.verb == Verb::Get {
            let options = CollectionOptions::decode(query);
            self.verb = if options.is_watch { Verb::Watch } else { Verb::List };
            self.name = options.name;
        }
        if self.name.is_empty() && self.verb == Verb::Delete {
            self.verb = Verb::DeleteCollection;
        }
        if matches!(self.verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
            self.field_selector = query.get("fieldSelector").map(str::to_owned);
            self.label_selector = query.get("labelSelector").map(str::to_owned);
        }
    }
}

/// What upstream takes from the options of a collection before it checks access.
struct CollectionOptions {
    is_watch: bool,
    /// The one object that the field selector allows.
    name: String,
}

// === impl CollectionOptions ===

impl CollectionOptions {
    /// Never fails: of options that cannot be decoded, upstream keeps only whether it is a watch.
    fn decode(query: &Query) -> Self {
        let Ok(options) = ListOptions::decode(query) else {
            let is_false = |value: &str| value == "0" || value.eq_ignore_ascii_case("false");
            let is_watch = query.get("watch").is_some_and(|value| !is_false(value));
            return Self { is_watch, name: String::new() };
        };
        let name = options.field_selector.exact("metadata.name").filter(|name| is_path_segment(name));
        Self { is_watch: options.watch, name: name.unwrap_or_default().to_owned() }
    }
}

/// Whether upstream takes the name as one segment of a path.
fn is_path_segment(name: &str) -> bool {
    name != "." && name != ".." && !name.contains(['/', '%'])
}

/// `watch` or `proxy` before the resource takes the place of the method.
fn special_verb<'p, 'a>(parts: &'p [&'a str]) -> Result<(Option<Verb>, &'p [&'a str]), RequestInfoError> {
    let verb = match parts.first() {
        Some(&"watch") => Verb::Watch,
        Some(&"proxy") => Verb::Proxy,
        _ => return Ok((None, parts)),
    };
    if parts.len() < 2 { Err(RequestInfoError::NoResource) } else { Ok((Some(verb), &parts[1..])) }
}

/// The segments between slashes; slashes at the ends do not count.
fn split(path: &str) -> Vec<&str> {
    let path = path.trim_matches('/');
    if path.is_empty() { Vec::new() } else { path.split('/').collect() }
}

fn decode(raw: &str) -> Result<String, RequestInfoError> {
    let bytes = raw.as_bytes();
    let is_escape =
        |at| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    if !memchr::memchr_iter(b'%', bytes).all(is_escape) {
        return Err(RequestInfoError::BadEscape);
    }
    let decoded: Vec<u8> = percent_encoding::percent_decode(bytes).collect();
    String::from_utf8(decoded).map_err(|_| RequestInfoError::NotUtf8)
}

// === impl Verb ===

impl Verb {
    /// The word in access rules.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Proxy => "proxy",
            Self::None => "",
            Self::Method(method) => method,
        }
    }

    /// The verb of a method on an object; case matters.
    fn of_method(method: &str) -> Self {
        match method {
            "GET" | "HEAD" => Self::Get,
            "POST" => Self::Create,
            "PUT" => Self::Update,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => Self::None,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
