//! What a list or a watch wants of a collection: everything, or what its label and field selectors say.

use weir_core::selector::{FieldSelector, LabelSelector};

use crate::object::Object;

/// The selectors of one request; their field labels are known to be the resource's.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector.
    pub fields: FieldSelector,
}

// === impl Selection ===

impl Selection {
    /// All objects.
    pub fn everything() -> Self {
        Self { labels: LabelSelector::default(), fields: FieldSelector::everything() }
    }

    /// Whether an object is wanted.
    pub fn matches(&self, object: &Object) -> bool {
        let has_labels = self.labels.matches(|key| object.labels().get(key).map(String::as_str));
        has_labels
            && self.fields.requirements().iter().all(|term| {
                let value = object.field(&term.label).unwrap_or_default();
                term.operator.holds(value, &term.value)
            })
    }

    /// Whether no selector narrows the collection.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }
}
