//! The clauses of an `Accept` header as upstream's parser reads and orders them. It is not RFC 9110's order: a quality of
//! 0 excludes nothing, a broken one counts as 0, and wildcards come last even with a higher quality.

use super::{ALL_MEDIA, Family, Media, MetaVersion, Transform};

/// One media range with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f64,
    /// The last one of a name counts.
    parameters: Vec<(&'a str, &'a str)>,
}

/// All clauses that can be read, in the order in which they are tried.
pub(super) fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = header.split(',').filter_map(Clause::parse).collect();
    // The order is none that a library would sort by: `precedes` is not transitive. Up to 12 clauses, upstream inserts
    // one after the other; for more its result depends on the inside of Go's sort.
    for end in 1..clauses.len() {
        let mut at = end;
        while at > 0 && clauses[at].precedes(&clauses[at - 1]) {
            clauses.swap(at, at - 1);
            at -= 1;
        }
    }
    clauses
}

// === impl Clause ===

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (range, parameters) =
            text.trim_matches(' ').split_once(';').unwrap_or((text.trim_matches(' '), ""));
        let (kind, subtype) = range.split_once('/').unwrap_or((range, ""));
        let kind = kind.trim_matches(' ');
        let subtype = match subtype {
            "" if kind == "*" => "*",
            "" => return None,
            _ if subtype.find('/').is_some_and(|at| at + 1 < subtype.len()) => return None,
            _ => subtype.trim_end_matches('/').trim_matches(' '),
        };
        let mut clause = Self { kind, subtype, quality: 1.0, parameters: Vec::new() };
        parameters.split(';').for_each(|parameter| clause.read_parameter(parameter));
        Some(clause)
    }

    fn read_parameter(&mut self, text: &'a str) {
        let Some((name, value)) = text.split_once('=') else { return };
        // One more `=` may end the value; anything behind it spoils the parameter.
        let value = match value.split_once('=') {
            Some((value, "")) => value,
            Some(_) => return,
            None if value.is_empty() => return,
            None => value,
        };
        match name.trim_matches(' ') {
            "q" => self.quality = value.parse::<f32>().map_or(0.0, f64::from),
            name => self.parameters.push((name, value.trim_matches(' '))),
        }
    }

    fn precedes(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }

    /// The media types that the range covers.
    pub(super) fn matching_media(&self) -> impl Iterator<Item = Media> {
        ALL_MEDIA.into_iter().filter(|media| {
            let subtype = media.content_type().trim_start_matches("application/");
            match (self.kind, self.subtype) {
                ("*" | "application", "*") => true,
                ("application", exact) => exact == subtype,
                _ => false,
            }
        })
    }

    /// The transform that the clause asks of this resource in this media type; `None` if it cannot be had.
    pub(super) fn transform_of(&self, media: Media, family: Family) -> Option<Transform> {
        let is_version_known = matches!(self.parameter("sv"), None | Some("" | "v1"));
        if !is_version_known || !self.may_stream(media) {
            return None;
        }
        if !self.asks_transform() {
            let is_served = family == Family::BuiltIn || media != Media::Protobuf;
            return is_served.then_some(Transform::None);
        }
        let version = match (self.parameter("g"), self.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => MetaVersion::V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => MetaVersion::V1Beta1,
            _ => return None,
        };
        match self.parameter("as")? {
            "Table" if media != Media::Protobuf => Some(Transform::Table(version)),
            "PartialObjectMetadata" => Some(Transform::PartialObjectMetadata(version)),
            "PartialObjectMetadataList" => Some(Transform::PartialObjectMetadataList(version)),
            _ => None,
        }
    }

    /// Whether it asks for nothing that an error cannot be.
    pub(super) fn is_plain(&self) -> bool {
        !self.asks_transform() && matches!(self.parameter("sv"), None | Some(""))
    }

    /// Whether the media type has the stream that the clause asks for, if it does.
    pub(super) fn may_stream(&self, media: Media) -> bool {
        match self.parameter("stream") {
            None | Some("") => true,
            Some(stream) => stream == "watch" && media != Media::Yaml,
        }
    }

    pub(super) fn is_pretty(&self) -> bool {
        self.parameter("pretty") == Some("1")
    }

    fn asks_transform(&self) -> bool {
        ["as", "g", "v"].iter().any(|name| self.parameter(name).is_some())
    }

    fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().rev().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }
}
