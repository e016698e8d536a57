//! The characters that escapes stand for. Half of a surrogate pair is U+FFFD, and what follows it stays, as in Go; other
//! readers refuse it.

/// Replaces the escapes of a string whose grammar was checked.
pub(super) fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        let (character, length) = unescape_one(&rest[at..]);
        text.push(character);
        rest = &rest[at + length..];
    }
    text.push_str(rest);
    text
}

/// The character of the escape at the start of the text, and how many bytes it takes.
fn unescape_one(text: &str) -> (char, usize) {
    match text.as_bytes()[1] {
        b'b' => ('\u{8}', 2),
        b'f' => ('\u{c}', 2),
        b'n' => ('\n', 2),
        b'r' => ('\r', 2),
        b't' => ('\t', 2),
        b'u' => unescape_unicode(text),
        other => (char::from(other), 2),
    }
}

fn unescape_unicode(text: &str) -> (char, usize) {
    let first = hex_unit(text).expect("the grammar of escapes was checked");
    let pair = text.get(6..).filter(|next| next.starts_with("\\u")).and_then(hex_unit);
    let decode = |units: &[u16]| char::decode_utf16(units.iter().copied()).next().and_then(Result::ok);
    match pair.and_then(|second| decode(&[first, second])) {
        Some(character) if (0xd800..0xdc00).contains(&first) => (character, 12),
        _ => (decode(&[first]).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
    }
}

/// The four digits after `\u`.
fn hex_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.get(2..6)?, 16).ok()
}
