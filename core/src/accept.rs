//! Which form of an answer a client takes. Upstream asks twice: its router looks at the bare media types, its handlers
//! at the clauses with their parameters, and custom resources have no router. Errors are asked for a third time, without
//! what the resource can or cannot do, so an error may leave in another form than the answer would have.

mod clause;
#[cfg(test)]
mod tests;

use crate::query::Query;
use crate::status::Status;
use clause::{Clause, clauses};

/// A body of more bytes than this is compressed for a client that takes gzip; one of exactly as many is not.
pub const GZIP_ABOVE_BYTES: usize = 131_072;

const MEDIA: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const STREAM_MEDIA: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// What of a request says which form it takes.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The first header `Accept`; none is as good as an empty one.
    pub accept: Option<&'a str>,
    /// The header `User-Agent`.
    pub user_agent: Option<&'a str>,
    /// The query as it came.
    pub raw_query: &'a str,
    /// The same, decoded.
    pub query: &'a Query,
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// A collection.
    List,
    /// One object.
    Get,
    /// A stream of events.
    Watch,
}

/// Who serves the resource upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Compiled into kube-apiserver.
    BuiltIn,
    /// Made by a CustomResourceDefinition: no protobuf for whole objects.
    Custom,
}

/// How bytes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// On one line, with a line feed.
    Json,
    /// Over several lines, without one at the end.
    PrettyJson,
    /// Keys in alphabetical order.
    Yaml,
    /// In the envelope that starts with `k8s`.
    Protobuf,
}

/// What is made of an object before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// Nothing.
    None,
    /// Its metadata only. For single objects and watches.
    PartialObjectMetadata(MetaVersion),
    /// The metadata of a list's items. For lists only.
    PartialObjectMetadataList(MetaVersion),
    /// Rows for people.
    Table(MetaVersion),
}

/// The version of `meta.k8s.io` that a transformed object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`.
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1Beta1,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Negotiated {
    /// How it is written.
    pub encoding: Encoding,
    /// What is made of it before.
    pub transform: Transform,
}

/// Negotiates an answer; 406 in upstream's words where nothing fits. Comes before the options are looked at.
pub fn negotiate(asked: &Asked<'_>, want: Want, family: Family) -> Result<Negotiated, Status> {
    let accept = asked.accept.unwrap_or_default();
    if family == Family::BuiltIn && !is_routed(accept) {
        let streams = if want == Want::Get { String::new() } else { format!(", {STREAM_MEDIA}") };
        let message = format!("406: Not Acceptable\n\nAvailable representations: {MEDIA}{streams}");
        return Err(Status::not_acceptable(message).with_details(crate::status::Details::default()));
    }
    if accept.is_empty() {
        return Ok(Negotiated { encoding: asked.encoding(Media::Json, false), transform: Transform::None });
    }
    for clause in clauses(accept) {
        for media in clause.matching_media() {
            if let Some(transform) = clause.transform_of(media, family) {
                return Ok(Negotiated { encoding: asked.encoding(media, clause.is_pretty()), transform });
            }
        }
    }
    Err(Status::not_acceptable(format!("only the following media types are accepted: {MEDIA}")))
}

/// Negotiates an error. Where nothing fits, it is pretty JSON.
pub fn negotiate_error(asked: &Asked<'_>) -> Encoding {
    let accept = asked.accept.unwrap_or_default();
    if accept.is_empty() {
        return asked.encoding(Media::Json, false);
    }
    let clauses = clauses(accept);
    let fits = |clause: &&Clause<'_>| clause.is_plain();
    clauses
        .iter()
        .filter(fits)
        .find_map(|clause| {
            let media = clause.matching_media().find(|&media| clause.may_stream(media))?;
            Some(asked.encoding(media, clause.is_pretty()))
        })
        .unwrap_or(Encoding::PrettyJson)
}

/// Whether the client takes gzip: only the bare word counts, a quality after it spoils it.
pub fn takes_gzip(accept_encoding: Option<&str>) -> bool {
    accept_encoding.unwrap_or_default().split(',').any(|token| token.trim() == "gzip")
}

/// A media type, however it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Media {
    Json,
    Yaml,
    Protobuf,
}

/// In the order in which a wildcard tries them.
const ALL_MEDIA: [Media; 3] = [Media::Json, Media::Yaml, Media::Protobuf];

/// Whether upstream's router lets the request through.
fn is_routed(accept: &str) -> bool {
    accept.is_empty()
        || accept.split(',').any(|range| {
            let name = range.split(';').next().unwrap_or_default().trim_matches(' ');
            name == "*/*" || ALL_MEDIA.iter().any(|media| media.content_type() == name)
        })
}

// === impl Asked ===

impl Asked<'_> {
    fn encoding(&self, media: Media, asks_pretty: bool) -> Encoding {
        match media {
            Media::Json if asks_pretty || self.is_pretty() => Encoding::PrettyJson,
            Media::Json => Encoding::Json,
            Media::Yaml => Encoding::Yaml,
            Media::Protobuf => Encoding::Protobuf,
        }
    }

    /// Upstream looks for the six letters anywhere in the query before it reads the parameter.
    fn is_pretty(&self) -> bool {
        let given =
            self.query.get("pretty").filter(|value| !value.is_empty() && self.raw_query.contains("pretty"));
        match given {
            Some(value) => matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True"),
            None => {
                let agent = self.user_agent.unwrap_or_default();
                ["curl", "Wget", "Mozilla/5.0"].iter().any(|browser| agent.starts_with(browser))
            }
        }
    }
}

// === impl Negotiated ===

impl Negotiated {
    /// The form of a watch's events; 406 for YAML. Comes after the options were checked and the watch was set up.
    pub fn for_watch(self) -> Result<Self, Status> {
        let encoding = match self.encoding {
            Encoding::Json | Encoding::PrettyJson => Encoding::Json,
            Encoding::Protobuf => Encoding::Protobuf,
            Encoding::Yaml => {
                let message = format!("only the following media types are accepted: {STREAM_MEDIA}");
                return Err(Status::not_acceptable(message));
            }
        };
        Ok(Self { encoding, ..self })
    }
}

// === impl Encoding ===

impl Encoding {
    /// The header `Content-Type` of a body. Parameters of the request are never echoed.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::PrettyJson => Media::Json.content_type(),
            Self::Yaml => Media::Yaml.content_type(),
            Self::Protobuf => Media::Protobuf.content_type(),
        }
    }

    /// The header `Content-Type` of a watch.
    pub fn watch_content_type(self) -> &'static str {
        match self {
            Self::Json | Self::PrettyJson | Self::Yaml => self.content_type(),
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

// === impl MetaVersion ===

impl MetaVersion {
    /// The `apiVersion` of a transformed object.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

// === impl Media ===

impl Media {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}
