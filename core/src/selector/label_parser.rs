//! The grammar of `labelSelector`, with upstream's errors. White space only separates words, `in` and `notin` are
//! operators only where one may stand, and a NUL ends a word, or the whole selector where a word would begin.

use super::label::{LabelOperator, LabelRequirement};
use super::label_syntax;
use crate::go_text::{self, quote};

/// Why a `labelSelector` cannot be read; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorError {
    /// Neither a requirement nor the end.
    #[error("found '{found}', expected: !, identifier, or 'end of string'")]
    Start {
        /// The word that stands there.
        found: String,
    },
    /// A comma that no requirement follows.
    #[error("found '{found}', expected: identifier after ','")]
    AfterComma {
        /// The word that stands there.
        found: String,
    },
    /// A requirement that goes on where it should be over.
    #[error("found '{found}', expected: ',' or 'end of string'")]
    AfterRequirement {
        /// The word that stands there.
        found: String,
    },
    /// A fault inside a requirement.
    #[error("unable to parse requirement: {0}")]
    Requirement(#[from] RequirementError),
}

/// Why one requirement cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// No key or value where one should be.
    #[error("found '{found}', expected: identifier")]
    Word {
        /// The word that stands there.
        found: String,
    },
    /// No operator after the key.
    #[error("found '{found}', expected: in, notin, =, ==, !=, gt, lt")]
    Operator {
        /// The word that stands there.
        found: String,
    },
    /// No list after `in` or `notin`.
    #[error("found '{found}' expected: '('")]
    List {
        /// The word that stands there.
        found: String,
    },
    /// A list that begins with neither a value nor its end.
    #[error("found '{found}', expected: ',', ')' or identifier")]
    ListStart {
        /// The word that stands there.
        found: String,
    },
    /// A list that neither goes on nor ends after a value.
    #[error("found '{found}', expected: ',' or ')'")]
    AfterListed {
        /// The word that stands there.
        found: String,
    },
    /// A list that breaks off after a comma.
    #[error("found '{found}', expected: ',', or identifier")]
    Listed {
        /// The word that stands there.
        found: String,
    },
    /// A key that no label can have.
    #[error("<nil>: Invalid value: {}: {faults}", quote(key))]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        faults: String,
    },
    /// Values that no label can have, or that are no numbers where one is needed.
    #[error("{}", join(.0))]
    Values(Vec<RequirementFault>),
}

/// One fault of one value of a requirement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementFault {
    /// The value is compared as a number and is none.
    #[error(
        "values[{index}]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
        quote(value)
    )]
    Number {
        /// Its place among the sorted values.
        index: usize,
        /// The value.
        value: String,
    },
    /// No label can have this value.
    #[error("values[{index}][{key}]: Invalid value: {}: {faults}", quote(value))]
    Value {
        /// Its place among the sorted values.
        index: usize,
        /// The key of the requirement.
        key: String,
        /// The value.
        value: String,
        /// What is wrong with it.
        faults: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Word,
    Comma,
    Open,
    Close,
    Not,
    Operator(Operator),
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equals,
    NotEquals,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}

struct Parser<'a> {
    rest: &'a str,
    next: (Token, &'a str),
}

/// Reads all requirements, in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<LabelRequirement>, LabelSelectorError> {
    let mut parser = Parser { rest: text, next: (Token::End, "") };
    parser.advance();
    let mut requirements = Vec::new();
    loop {
        match parser.peek_word() {
            (Token::Word | Token::Not, _) => requirements.push(parser.requirement()?),
            (Token::End, _) => return Ok(requirements),
            (_, found) => return Err(LabelSelectorError::Start { found: found.to_owned() }),
        }
        match parser.take_word() {
            (Token::End, _) => return Ok(requirements),
            (Token::Comma, _) => parser.expect_requirement()?,
            (_, found) => return Err(LabelSelectorError::AfterRequirement { found: found.to_owned() }),
        }
    }
}

// === impl Parser ===

impl<'a> Parser<'a> {
    fn requirement(&mut self) -> Result<LabelRequirement, RequirementError> {
        let is_negated = self.next.0 == Token::Not;
        if is_negated {
            self.advance();
        }
        let key = self.word()?.to_owned();
        label_syntax::check_key(&key).map_err(|faults| RequirementError::Key { key: key.clone(), faults })?;
        if is_negated {
            return Ok(LabelRequirement::new(key, LabelOperator::DoesNotExist));
        }
        if matches!(self.next.0, Token::End | Token::Comma) {
            return Ok(LabelRequirement::new(key, LabelOperator::Exists));
        }
        let operator = self.operator()?;
        let mut values = match operator {
            Operator::In | Operator::NotIn => self.list()?,
            Operator::Equals | Operator::NotEquals | Operator::GreaterThan | Operator::LessThan => {
                vec![self.value()?]
            }
        };
        values.sort_unstable();
        values.dedup();
        let values = values.into_iter().map(str::to_owned).collect();
        let operator = complete(&key, operator, values)?;
        Ok(LabelRequirement::new(key, operator))
    }

    fn operator(&mut self) -> Result<Operator, RequirementError> {
        match self.take() {
            (Token::Operator(operator), _) => Ok(operator),
            (_, found) => Err(RequirementError::Operator { found: found.to_owned() }),
        }
    }

