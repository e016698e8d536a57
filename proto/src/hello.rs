//! Which protocol two processes speak. Both name a range and take the newest in both; processes of different versions
//! work side by side as long as their ranges touch. What a peer doesn't know it ignores, so everything that a peer must
//! not ignore needs a protocol of its own.

use crate::error::ProtocolError;
use crate::wire;

/// A version of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(u32);

/// The protocols that a process speaks, both bounds inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spoken {
    oldest: Protocol,
    newest: Protocol,
}

// === impl Protocol ===

impl Protocol {
    /// The first one.
    pub const V1: Self = Self(1);

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

// === impl Spoken ===

impl Spoken {
    /// What this process speaks.
    pub const OURS: Self = Self { oldest: Protocol::V1, newest: Protocol::V1 };

    /// A range, for a process of another version; `None` unless 1 ≤ `oldest` ≤ `newest`.
    pub const fn new(oldest: u32, newest: u32) -> Option<Self> {
        if 1 <= oldest && oldest <= newest {
            Some(Self { oldest: Protocol(oldest), newest: Protocol(newest) })
        } else {
            None
        }
    }

    /// The newest protocol that both speak.
    pub fn agree(self, theirs: Self) -> Result<Protocol, ProtocolError> {
        let newest = self.newest.min(theirs.newest);
        if newest < self.oldest.max(theirs.oldest) {
            return Err(ProtocolError::Version { oldest: theirs.oldest.0, newest: theirs.newest.0 });
        }
        Ok(newest)
    }

    /// The protocol that a peer has chosen out of this range.
    pub(crate) fn chosen(self, number: u32) -> Result<Protocol, ProtocolError> {
        match Self::new(number, number) {
            Some(theirs) => self.agree(theirs),
            None => Err(ProtocolError::Missing("protocol")),
        }
    }

    /// The greeting of this process.
    pub(crate) fn hello(self) -> wire::Hello {
        wire::Hello { oldest: self.oldest.0, newest: self.newest.0 }
    }
}

impl TryFrom<wire::Hello> for Spoken {
    type Error = ProtocolError;

    fn try_from(hello: wire::Hello) -> Result<Self, ProtocolError> {
        Self::new(hello.oldest, hello.newest).ok_or(ProtocolError::Invalid("hello"))
    }
}

/// Reads the greeting of a request whose answer is the same in every protocol.
pub(crate) fn greeted(hello: Option<wire::Hello>) -> Result<Protocol, ProtocolError> {
    let theirs = hello.ok_or(ProtocolError::Missing("hello"))?;
    Spoken::OURS.agree(theirs.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(oldest: u32, newest: u32) -> Spoken {
        Spoken::new(oldest, newest).unwrap()
    }

    #[test]
    fn peers_take_the_newest_that_both_speak() {
        for (ours, theirs, agreed) in [
            (spoken(1, 1), spoken(1, 1), Ok(1)),
            (spoken(1, 1), spoken(1, 3), Ok(1)),
            (spoken(2, 4), spoken(1, 3), Ok(3)),
            (spoken(2, 4), spoken(4, 9), Ok(4)),
            (spoken(2, 4), spoken(1, 1), Err(ProtocolError::Version { oldest: 1, newest: 1 })),
            (spoken(1, 2), spoken(3, 4), Err(ProtocolError::Version { oldest: 3, newest: 4 })),
        ] {
            assert_eq!(ours.agree(theirs).map(Protocol::number), agreed, "{ours:?} {theirs:?}");
            assert_eq!(theirs.agree(ours).is_ok(), agreed.is_ok(), "both ends come to the same");
        }
    }

    #[test]
    fn a_greeting_names_a_range() {
        for (oldest, newest) in [(0, 0), (0, 1), (2, 1)] {
            let hello = wire::Hello { oldest, newest };
            assert_eq!(Spoken::try_from(hello), Err(ProtocolError::Invalid("hello")));
        }
        assert_eq!(greeted(None), Err(ProtocolError::Missing("hello")));
        assert_eq!(greeted(Some(wire::Hello { oldest: 1, newest: 9 })), Ok(Protocol::V1));
        assert!(matches!(
            greeted(Some(wire::Hello { oldest: 2, newest: 9 })),
            Err(ProtocolError::Version { .. })
        ));
    }

    #[test]
    fn a_choice_outside_of_the_range_is_refused() {
        assert_eq!(Spoken::OURS.chosen(1), Ok(Protocol::V1));
        assert_eq!(Spoken::OURS.chosen(0), Err(ProtocolError::Missing("protocol")));
        assert!(matches!(Spoken::OURS.chosen(2), Err(ProtocolError::Version { .. })));
    }
}
