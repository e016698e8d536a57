//! The words of CEL. Of several words that could begin at one place the longest is meant: `r'0x0'` is a string and not
//! the name `r` before one. A backslash that begins no escape ends a string's chances of being one.

use std::fmt;

use super::cel::CelError;
use crate::go_text::quote;

/// A word of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Name(String),
    /// A name in back-ticks, which may be that of a member only.
    EscapedName(String),
    Text(String),
    /// A literal that is no text, with Go's name of its type.
    Other(&'static str),
    /// A number with Go's name of its type; whether it can be represented may depend on a minus before it.
    Number(&'static str, Number),
    Symbol(&'static str),
}

/// A number as it is written, without its sign.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Int(Option<u64>),
    Uint(Option<u64>),
    Double(f64),
}

/// Longer ones first.
const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
];

/// Names that an expression may not use, though members may have them.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether no expression may use the name.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// All words of the text.
pub(super) fn lex(text: &str) -> Result<Vec<Token>, CelError> {
    let mut tokens = Vec::new();
    let mut rest = skip_blank(text);
    while !rest.is_empty() {
        let (token, length) = lex_one(rest).unwrap_or_else(|| Err(CelError::Unknown(first_char(rest))))?;
        tokens.push(token);
        rest = skip_blank(rest.get(length..).unwrap_or_default());
    }
    Ok(tokens)
}

// === impl Token ===

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "'{name}'"),
            Self::EscapedName(name) => write!(f, "'`{name}`'"),
            Self::Text(text) => f.write_str(&quote(text)),
            Self::Other(type_name) | Self::Number(type_name, _) => write!(f, "literal of type {type_name}"),
            Self::Symbol(symbol) => write!(f, "'{symbol}'"),
        }
    }
}

// === impl Number ===

impl Number {
    /// Whether a minus before it belongs to it.
    pub(super) fn takes_minus(&self) -> bool {
        match self {
            Self::Int(_) | Self::Double(_) => true,
            Self::Uint(_) => false,
        }
    }

    /// Whether its type can hold it.
    pub(super) fn check(&self, is_negative: bool) -> Result<(), CelError> {
        let most = if is_negative { 1 << 63 } else { i64::MAX.unsigned_abs() };
        match self {
            Self::Int(number) if number.is_none_or(|number| number > most) => Err(CelError::Number("int")),
            Self::Uint(None) => Err(CelError::Number("uint")),
            Self::Double(number) if number.is_infinite() => Err(CelError::Number("double")),
            Self::Int(_) | Self::Uint(Some(_)) | Self::Double(_) => Ok(()),
        }
    }
}

fn lex_one(rest: &str) -> Option<Result<(Token, usize), CelError>> {
    if let Some(found) = lex_text(rest) {
        return Some(found);
    }
    let found = match rest.as_bytes() {
        [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => lex_name(rest),
        [b'0'..=b'9', ..] | [b'.', b'0'..=b'9', ..] => lex_number(rest),
        [b'`', ..] => lex_escaped_name(rest)?,
        _ => lex_symbol(rest)?,
    };
    Some(Ok(found))
}

/// Skips white space as CEL knows it, and comments.
fn skip_blank(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(['\t', ' ', '\r', '\n', '\u{c}']);
        match rest.strip_prefix("//") {
            Some(comment) => rest = comment.find('\n').map_or("", |end| &comment[end..]),
            None => return rest,
        }
    }
}

fn lex_symbol(rest: &str) -> Option<(Token, usize)> {
    SYMBOLS
        .into_iter()
        .find(|symbol| rest.starts_with(symbol))
        .map(|symbol| (Token::Symbol(symbol), symbol.len()))
}

fn lex_name(rest: &str) -> (Token, usize) {
    let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let token = match &rest[..length] {
        "in" => Token::Symbol("in"),
        "true" | "false" => Token::Other("bool"),
        "null" => Token::Other("structpb.NullValue"),
        name => Token::Name(name.to_owned()),
    };
    (token, length)
}

fn lex_escaped_name(rest: &str) -> Option<(Token, usize)> {
    let (name, _) = rest.strip_prefix('`')?.split_once('`')?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
    if name.is_empty() || !name.chars().all(is_allowed) {
        return None;
    }
    Some((Token::EscapedName(name.to_owned()), name.len() + 2))
}

fn lex_number(rest: &str) -> (Token, usize) {
    let hex = rest.strip_prefix("0x").map_or("", |after| digits(after, 16));
    if !hex.is_empty() {
        return integer(rest, 2 + hex.len(), u64::from_str_radix(hex, 16).ok());
    }
    let whole = digits(rest, 10);
    let after = &rest[whole.len()..];
    let fraction = after.strip_prefix('.').map_or("", |after| digits(after, 10));
    let fraction_length = if fraction.is_empty() { 0 } else { 1 + fraction.len() };
    let exponent_length = exponent_length(&after[fraction_length..]);
    let length = whole.len() + fraction_length + exponent_length;
    if fraction_length + exponent_length == 0 {
        return integer(rest, length, whole.parse().ok());
    }
    let number = rest[..length].parse().unwrap_or(f64::INFINITY);
    (Token::Number("float64", Number::Double(number)), length)
}

