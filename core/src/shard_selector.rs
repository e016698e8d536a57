//! `shardSelector`: which part of the hash space of a field a client wants. It is written as an expression of CEL that is
//! never evaluated, so everything around the calls of `shardRange`, parentheses and even receivers, is read and forgotten.
//! Unlike upstream, a bound may have fewer than 16 digits, as the API's own reference writes it.

mod cel;
mod lexer;
mod parser;
mod walk;

use std::fmt;

use crate::go_text::quote;
use crate::hash::HashRange;
use crate::status::Status;

pub use cel::CelError;

/// Ranges of the hash of one field; an object is wanted when its hash lies in any of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardSelector {
    field: ShardField,
    ranges: Vec<HashRange>,
}

/// The field that is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShardField {
    /// `object.metadata.uid`.
    Uid,
    /// `object.metadata.namespace`; empty for cluster-scoped kinds.
    Namespace,
}

/// Which bound of a range is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The inclusive start.
    Start,
    /// The exclusive end.
    End,
}

/// Why a `shardSelector` is refused; the text is upstream's, except for that of CEL's own grammar.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardSelectorError {
    /// The pair of the query cannot be decoded.
    #[error("the query pair cannot be decoded")]
    Undecodable,
    /// Nothing but white space.
    #[error("empty shard selector is not allowed; omit the parameter for unfiltered lists")]
    Empty,
    /// Not an expression of CEL.
    #[error("CEL parse error: {0}")]
    Cel(#[from] CelError),
    /// Another call or operator.
    #[error("unsupported function {}; only shardRange() and || are allowed", quote(.0))]
    Function(String),
    /// No call.
    #[error("unexpected expression kind {0}; expected shardRange() call or || operator")]
    Kind(u8),
    /// Not three arguments.
    #[error("shardRange() requires exactly 3 arguments, got {0}")]
    Arguments(usize),
    /// A first argument that is no path of names.
    #[error(
        "shardRange() first argument: expected field path (e.g. object.metadata.uid), got expression kind {0}"
    )]
    NoPath(u8),
    /// A field that is not hashed.
    #[error("unsupported field path {}; supported: object.metadata.uid, object.metadata.namespace", quote(.0))]
    Path(String),
    /// A bound that is no literal.
    #[error("{0} must be a string literal (e.g. '0xff'), got expression kind {1}")]
    NoLiteral(Bound, u8),
    /// A bound that is a literal of another type.
    #[error("{0} must be a string literal, got {1}")]
    NoText(Bound, &'static str),
    /// A bound without `0x`.
    #[error("{} must have '0x' prefix, got {}", .0, quote(.1))]
    NoPrefix(Bound, String),
    /// A bound of `0x` alone.
    #[error("{0}: hex value is required after '0x'")]
    NoDigits(Bound),
    /// A bound beyond every number that is allowed.
    #[error("{}: hex value too long ({} chars, max 17): {}", .0, .1.len(), quote(.1))]
    TooLong(Bound, String),
    /// A bound with something else than lower-case hex digits.
    #[error("{}: invalid hex character {} in {}", .0, quote(&.1.to_string()), quote(.2))]
    Digit(Bound, char, String),
    /// A bound of 17 digits that is not 2^64.
    #[error("{}: 17-digit hex value must be '0x10000000000000000' (2^64), got {}", .0, quote(.1))]
    Beyond(Bound, String),
    /// A start that is not below its end.
    #[error("shard range start {} must be less than end {}", Hex(*.0), Hex(*.1))]
    EmptyRange(u128, u128),
    /// Ranges of different fields.
    #[error("all shard ranges must use the same field, got {} and {}", quote(.0.path()), quote(.1.path()))]
    MixedFields(ShardField, ShardField),
}

/// A bound in canonical digits.
struct Hex(u128);

// === impl ShardSelector ===

impl ShardSelector {
    /// Reads the value of the parameter `shardSelector`.
    pub fn parse(text: &str) -> Result<Self, ShardSelectorError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ShardSelectorError::Empty);
        }
        walk::walk(&parser::parse(text)?)
    }

    /// The field that is hashed.
    pub fn field(&self) -> ShardField {
        self.field
    }

    /// The ranges in the order of the text; at least one. They may overlap.
    pub fn ranges(&self) -> &[HashRange] {
        &self.ranges
    }

    /// Whether a field with this hash is wanted.
    pub fn matches(&self, hash: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(hash))
    }
}

impl fmt::Display for ShardSelector {
    /// The canonical form, as in `metadata.shardInfo.selector`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            if index > 0 {
                f.write_str(" || ")?;
            }
            let (start, end) = (Hex(range.start().into()), Hex(range.end()));
            write!(f, "shardRange({}, '{start}', '{end}')", self.field.path())?;
        }
        Ok(())
    }
}

// === impl ShardField ===

impl ShardField {
    /// The path as the grammar writes it.
    pub fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

// === impl Bound ===

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "hexStart",
            Self::End => "hexEnd",
        })
    }
}

// === impl Hex ===

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

// === impl ShardSelectorError ===

impl From<ShardSelectorError> for Status {
    /// Upstream answers 500 without a reason; the request is at fault, so here it is 400.
    fn from(error: ShardSelectorError) -> Self {
        Self::bad_request(format!("invalid shard selector: {error}"))
    }
}