    fn word(&mut self) -> Result<&'a str, RequirementError> {
        match self.take_word() {
            (Token::Word, word) => Ok(word),
            (_, found) => Err(RequirementError::Word { found: found.to_owned() }),
        }
    }

    /// The one value after an operator; nothing is the empty value.
    fn value(&mut self) -> Result<&'a str, RequirementError> {
        if matches!(self.next.0, Token::End | Token::Comma) { Ok("") } else { self.word() }
    }

    /// The values in parentheses. Two commas in a row, or one at an end, hold the empty value between them.
    fn list(&mut self) -> Result<Vec<&'a str>, RequirementError> {
        match self.take_word() {
            (Token::Open, _) => {}
            (_, found) => return Err(RequirementError::List { found: found.to_owned() }),
        }
        match self.peek_word() {
            (Token::Word | Token::Comma, _) => self.listed(),
            (Token::Close, _) => {
                self.advance();
                Ok(vec![""])
            }
            (_, found) => Err(RequirementError::ListStart { found: found.to_owned() }),
        }
    }

    fn listed(&mut self) -> Result<Vec<&'a str>, RequirementError> {
        let mut values = Vec::new();
        loop {
            match self.take_word() {
                (Token::Word, word) => {
                    values.push(word);
                    match self.peek_word() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => break,
                        (_, found) => return Err(RequirementError::AfterListed { found: found.to_owned() }),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() || matches!(self.next.0, Token::Close | Token::Comma) {
                        values.push("");
                    }
                    if self.next.0 == Token::Close {
                        break;
                    }
                }
                (_, found) => return Err(RequirementError::Listed { found: found.to_owned() }),
            }
        }
        self.advance();
        Ok(values)
    }

    fn expect_requirement(&self) -> Result<(), LabelSelectorError> {
        match self.peek_word() {
            (Token::Word | Token::Not, _) => Ok(()),
            (_, found) => Err(LabelSelectorError::AfterComma { found: found.to_owned() }),
        }
    }

    /// The next token where a key or value may stand: `in` and `notin` are words there.
    fn peek_word(&self) -> (Token, &'a str) {
        match self.next {
            (Token::Operator(Operator::In | Operator::NotIn), word) => (Token::Word, word),
            next => next,
        }
    }

    fn take_word(&mut self) -> (Token, &'a str) {
        let next = self.peek_word();
        self.advance();
        next
    }

    fn take(&mut self) -> (Token, &'a str) {
        let next = self.next;
        self.advance();
        next
    }

    /// Reads one token. The end stays the end, whatever follows a NUL.
    fn advance(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let (token, length) = lex(self.rest);
        let (literal, rest) = self.rest.split_at(length);
        self.next = (token, literal);
        self.rest = if token == Token::End { "" } else { rest.strip_prefix('\0').unwrap_or(rest) };
    }
}

/// The token at the start of `rest`, which doesn't begin with white space, and its length.
fn lex(rest: &str) -> (Token, usize) {
    let token = match rest.as_bytes() {
        [] | [0, ..] => return (Token::End, 0),
        [b'=', b'=', ..] => return (Token::Operator(Operator::Equals), 2),
        [b'!', b'=', ..] => return (Token::Operator(Operator::NotEquals), 2),
        [b'=', ..] => Token::Operator(Operator::Equals),
        [b'>', ..] => Token::Operator(Operator::GreaterThan),
        [b'<', ..] => Token::Operator(Operator::LessThan),
        [b'!', ..] => Token::Not,
        [b',', ..] => Token::Comma,
        [b'(', ..] => Token::Open,
        [b')', ..] => Token::Close,
        _ => return lex_word(rest),
    };
    (token, 1)
}

fn lex_word(rest: &str) -> (Token, usize) {
    let ends = ['=', '!', '(', ')', ',', '>', '<', ' ', '\t', '\r', '\n', '\0'];
    let length = rest.find(ends).unwrap_or(rest.len());
    let token = match &rest[..length] {
        "in" => Token::Operator(Operator::In),
        "notin" => Token::Operator(Operator::NotIn),
        _ => Token::Word,
    };
    (token, length)
}

/// Checks the values against the operator and joins them.
fn complete(key: &str, operator: Operator, values: Vec<String>) -> Result<LabelOperator, RequirementError> {
    let is_order = matches!(operator, Operator::GreaterThan | Operator::LessThan);
    let mut bound = 0;
    let mut faults = Vec::new();
    for (index, value) in values.iter().enumerate().filter(|_| is_order) {
        match go_text::parse_i64(value) {
            Ok(number) => bound = number,
            Err(_) => faults.push(RequirementFault::Number { index, value: value.clone() }),
        }
    }
    for (index, value) in values.iter().enumerate() {
        if let Err(words) = label_syntax::check_value(value) {
            let (key, value) = (key.to_owned(), value.clone());
            faults.push(RequirementFault::Value { index, key, value, faults: words });
        }
    }
    if !faults.is_empty() {
        return Err(RequirementError::Values(faults));
    }
    Ok(match operator {
        Operator::Equals | Operator::In => LabelOperator::In(values),
        Operator::NotEquals | Operator::NotIn => LabelOperator::NotIn(values),
        Operator::GreaterThan => LabelOperator::GreaterThan(bound),
        Operator::LessThan => LabelOperator::LessThan(bound),
    })
}

/// One fault stands alone, several stand in brackets.
fn join(faults: &[RequirementFault]) -> String {
    let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
    if let [text] = texts.as_slice() { text.clone() } else { format!("[{}]", texts.join(", ")) }
}