fn integer(rest: &str, length: usize, number: Option<u64>) -> (Token, usize) {
    if rest[length..].starts_with(['u', 'U']) {
        return (Token::Number("uint64", Number::Uint(number)), length + 1);
    }
    (Token::Number("int64", Number::Int(number)), length)
}

fn digits(text: &str, radix: u32) -> &str {
    &text[..text.find(|c: char| !c.is_digit(radix)).unwrap_or(text.len())]
}

fn exponent_length(text: &str) -> usize {
    let Some(after) = text.strip_prefix(['e', 'E']) else { return 0 };
    let unsigned = after.strip_prefix(['+', '-']).unwrap_or(after);
    let count = digits(unsigned, 10).len();
    if count == 0 { 0 } else { text.len() - unsigned.len() + count }
}

/// A string or bytes literal, if one begins here and ends.
fn lex_text(rest: &str) -> Option<Result<(Token, usize), CelError>> {
    let unprefixed = rest.strip_prefix(['b', 'B']).unwrap_or(rest);
    let is_bytes = unprefixed.len() < rest.len();
    let quoted = unprefixed.strip_prefix(['r', 'R']).unwrap_or(unprefixed);
    let is_raw = quoted.len() < unprefixed.len();
    let body_length = ["'''", "\"\"\"", "'", "\""].into_iter().find_map(|quote| {
        let body = quoted.strip_prefix(quote)?;
        find_end(body, quote, is_raw).map(|end| (quote, end))
    });
    let (quote, end) = body_length?;
    let body = &quoted[quote.len()..quote.len() + end];
    let length = rest.len() - quoted.len() + quote.len() * 2 + end;
    if is_bytes {
        // Its value is never looked at, but some escapes of text are none of bytes.
        let found = if !is_raw && has_text_escape(body) {
            Err(CelError::Escape)
        } else {
            Ok((Token::Other("[]uint8"), length))
        };
        return Some(found);
    }
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let value = if is_raw { Some(body) } else { unescape(&body) };
    Some(value.map(|value| (Token::Text(value), length)).ok_or(CelError::Escape))
}

/// Where the closing quote stands, if every character up to it is allowed.
fn find_end(body: &str, quote: &str, is_raw: bool) -> Option<usize> {
    let is_short = quote.len() == 1;
    let mut at = 0;
    loop {
        let rest = body.get(at..)?;
        if rest.starts_with(quote) {
            return Some(at);
        }
        at += match rest.chars().next()? {
            '\\' if !is_raw => escape_length(rest)?,
            '\n' | '\r' if is_short => return None,
            character => character.len_utf8(),
        };
    }
}

/// The length of the escape at the start of `rest`, backslash included.
fn escape_length(rest: &str) -> Option<usize> {
    let length = match rest.as_bytes().get(1)? {
        b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`' => {
            return Some(2);
        }
        b'x' | b'X' => 4,
        b'u' => 6,
        b'U' => 10,
        b'0'..=b'3' => {
            let octal = rest.as_bytes().get(2..4)?;
            return octal.iter().all(|digit| matches!(digit, b'0'..=b'7')).then_some(4);
        }
        _ => return None,
    };
    rest.as_bytes().get(2..length)?.iter().all(u8::is_ascii_hexdigit).then_some(length)
}

/// `None` for a code that is no character.
fn unescape(body: &str) -> Option<String> {
    let mut value = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = escape_length(rest)?;
        value.push(escaped(&rest[1..length])?);
        rest = &rest[length..];
    }
    value.push_str(rest);
    Some(value)
}

/// The character of an escape without its backslash.
fn escaped(code: &str) -> Option<char> {
    let simple = match code.as_bytes() {
        [b'a'] => '\u{7}',
        [b'b'] => '\u{8}',
        [b'f'] => '\u{c}',
        [b'n'] => '\n',
        [b'r'] => '\r',
        [b't'] => '\t',
        [b'v'] => '\u{b}',
        [b'0'..=b'3', ..] => return char::from_u32(u32::from_str_radix(code, 8).ok()?),
        [b'x' | b'X' | b'u' | b'U', ..] => return char::from_u32(u32::from_str_radix(&code[1..], 16).ok()?),
        _ => return code.chars().next(),
    };
    Some(simple)
}

/// Whether `\u` or `\U` is among the escapes.
fn has_text_escape(body: &str) -> bool {
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        rest = &rest[at..];
        if rest[1..].starts_with(['u', 'U']) {
            return true;
        }
        rest = rest.get(escape_length(rest).unwrap_or(rest.len())..).unwrap_or_default();
    }
    false
}

fn first_char(text: &str) -> char {
    text.chars().next().unwrap_or_default()
}
