//! Finds where a string could end. memchr was rejected: it cannot look for control characters as well, and most strings of
//! an object are shorter than what a call of it costs.

/// The next quote, backslash or control character.
#[inline(always)]
pub(crate) fn find_special(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let hits = special_bytes(u64::from_le_bytes(*chunk));
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?;
    rest.iter().position(|&byte| byte == b'"' || byte == b'\\' || byte < b' ').map(|found| at + found)
}

/// Sets the high bit of the special bytes of a word. Only the lowest set bit is exact: a borrow runs upwards.
#[inline(always)]
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word;
    let quotes = zero_bytes(word ^ (ONES * b'"' as u64));
    let backslashes = zero_bytes(word ^ (ONES * b'\\' as u64));
    let controls = word.wrapping_sub(ONES * b' ' as u64) & !word;
    (quotes | backslashes | controls) & HIGH
}
