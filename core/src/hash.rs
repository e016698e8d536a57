//! FNV-1a over the bytes of a uid or namespace, and what a client's shardSelector asks for: half-open ranges of that
//! hash. A range is a filter chosen by a client and may lie anywhere; how weir itself cuts the space is [`SlotSet`].
//!
//! [`SlotSet`]: crate::slot::SlotSet

use std::fmt;
use std::hash::Hasher;

use crate::slot::{Slot, SlotSet};

/// FNV-1a, 64 bits, of the bytes as they are stored: no folding, no terminator.
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

/// A half-open range of hashes; its end may be 2^64, beyond every hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HashRange {
    first: u64,
    last: u64,
}

/// The start of a range is not below its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the start of a hash range must be less than its end")]
pub struct EmptyRange;

// === impl HashRange ===

impl HashRange {
    /// Every hash.
    pub const ALL: Self = Self { first: 0, last: u64::MAX };
    /// 2^64, the only end that is no hash.
    pub const END: u128 = 1 << 64;

    /// `start` inclusive, `end` exclusive and at most 2^64.
    pub fn new(start: u128, end: u128) -> Result<Self, EmptyRange> {
        if start >= end || end > Self::END {
            return Err(EmptyRange);
        }
        let first = u64::try_from(start).map_err(|_| EmptyRange)?;
        let last = u64::try_from(end - 1).map_err(|_| EmptyRange)?;
        Ok(Self { first, last })
    }

    /// The inclusive start.
    pub const fn start(self) -> u64 {
        self.first
    }

    /// The exclusive end, up to 2^64.
    pub const fn end(self) -> u128 {
        self.last as u128 + 1
    }

    /// Whether `hash` lies in the range.
    pub const fn contains(self, hash: u64) -> bool {
        self.first <= hash && hash <= self.last
    }

    /// The slots that the range touches, wholly or in part.
    pub fn slots(self) -> SlotSet {
        SlotSet::run(Slot::of(self.first), Slot::of(self.last))
    }
}

impl fmt::Display for HashRange {
    /// `[0x…, 0x…)` in the digits of the shardSelector grammar.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#018x}, {:#018x})", self.first, self.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_hashes() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
            ("default", 0xebad_a516_8620_c5fe),
            ("00000000-0000-0000-0000-000000000000", 0x7c38_4c62_18f2_99f1),
            ("ünïcödé", 0x4529_e64c_29e5_69d2),
        ] {
            assert_eq!(fnv1a64(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn bounds_are_half_open_up_to_two_to_the_64() {
        let upper = HashRange::new(1 << 63, HashRange::END).unwrap();
        assert!(upper.contains(u64::MAX) && upper.contains(1 << 63) && !upper.contains((1 << 63) - 1));
        assert_eq!(upper.slots(), SlotSet::run(Slot::new(128), Slot::new(255)));
        assert_eq!(HashRange::new(5, 5), Err(EmptyRange));
        assert_eq!(HashRange::new(HashRange::END, HashRange::END + 1), Err(EmptyRange));
    }
}
