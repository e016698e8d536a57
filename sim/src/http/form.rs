//! The forms of an answer: JSON, compact or indented, of whole objects or of their metadata only.
//!
//! Errors are negotiated on their own: a client that accepts nothing but metadata gets them indented.

use http::HeaderMap;
use http::header::{ACCEPT, USER_AGENT};
use weir_core::query::Query;
use weir_core::status::Details;
use weir_core::{ResourceVersion, Status};

use crate::catalog::ResourceInfo;
use crate::json::{Node, object};
use crate::object::Object;
use crate::read::Page;
use crate::watching::EndMark;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) view: View,
    pub(crate) layout: Layout,
    errors: Layout,
}

/// What of an object is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// All of it.
    Whole,
    /// Its metadata, as a PartialObjectMetadata; the client asked for one object, or a watch.
    Metadata,
    /// The same for a list.
    MetadataList,
}

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// On one line that ends in a newline.
    Compact,
    /// Indented, without a newline at the end.
    Pretty,
}

const NOT_ROUTED: &str = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
    application/vnd.kubernetes.protobuf, application/json;stream=watch, \
    application/vnd.kubernetes.protobuf;stream=watch";
const NOT_ACCEPTABLE: &str = "only the following media types are accepted: application/json, application/yaml, \
    application/vnd.kubernetes.protobuf";

// === impl Form ===

impl Form {
    /// The form for errors before anything is negotiated, and for what has no other.
    pub(crate) fn plain(headers: &HeaderMap, query: &Query) -> Self {
        let layout = layout(headers, query);
        let accepts_json = clauses(headers).is_none_or(|all| all.iter().any(|c| c.view == Some(View::Whole)));
        let errors = if accepts_json { layout } else { Layout::Pretty };
        Self { view: View::Whole, layout, errors }
    }

    /// The form that the client accepts.
    ///
    /// # Errors
    /// 406 when there is none.
    pub(crate) fn negotiate(headers: &HeaderMap, query: &Query, info: &ResourceInfo) -> Result<Self, Status> {
        let plain = Self::plain(headers, query);
        let Some(clauses) = clauses(headers) else { return Ok(plain) };
        if !info.is_custom() && !clauses.iter().any(|clause| clause.is_routed) {
            let status = Status::new(406, "NotAcceptable", NOT_ROUTED);
            return Err(Status { details: Some(Details::default()), ..status });
        }
        let view = clauses.iter().find_map(|clause| clause.view);
        let view = view.ok_or_else(|| Status::new(406, "NotAcceptable", NOT_ACCEPTABLE))?;
        Ok(Self { view, ..plain })
    }

    /// The text of a tree.
    pub(crate) fn text(self, tree: &Node) -> String {
        self.layout.text(tree)
    }

    /// The text of one object.
    pub(crate) fn object(self, object: &Object) -> String {
        match (self.view, self.layout) {
            (View::Whole, Layout::Compact) => format!("{}\n", String::from_utf8_lossy(object.bytes())),
            (View::Whole, Layout::Pretty) => object.tree().to_pretty(),
            (View::Metadata | View::MetadataList, layout) => layout.text(&object.metadata_only()),
        }
    }

    /// The text of a list.
    pub(crate) fn list(self, info: &ResourceInfo, page: &Page) -> String {
        let text = match self.view {
            View::Whole => whole_list(info, page),
            View::Metadata | View::MetadataList => metadata_list(page).to_text(),
        };
        match self.layout {
            Layout::Compact => text + "\n",
            Layout::Pretty => Node::parse(text.as_bytes()).map_or(text, |tree| tree.to_pretty()),
        }
    }

    /// The text of an error.
    pub(crate) fn error(self, status: &Status) -> String {
        self.errors.text(&status_tree(status))
    }

    /// The object of a bookmark.
    pub(crate) fn bookmark(self, info: &ResourceInfo, rv: ResourceVersion, mark: EndMark) -> String {
        let annotations = object([("k8s.io/initial-events-end", Node::from("true"))]);
        let mut metadata = object([("resourceVersion", Node::from(rv.to_string()))]);
        if mark == EndMark::Initial {
            metadata.set("annotations", annotations);
        }
        let api_version = Node::from(info.gvr.api_version());
        let kind = Node::from(info.kind.as_str());
        match self.view {
            View::Metadata | View::MetadataList => object([
                ("kind", Node::from("PartialObjectMetadata")),
                ("apiVersion", Node::from("meta.k8s.io/v1")),
                ("metadata", metadata),
            ])
            .to_text(),
            View::Whole if info.is_custom() => {
                metadata.sort_deep();
                object([("apiVersion", api_version), ("kind", kind), ("metadata", metadata)]).to_text()
            }
            View::Whole => {
                let mut text =
                    object([("kind", kind), ("apiVersion", api_version), ("metadata", metadata)]).to_text();
                text.pop();
                text + &info.bookmark_tail + "}"
            }
        }
    }

    /// The object of a change.
    pub(crate) fn watched(self, object: &Object) -> String {
        match self.view {
            View::Whole => String::from_utf8_lossy(object.bytes()).into_owned(),
            View::Metadata | View::MetadataList => object.metadata_only().to_text(),
        }
    }
}

// === impl Layout ===

impl Layout {
    fn text(self, tree: &Node) -> String {
        match self {
            Self::Compact => tree.to_text() + "\n",
            Self::Pretty => tree.to_pretty(),
        }
    }
}

