//! Finds in the JSON of an object what matching and keeping it need, in one pass and without a tree: its names, its
//! resourceVersion and where that stands, its labels and the values of chosen fields. The grammar of the whole text is
//! checked on the way, so bytes that pass can be served as they are. serde was rejected: it gives no byte positions,
//! takes invalid UTF-8 in what it skips, and refuses a repeated key, of which the last one counts here as in Go.

mod cursor;
mod escape;
mod field_paths;
mod special;
#[cfg(test)]
mod tests;
mod walk;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

pub(crate) use cursor::Cursor;
pub use field_paths::{FieldPathError, FieldPaths};
pub(crate) use special::find_special;

/// A range of bytes of the scanned text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

/// A value as text, with the bytes that it was read from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a> {
    /// Its bytes: of a string without the quotes and before unescaping, of a number or boolean as written.
    pub span: Span,
    /// What it says; owned only where the bytes hold escapes.
    pub value: Cow<'a, str>,
}

/// What was found. A missing text, or `null`, is empty and so is its span.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned<'a> {
    /// The kind.
    pub kind: Text<'a>,
    /// The group and version, as written.
    pub api_version: Text<'a>,
    /// The bytes `"kind":"…","apiVersion":"…",` at the head of the object, from the first quote to the comma. Empty
    /// where kind and apiVersion do not stand there, in this order: in items of built-in lists and in custom resources.
    pub type_meta: Span,
    /// The value of `metadata`, braces included.
    pub metadata: Span,
    /// `metadata.name`.
    pub name: Text<'a>,
    /// `metadata.namespace`.
    pub namespace: Text<'a>,
    /// `metadata.uid`.
    pub uid: Text<'a>,
    /// `metadata.resourceVersion`; the span is that of the digits inside the quotes.
    pub resource_version: Text<'a>,
    /// `metadata.labels`, each key once, in the order of the bytes of the keys.
    pub labels: Vec<(Text<'a>, Text<'a>)>,
    /// The values of the chosen fields, in the order of the paths; `None` for what is missing, `null` or no scalar.
    pub fields: Vec<Option<Text<'a>>>,
}

/// Why bytes are not the JSON of an object. It is small: every step of a scan returns it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// Offsets are 32 bits wide.
    #[error("longer than 4 GiB")]
    TooLong,
    /// Also in a part that nobody asked for.
    #[error("not UTF-8 at byte {at}")]
    NotUtf8 {
        /// The offset of the first bad byte.
        at: u32,
    },
    /// The text stops inside a value.
    #[error("unexpected end of the text")]
    UnexpectedEnd,
    /// A byte that the grammar does not allow here, a control character in a string included.
    #[error("unexpected byte at {at}")]
    Unexpected {
        /// The offset of the byte.
        at: u32,
    },
    /// A backslash that starts no escape.
    #[error("not an escape at byte {at}")]
    BadEscape {
        /// The offset of the backslash.
        at: u32,
    },
    /// More open braces and brackets than Go's reader takes.
    #[error("nested too deep at byte {at}")]
    TooDeep {
        /// The offset of the brace or bracket.
        at: u32,
    },
    /// A value of another type than every object has there.
    #[error("{0} has the wrong type")]
    WrongType(Part),
}

/// A value that every object of the API has, or may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `kind`.
    Kind,
    /// `apiVersion`.
    ApiVersion,
    /// `metadata`.
    Metadata,
    /// `metadata.name`.
    Name,
    /// `metadata.namespace`.
    Namespace,
    /// `metadata.uid`.
    Uid,
    /// `metadata.resourceVersion`.
    ResourceVersion,
    /// `metadata.labels`, or one of them.
    Labels,
}

/// Scans one object. Leading and trailing white space is allowed, anything else around it is not.
pub fn scan<'a>(bytes: &'a [u8], fields: &FieldPaths) -> Result<Scanned<'a>, ScanError> {
    walk::Walk::new(Cursor::new(bytes)?, fields).run()
}

// === impl Span ===

impl Span {
    /// From `start` to before `end`, both below 4 GiB.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// As a range for slicing.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// How many bytes.
    pub fn len(self) -> usize {
        self.range().len()
    }

    /// Whether it holds nothing; also the span of what is missing.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The bytes of the text that was scanned; empty when it does not reach that far.
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.range()).unwrap_or_default()
    }
}

// === impl Text ===

impl Text<'_> {
    /// Whether it is empty or missing.
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Whether the span's bytes are the value themselves.
    pub fn is_verbatim(&self) -> bool {
        matches!(self.value, Cow::Borrowed(_))
    }
}

// === impl Part ===

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kind => "kind",
            Self::ApiVersion => "apiVersion",
            Self::Metadata => "metadata",
            Self::Name => "metadata.name",
            Self::Namespace => "metadata.namespace",
            Self::Uid => "metadata.uid",
            Self::ResourceVersion => "metadata.resourceVersion",
            Self::Labels => "metadata.labels",
        })
    }
}

// === impl Scanned ===

impl Scanned<'_> {
    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(found, _)| found.value.as_ref().cmp(key)).ok()?;
        self.labels.get(at).map(|(_, value)| value.value.as_ref())
    }
}
