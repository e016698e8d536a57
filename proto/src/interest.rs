//! An interest as it travels: fields by their paths. A position in a table of fields means something only to the process
//! that made the table, and two versions of weir may know different fields of one resource; a path that the receiver lacks
//! is refused, never ignored, since the answer would hold more than was asked for.

use std::sync::Arc;

use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::selector::{FieldTable, LabelSelector};
use weir_core::shard_selector::ShardSelector;

use crate::error::ProtocolError;
use crate::parts::{all, required};
use crate::wire;

/// An interest that is not bound to a table of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedInterest {
    scope: Scope,
    labels: LabelSelector,
    fields: Vec<NamedTerm>,
    shard: Option<ShardSelector>,
}

/// A term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTerm {
    /// Whose value is compared.
    pub target: NamedTarget,
    /// Whether it must be equal or must differ.
    pub is_negated: bool,
    /// With what.
    pub value: Arc<str>,
}

/// What a term looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedTarget {
    /// `metadata.name`.
    Name,
    /// `metadata.namespace`.
    Namespace,
    /// The selectable field at this path.
    Field(Vec<String>),
    /// A label that upstream accepts and never sets.
    NeverSet,
}

// === impl NamedInterest ===

impl NamedInterest {
    /// Names the fields of an interest that was made with `table`.
    pub fn of(interest: &Interest, table: &FieldTable) -> Result<Self, ProtocolError> {
        let Interest { scope, labels, fields, shard, .. } = interest;
        Ok(Self {
            scope: scope.clone(),
            labels: labels.clone(),
            fields: fields.iter().map(|term| NamedTerm::of(term, table)).collect::<Result<_, _>>()?,
            shard: shard.clone(),
        })
    }

    /// The interest over the mirror whose fields these are.
    pub fn resolve(self, table: &FieldTable) -> Result<Interest, ProtocolError> {
        let Self { scope, labels, fields, shard } = self;
        let fields = all(fields, |term| term.resolve(table))?;
        Ok(Interest::new(scope, labels, fields, shard))
    }
}

impl From<&NamedInterest> for wire::Interest {
    fn from(interest: &NamedInterest) -> Self {
        let NamedInterest { scope, labels, fields, shard } = interest;
        Self {
            scope: Some(scope.into()),
            labels: labels.to_string(),
            fields: fields.iter().map(wire::FieldTerm::from).collect(),
            shard: shard.as_ref().map(ShardSelector::to_string),
        }
    }
}

impl TryFrom<wire::Interest> for NamedInterest {
    type Error = ProtocolError;

    fn try_from(interest: wire::Interest) -> Result<Self, ProtocolError> {
        let wire::Interest { scope, labels, fields, shard } = interest;
        let shard = shard.map(|shard| ShardSelector::parse(&shard)).transpose();
        Ok(Self {
            scope: scope.unwrap_or_default().try_into()?,
            labels: LabelSelector::parse(&labels).map_err(|_| ProtocolError::Invalid("interest.labels"))?,
            fields: all(fields, NamedTerm::try_from)?,
            shard: shard.map_err(|_| ProtocolError::Invalid("interest.shard"))?,
        })
    }
}

pub(crate) fn interest(interest: Option<wire::Interest>) -> Result<NamedInterest, ProtocolError> {
    required(interest, "interest")?.try_into()
}

// === impl NamedTerm ===

impl NamedTerm {
    fn of(term: &FieldTerm, table: &FieldTable) -> Result<Self, ProtocolError> {
        let FieldTerm { target, is_negated, value } = term;
        let target = match target {
            FieldTarget::Name => NamedTarget::Name,
            FieldTarget::Namespace => NamedTarget::Namespace,
            FieldTarget::Field(index) => {
                let field = table.fields().get(*index);
                NamedTarget::Field(field.ok_or(ProtocolError::Invalid("interest.fields"))?.path.clone())
            }
            FieldTarget::NeverSet => NamedTarget::NeverSet,
        };
        Ok(Self { target, is_negated: *is_negated, value: value.clone() })
    }

    fn resolve(self, table: &FieldTable) -> Result<FieldTerm, ProtocolError> {
        let Self { target, is_negated, value } = self;
        let target = match target {
            NamedTarget::Name => FieldTarget::Name,
            NamedTarget::Namespace => FieldTarget::Namespace,
            NamedTarget::Field(path) => {
                let index = table.fields().iter().position(|field| field.path == path);
                FieldTarget::Field(index.ok_or(ProtocolError::Invalid("interest.fields"))?)
            }
            NamedTarget::NeverSet => FieldTarget::NeverSet,
        };
        Ok(FieldTerm { target, is_negated, value })
    }
}

impl From<&NamedTerm> for wire::FieldTerm {
    fn from(term: &NamedTerm) -> Self {
        use wire::field_term::Target;
        let NamedTerm { target, is_negated, value } = term;
        let target = match target {
            NamedTarget::Name => Target::Name(wire::Nothing {}),
            NamedTarget::Namespace => Target::Namespace(wire::Nothing {}),
            NamedTarget::Field(keys) => Target::Field(wire::FieldPath { keys: keys.clone() }),
            NamedTarget::NeverSet => Target::NeverSet(wire::Nothing {}),
        };
        Self { target: Some(target), is_negated: *is_negated, value: value.to_string() }
    }
}

impl TryFrom<wire::FieldTerm> for NamedTerm {
    type Error = ProtocolError;

    fn try_from(term: wire::FieldTerm) -> Result<Self, ProtocolError> {
        use wire::field_term::Target;
        let wire::FieldTerm { target, is_negated, value } = term;
        let target = match required(target, "interest.fields.target")? {
            Target::Name(wire::Nothing {}) => NamedTarget::Name,
            Target::Namespace(wire::Nothing {}) => NamedTarget::Namespace,
            Target::Field(path) if path.keys.is_empty() => {
                return Err(ProtocolError::Missing("interest.fields.target.keys"));
            }
            Target::Field(path) => NamedTarget::Field(path.keys),
            Target::NeverSet(wire::Nothing {}) => NamedTarget::NeverSet,
        };
        Ok(Self { target, is_negated, value: value.into() })
    }
}
