//! Label and field selectors: reading them as upstream does, its errors included, and matching objects with them. A
//! field selector means nothing by itself: which fields there are depends on the resource and the version asked for
//! ([`FieldTable`]), and its terms then go by positions in that table, not by names.

mod builtin_fields;
mod field;
mod field_table;
mod label;
mod label_parser;
mod label_syntax;

pub use field::{FieldOperator, FieldRequirement, FieldSelector, FieldSelectorError};
pub use field_table::{CustomFields, FieldLabelError, FieldTable, FieldValue, SelectableField};
pub use label::{LabelOperator, LabelRequirement, LabelSelector};
pub use label_parser::{LabelSelectorError, RequirementError, RequirementFault};