/// A Status as a tree.
pub(crate) fn status_tree(status: &Status) -> Node {
    let text = |text: &str| Node::from(text);
    let mut metadata = Node::object();
    if let Some(token) = &status.continue_token {
        metadata.set("continue", text(token));
    }
    let mut tree = object([
        ("kind", text("Status")),
        ("apiVersion", text("v1")),
        ("metadata", metadata),
        ("status", text("Failure")),
        ("message", text(&status.message)),
    ]);
    if !status.reason.is_empty() {
        tree.set("reason", text(&status.reason));
    }
    if let Some(details) = &status.details {
        tree.set("details", details_tree(details));
    }
    tree.set("code", Node::from(u64::from(status.code)));
    tree
}

pub(crate) fn details_tree(details: &Details) -> Node {
    let mut tree = Node::object();
    let set = |tree: &mut Node, key: &str, value: &str| {
        if !value.is_empty() {
            tree.set(key, Node::from(value));
        }
    };
    set(&mut tree, "name", &details.name);
    set(&mut tree, "group", &details.group);
    set(&mut tree, "kind", &details.kind);
    set(&mut tree, "uid", &details.uid);
    let causes = details.causes.iter().map(|cause| {
        let mut one = Node::object();
        set(&mut one, "reason", &cause.reason);
        set(&mut one, "message", &cause.message);
        set(&mut one, "field", &cause.field);
        one
    });
    let causes: Vec<_> = causes.collect();
    if !causes.is_empty() {
        tree.set("causes", Node::Array(causes));
    }
    if details.retry_after_seconds > 0 {
        tree.set("retryAfterSeconds", Node::from(u64::from(details.retry_after_seconds)));
    }
    tree
}

fn whole_list(info: &ResourceInfo, page: &Page) -> String {
    let size: usize = page.items.iter().map(|item| item.bytes().len() + 1).sum();
    let mut text = String::with_capacity(size + 256);
    let kind = Node::from(info.list_kind()).to_text();
    let api_version = Node::from(info.gvr.api_version()).to_text();
    let mut metadata = list_metadata(page);
    if info.is_custom() {
        if metadata.get("continue").is_none() {
            metadata.set("continue", Node::from(""));
        }
        metadata.sort_deep();
        text += &format!("{{\"apiVersion\":{api_version},\"items\":[");
        push_items(&mut text, page);
        text += &format!("],\"kind\":{kind},\"metadata\":{}}}", metadata.to_text());
        return text;
    }
    text += &format!(
        "{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{},\"items\":[",
        metadata.to_text()
    );
    push_items(&mut text, page);
    text + "]}"
}

fn push_items(text: &mut String, page: &Page) {
    for (index, item) in page.items.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        for part in item.item() {
            text.push_str(&String::from_utf8_lossy(part));
        }
    }
}

fn metadata_list(page: &Page) -> Node {
    let items: Vec<_> = page.items.iter().map(|item| item.metadata_only()).collect();
    object([
        ("kind", Node::from("PartialObjectMetadataList")),
        ("apiVersion", Node::from("meta.k8s.io/v1")),
        ("metadata", list_metadata(page)),
        ("items", if items.is_empty() { Node::Null } else { Node::Array(items) }),
    ])
}

fn list_metadata(page: &Page) -> Node {
    let mut metadata = object([("resourceVersion", Node::from(page.rv.to_string()))]);
    if let Some(next) = &page.next {
        metadata.set("continue", Node::from(next.token.encode(next.spelling)));
    }
    if let Some(remaining) = page.remaining {
        metadata.set("remainingItemCount", Node::from(remaining));
    }
    metadata
}

struct Clause {
    quality: f32,
    /// Whether the router of built-in resources knows the media type, which it does not of `application/*`.
    is_routed: bool,
    view: Option<View>,
}

/// The clauses of the first Accept header, the most wanted first; none when everything is accepted.
fn clauses(headers: &HeaderMap) -> Option<Vec<Clause>> {
    let accept = headers.get(ACCEPT)?.to_str().ok().filter(|text| !text.trim().is_empty())?;
    let mut clauses: Vec<_> = accept.split(',').map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    Some(clauses)
}

// === impl Clause ===

impl Clause {
    fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
        let parameter = |key| parameters.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
        let is_json = ["application/json", "application/*", "*/*"].contains(&media_type);
        let is_meta = parameter("g") == Some("meta.k8s.io") && parameter("v") == Some("v1");
        let view = match parameter("as") {
            None => Some(View::Whole),
            Some("PartialObjectMetadata") if is_meta => Some(View::Metadata),
            Some("PartialObjectMetadataList") if is_meta => Some(View::MetadataList),
            Some(_) => None,
        };
        let known = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "*/*"];
        Self {
            is_routed: known.contains(&media_type),
            quality: parameter("q").and_then(|q| q.parse().ok()).unwrap_or(1.0),
            view: view.filter(|_| is_json),
        }
    }
}

fn layout(headers: &HeaderMap, query: &Query) -> Layout {
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let by_agent = ["curl", "Wget", "Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix));
    let is_pretty = match query.get("pretty") {
        None | Some("") => by_agent,
        Some(text) => ["1", "t", "T", "TRUE", "true", "True"].contains(&text),
    };
    if is_pretty { Layout::Pretty } else { Layout::Compact }
}
