//! A position in upstream's one log of changes. Two of them may be compared only within one history: after a restored
//! backup the same number means something else.

use std::fmt;
use std::str::FromStr;

/// A resourceVersion: base-10, 64 bits, shared by all resources of one upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(u64);

/// The text is not a base-10 unsigned 64-bit number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a resource version")]
pub struct NotAResourceVersion;

// === impl ResourceVersion ===

impl ResourceVersion {
    /// Before everything; the API's "any state". No object carries it.
    pub const ZERO: Self = Self(0);
    /// After everything that can be.
    pub const MAX: Self = Self(u64::MAX);

    /// The version with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, for encodings.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The next number; what a log whose last event is at `self` can carry next.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Whether this is the API's "any state".
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ResourceVersion {
    type Err = NotAResourceVersion;

    /// Digits only: no sign, no space, no underscore.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NotAResourceVersion);
        }
        text.parse().map(Self).map_err(|_| NotAResourceVersion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_digits_only() {
        assert_eq!("00".parse(), Ok(ResourceVersion::ZERO));
        assert_eq!("18446744073709551615".parse(), Ok(ResourceVersion::MAX));
        for bad in ["", "-1", "+1", " 1", "1 ", "1_0", "0x1", "18446744073709551616", "abc"] {
            assert_eq!(bad.parse::<ResourceVersion>(), Err(NotAResourceVersion), "{bad:?}");
        }
    }
}
