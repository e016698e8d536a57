//! What Go's standard library makes of text and says about it, as far as clients of the API see it. The messages are
//! part of the API: clients match on them.

use std::fmt::Write;

/// Why Go cannot read a number; the message names the function, as Go's does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.{function}: parsing {}: {fault}", quote(text))]
pub(crate) struct NumberError {
    function: &'static str,
    text: String,
    fault: NumberFault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NumberFault {
    #[error("invalid syntax")]
    Syntax,
    #[error("value out of range")]
    Range,
}

/// `strconv.ParseInt(text, 10, 64)`: one sign, then digits only.
pub(crate) fn parse_i64(text: &str) -> Result<i64, NumberError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    text.parse().map_err(|_| NumberError::new("ParseInt", text, digits))
}

/// `strconv.ParseUint(text, 10, 64)`: digits only.
pub(crate) fn parse_u64(text: &str) -> Result<u64, NumberError> {
    let number = if text.starts_with('+') { None } else { text.parse().ok() };
    number.ok_or_else(|| NumberError::new("ParseUint", text, text))
}

/// `strconv.Quote`.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        push_quoted(&mut quoted, character);
    }
    quoted.push('"');
    quoted
}

/// The quotes of Go's package `time`, which writes out the bytes of everything beyond ASCII.
pub(crate) fn quote_in_time(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=0x7f => quoted.push(char::from(byte)),
            _ => push_byte(&mut quoted, byte),
        }
    }
    quoted.push('"');
    quoted
}

// === impl NumberError ===

impl NumberError {
    fn new(function: &'static str, text: &str, digits: &str) -> Self {
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let fault = if is_number { NumberFault::Range } else { NumberFault::Syntax };
        Self { function, text: text.to_owned(), fault }
    }
}

fn push_quoted(quoted: &mut String, character: char) {
    let short = match character {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{b}' => "\\v",
        _ if is_printable(character) => return quoted.push(character),
        _ => return push_code(quoted, character),
    };
    quoted.push_str(short);
}

fn push_byte(quoted: &mut String, byte: u8) {
    write!(quoted, "\\x{byte:02x}").expect("writing to a String cannot fail");
}

fn push_code(quoted: &mut String, character: char) {
    let code = u32::from(character);
    let written = match code {
        0..=0x7f => write!(quoted, "\\x{code:02x}"),
        0x80..=0xffff => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
    written.expect("writing to a String cannot fail");
}

/// A mark is printable after a letter, and Go has no other opinion of it alone; so it is asked for after one.
fn is_printable(character: char) -> bool {
    if character.is_control() {
        return false;
    }
    let mut buffer = [0; 8];
    buffer[0] = b'a';
    let length = character.encode_utf8(&mut buffer[1..]).len();
    let pair = std::str::from_utf8(&buffer[..=length]).unwrap_or_default();
    !pair.escape_debug().skip(1).collect::<String>().starts_with("\\u{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        for (text, quoted) in [
            ("a'b", r#""a'b""#),
            ("\"\\\n\u{7}\u{b}\0\u{7f}", r#""\"\\\n\a\v\x00\x7f""#),
            ("é日\u{301}\u{a0}\u{200b}", "\"é日\u{301}\\u00a0\\u200b\""),
            ("\u{e0001}", r#""\U000e0001""#),
            ("\u{fffd}", "\"\u{fffd}\""),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn durations_are_quoted_byte_by_byte() {
        assert_eq!(quote_in_time("5\"µ\\\n\u{7f}"), "\"5\\\"\\xc2\\xb5\\\\\\x0a\u{7f}\"");
    }

    #[test]
    fn numbers_have_one_spelling() {
        assert_eq!(parse_i64("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(parse_i64("+5"), Ok(5));
        assert_eq!(parse_u64("007"), Ok(7));
        let message = |text| parse_u64(text).map_err(|error| error.to_string());
        assert_eq!(message("+1"), Err("strconv.ParseUint: parsing \"+1\": invalid syntax".into()));
        assert_eq!(
            message("18446744073709551616").unwrap_err().rsplit_once(": ").unwrap().1,
            "value out of range"
        );
        assert_eq!(parse_i64("-").unwrap_err().fault, NumberFault::Syntax);
    }
}
