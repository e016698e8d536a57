//! The grammar of `fieldSelector`, with upstream's errors. Nothing is trimmed: a space belongs to the label or value it
//! touches. The terms are read in the order of their text, so that decides which of several faults is told.

use std::fmt;

/// Terms that must all hold, as the client wrote them; none means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// One comparison of one field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRequirement {
    /// The label of the field, as the client wrote it.
    pub label: String,
    /// How it is compared.
    pub operator: FieldOperator,
    /// The value, without its escapes.
    pub value: String,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldOperator {
    /// `=` or `==`.
    Equals,
    /// `!=`.
    NotEquals,
}

/// Why a `fieldSelector` cannot be read; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldSelectorError {
    /// A term without an operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole selector.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash before something that needs none, or before nothing.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A character in a value that needs a backslash.
    #[error("invalid field selector: unescaped character in value: {0}")]
    Unescaped(u32),
}

// === impl FieldSelector ===

impl FieldSelector {
    /// The selector that every object satisfies.
    pub const fn everything() -> Self {
        Self { requirements: Vec::new() }
    }

    /// Reads the value of the parameter `fieldSelector`.
    pub fn parse(text: &str) -> Result<Self, FieldSelectorError> {
        let mut texts = split_terms(text);
        texts.sort_unstable();
        let mut terms = Vec::new();
        for term in texts.into_iter().filter(|term| !term.is_empty()) {
            let Some((label, operator, value)) = split_term(term) else {
                return Err(FieldSelectorError::Term { selector: text.to_owned(), term: term.to_owned() });
            };
            let value = unescape(value)?;
            // Upstream loses a term of nothing at all.
            if !(label.is_empty() && value.is_empty()) {
                terms.push(FieldRequirement { label: label.to_owned(), operator, value });
            }
        }
        Ok(Self { requirements: terms })
    }

    /// The objects whose field has this value.
    pub fn equals(label: &str, value: &str) -> Self {
        let term = FieldRequirement {
            label: label.to_owned(),
            operator: FieldOperator::Equals,
            value: value.to_owned(),
        };
        Self { requirements: vec![term] }
    }

    /// Whether every object satisfies it for want of terms.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The terms in the order of their text.
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// The first value that the field must have, if there is one.
    pub fn exact(&self, label: &str) -> Option<&str> {
        let is_exact =
            |term: &&FieldRequirement| term.label == label && term.operator == FieldOperator::Equals;
        self.requirements.iter().find(is_exact).map(|term| term.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    /// Upstream's canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            term.fmt(f)?;
        }
        Ok(())
    }
}

// === impl FieldRequirement ===

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, operator, value } = self;
        write!(f, "{label}{operator}")?;
        for character in value.chars() {
            if matches!(character, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{character}")?;
        }
        Ok(())
    }
}

// === impl FieldOperator ===

impl FieldOperator {
    /// Compares a field's value with a term's.
    pub fn holds(self, value: &str, wanted: &str) -> bool {
        match self {
            Self::Equals => value == wanted,
            Self::NotEquals => value != wanted,
        }
    }
}

impl fmt::Display for FieldOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equals => "=",
            Self::NotEquals => "!=",
        })
    }
}

/// Splits at each comma that no backslash stands before.
fn split_terms(text: &str) -> Vec<&str> {
    let mut is_escaped = false;
    text.split(|character| {
        let was_escaped = is_escaped;
        is_escaped = !was_escaped && character == '\\';
        character == ',' && !was_escaped
    })
    .collect()
}

/// Splits at the first operator.
fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    let equals = term.find('=')?;
    let (label, value) = (&term[..equals], &term[equals + 1..]);
    if let Some(label) = label.strip_suffix('!') {
        return Some((label, FieldOperator::NotEquals, value));
    }
    Some((label, FieldOperator::Equals, value.strip_prefix('=').unwrap_or(value)))
}

fn unescape(text: &str) -> Result<String, FieldSelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => escaped,
                Some(other) => return Err(FieldSelectorError::Escape(format!("\\{other}"))),
                None => return Err(FieldSelectorError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(u32::from(character))),
            plain => plain,
        };
        value.push(plain);
    }
    Ok(value)
}
