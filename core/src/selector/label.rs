//! Label selectors as data. `=`, `==` and `in` are one operator here, and so are `!=` and `notin`: two selectors that
//! ask for the same are equal, so their watchers share one interest. A missing label satisfies `notin`.

use std::fmt;

use super::label_parser::{self, LabelSelectorError};

/// Requirements that must all hold; none means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Sorted, none twice.
    requirements: Vec<LabelRequirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelRequirement {
    key: String,
    operator: LabelOperator,
}

/// What a requirement asks of the value of its label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelOperator {
    /// Present, with one of these values; sorted, none twice, at least one.
    In(Vec<String>),
    /// Absent, or with another value than these; sorted, none twice, at least one.
    NotIn(Vec<String>),
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// Present, and a number above this one.
    GreaterThan(i64),
    /// Present, and a number below this one.
    LessThan(i64),
}

// === impl LabelSelector ===

impl LabelSelector {
    /// The selector that every object satisfies.
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// Reads the value of the parameter `labelSelector`.
    pub fn parse(text: &str) -> Result<Self, LabelSelectorError> {
        let mut requirements = label_parser::parse(text)?;
        requirements.sort();
        requirements.dedup();
        Ok(Self { requirements })
    }

    /// Whether every object satisfies it for want of requirements.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The requirements, by key.
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    /// Whether an object with these labels satisfies all requirements. Runs for every event and interest: no allocation.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.accepts(label(&requirement.key)))
    }

    /// The only value that the label may have, if there is one.
    pub fn exact(&self, key: &str) -> Option<&str> {
        self.requirements
            .iter()
            .filter(|requirement| requirement.key == key)
            .find_map(LabelRequirement::exact)
    }
}

impl fmt::Display for LabelSelector {
    /// The canonical form, which parses to an equal selector.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

// === impl LabelRequirement ===

impl LabelRequirement {
    pub(super) fn new(key: String, operator: LabelOperator) -> Self {
        Self { key, operator }
    }

    /// The key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is asked of its value.
    pub fn operator(&self) -> &LabelOperator {
        &self.operator
    }

    /// The only value that satisfies it, if there is one.
    pub fn exact(&self) -> Option<&str> {
        match &self.operator {
            LabelOperator::In(values) if values.len() == 1 => values.first().map(String::as_str),
            LabelOperator::In(_)
            | LabelOperator::NotIn(_)
            | LabelOperator::Exists
            | LabelOperator::DoesNotExist
            | LabelOperator::GreaterThan(_)
            | LabelOperator::LessThan(_) => None,
        }
    }

    /// Whether the label's value, `None` when the label is absent, satisfies it.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        match (&self.operator, value) {
            (LabelOperator::In(values), Some(value)) => holds(values, value),
            (LabelOperator::NotIn(values), Some(value)) => !holds(values, value),
            (LabelOperator::GreaterThan(bound), Some(value)) => is_number(value, |number| number > *bound),
            (LabelOperator::LessThan(bound), Some(value)) => is_number(value, |number| number < *bound),
            (LabelOperator::Exists, Some(_))
            | (LabelOperator::NotIn(_) | LabelOperator::DoesNotExist, None) => true,
            (LabelOperator::DoesNotExist, Some(_))
            | (
                LabelOperator::In(_)
                | LabelOperator::Exists
                | LabelOperator::GreaterThan(_)
                | LabelOperator::LessThan(_),
                None,
            ) => false,
        }
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator } = self;
        match operator {
            LabelOperator::In(values) => match values.as_slice() {
                [value] => write!(f, "{key}={value}"),
                values => write!(f, "{key} in ({})", values.join(",")),
            },
            LabelOperator::NotIn(values) => match values.as_slice() {
                [value] => write!(f, "{key}!={value}"),
                values => write!(f, "{key} notin ({})", values.join(",")),
            },
            LabelOperator::Exists => f.write_str(key),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            LabelOperator::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

fn holds(values: &[String], value: &str) -> bool {
    values.binary_search_by(|candidate| candidate.as_str().cmp(value)).is_ok()
}

fn is_number(value: &str, is_wanted: impl Fn(i64) -> bool) -> bool {
    value.parse().is_ok_and(is_wanted)
}
