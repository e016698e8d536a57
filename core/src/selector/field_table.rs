//! Which fields a resource can be selected by at one version, and where they stand in its objects. A label that upstream
//! accepts is not always one that it sets; such a field has the empty value in every object.

use super::builtin_fields::{self, BuiltIn};
use super::field::{FieldOperator, FieldRequirement, FieldSelector};
use crate::go_text::quote;
use crate::interest::{FieldTarget, FieldTerm};
use crate::resource::GroupVersionResource;
use crate::status::Status;

const NAME: &str = "metadata.name";
const NAMESPACE: &str = "metadata.namespace";

/// The fields of one resource at one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTable {
    labels: Vec<Label>,
    fields: Vec<SelectableField>,
    refusal: Refusal,
    group_version: String,
}

/// A place in an object that selectors look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The label in selectors; the first one where two mean the same.
    pub label: String,
    /// The keys from the top of the object down.
    pub path: Vec<String>,
    /// How upstream writes its value.
    pub value: FieldValue,
}

/// How the value of a field comes to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// As it is; missing is empty.
    Written,
    /// `true`, or else `false`, which is usually left out.
    Boolean,
    /// A number that is left out when it is 0.
    NonZero,
}

/// What the definition of a custom resource says about selecting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomFields {
    /// Whether its objects live in namespaces.
    pub is_namespaced: bool,
    /// `selectableFields[].jsonPath` of the version, for example `.spec.color`.
    pub json_paths: Vec<String>,
}

/// A label that the resource cannot be selected by; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldLabelError {
    /// The kinds that select by name and namespace only.
    #[error("{} is not a known field selector: only \"{NAME}\", \"{NAMESPACE}\"", quote(.0))]
    Unknown(String),
    /// The other kinds, and custom resources.
    #[error("field label not supported: {0}")]
    Plain(String),
    /// Jobs.
    #[error("field label {} not supported for Job", quote(.0))]
    Job(String),
    /// Resource slices.
    #[error("field label not supported for {group_version}, Kind=ResourceSlice: {label}")]
    ResourceSlice {
        /// The group and version asked for.
        group_version: String,
        /// The label.
        label: String,
    },
}

/// Which of upstream's sentences refuses a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Unknown,
    Plain,
    Job,
    ResourceSlice,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    text: String,
    target: FieldTarget,
    value: FieldValue,
}

// === impl FieldTable ===

impl FieldTable {
    /// The table of a resource; `custom` for one that a definition made. `None` for events, whose fields cannot be told
    /// from single places in the object: they must be passed through.
    pub fn of(resource: &GroupVersionResource, custom: Option<&CustomFields>) -> Option<Self> {
        if let Some(custom) = custom {
            return Some(Self::of_custom(resource, custom));
        }
        if builtin_fields::is_beyond_paths(&resource.group, &resource.resource) {
            return None;
        }
        let built_in = builtin_fields::find(&resource.group, &resource.resource);
        Some(built_in.map_or_else(
            || Self::new(resource, Refusal::Unknown, true),
            |entry| Self::of_built_in(resource, entry),
        ))
    }

    /// The table of no resource in particular: name and namespace only.
    pub fn bare() -> Self {
        Self::new(&GroupVersionResource::new("", "", ""), Refusal::Plain, true)
    }

    /// The places that selectors look at. Their order is that of [`FieldTarget::Field`].
    pub fn fields(&self) -> &[SelectableField] {
        &self.fields
    }

    /// Puts targets for the labels of a selector. The terms come out sorted, none twice, so equal ones ask for the same.
    pub fn resolve(&self, selector: &FieldSelector) -> Result<Vec<FieldTerm>, FieldLabelError> {
        let mut terms =
            selector.requirements().iter().map(|term| self.term(term)).collect::<Result<Vec<_>, _>>()?;
        let place = |target: FieldTarget| match target {
            FieldTarget::Name => (0, 0),
            FieldTarget::Namespace => (1, 0),
            FieldTarget::Field(index) => (2, index),
            FieldTarget::NeverSet => (3, 0),
        };
        terms.sort_by(|a, b| {
            (place(a.target), a.is_negated, &a.value).cmp(&(place(b.target), b.is_negated, &b.value))
        });
        terms.dedup();
        Ok(terms)
    }

