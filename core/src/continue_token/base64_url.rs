//! URL-safe base64 without padding, read as Go reads it: line breaks are skipped and the spare bits of the last
//! character count for nothing. The base64 crate refuses both and counts the position of an error differently.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Writes.
pub(super) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads; the error is the position that Go names.
pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut group, mut count) = (0_u32, 0);
    for (at, &character) in text.iter().enumerate() {
        if matches!(character, b'\r' | b'\n') {
            continue;
        }
        group = group << 6 | value(character).ok_or(at)?;
        count += 1;
        if count == 4 {
            bytes.extend_from_slice(&group.to_be_bytes()[1..]);
            (group, count) = (0, 0);
        }
    }
    match count {
        0 => {}
        1 => return Err(text.len() - 1),
        _ => bytes.extend_from_slice(&(group << (6 * (4 - count))).to_be_bytes()[1..count]),
    }
    Ok(bytes)
}

fn value(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(value.into())
}