    fn new(resource: &GroupVersionResource, refusal: Refusal, has_namespace: bool) -> Self {
        let mut table =
            Self { labels: Vec::new(), fields: Vec::new(), refusal, group_version: resource.api_version() };
        table.push_label(NAME, FieldTarget::Name, FieldValue::Written);
        if has_namespace {
            table.push_label(NAMESPACE, FieldTarget::Namespace, FieldValue::Written);
        }
        table
    }

    fn of_built_in(resource: &GroupVersionResource, entry: &BuiltIn) -> Self {
        let mut table = Self::new(resource, entry.refusal, entry.has_namespace);
        for field in entry.fields {
            match field.path {
                Some(path) => table.push_field(field.label, path, field.value),
                None => table.push_label(field.label, FieldTarget::NeverSet, field.value),
            }
        }
        table
    }

    fn of_custom(resource: &GroupVersionResource, custom: &CustomFields) -> Self {
        let mut table = Self::new(resource, Refusal::Plain, custom.is_namespaced);
        for json_path in &custom.json_paths {
            let label = json_path.strip_prefix('.').unwrap_or(json_path);
            let path: Vec<&str> = label.split('.').collect();
            table.push_field(label, &path, FieldValue::Written);
        }
        table
    }

    /// Two labels of one path share the field.
    fn push_field(&mut self, label: &str, path: &[&str], value: FieldValue) {
        let index = self.fields.iter().position(|field| field.path == path).unwrap_or_else(|| {
            let path = path.iter().map(|&key| key.to_owned()).collect();
            self.fields.push(SelectableField { label: label.to_owned(), path, value });
            self.fields.len() - 1
        });
        self.push_label(label, FieldTarget::Field(index), value);
    }

    /// The first meaning of a label stands.
    fn push_label(&mut self, label: &str, target: FieldTarget, value: FieldValue) {
        if self.label(label).is_none() {
            self.labels.push(Label { text: label.to_owned(), target, value });
        }
    }

    fn label(&self, text: &str) -> Option<&Label> {
        self.labels.iter().find(|label| label.text == text)
    }

    fn term(&self, requirement: &FieldRequirement) -> Result<FieldTerm, FieldLabelError> {
        let Some(label) = self.label(&requirement.label) else {
            return Err(self.refuse(&requirement.label));
        };
        let is_negated = requirement.operator == FieldOperator::NotEquals;
        Ok(label.value.term(label.target, is_negated, &requirement.value))
    }

    fn refuse(&self, label: &str) -> FieldLabelError {
        let label = label.to_owned();
        match self.refusal {
            Refusal::Unknown => FieldLabelError::Unknown(label),
            Refusal::Plain => FieldLabelError::Plain(label),
            Refusal::Job => FieldLabelError::Job(label),
            Refusal::ResourceSlice => {
                FieldLabelError::ResourceSlice { group_version: self.group_version.clone(), label }
            }
        }
    }
}

// === impl FieldValue ===

impl FieldValue {
    /// The term that asks the same of the text in the object, where a value may be left out.
    fn term(self, target: FieldTarget, is_negated: bool, value: &str) -> FieldTerm {
        let term = |target, is_negated, value: &str| FieldTerm { target, is_negated, value: value.into() };
        match (self, value) {
            (Self::Written, value) | (Self::Boolean, value @ "true") => term(target, is_negated, value),
            (Self::Boolean, "false") => term(target, !is_negated, "true"),
            (Self::NonZero, "0") => term(target, is_negated, ""),
            (Self::NonZero, value) if !value.is_empty() => term(target, is_negated, value),
            // No object has such a value.
            (Self::Boolean | Self::NonZero, _) => term(FieldTarget::NeverSet, is_negated, "never"),
        }
    }
}

// === impl FieldLabelError ===

impl From<FieldLabelError> for Status {
    fn from(error: FieldLabelError) -> Self {
        Self::bad_request(error.to_string())
    }
}
