//! The one source of chance. All that looks random (uids, name suffixes, churn, fault plans) comes from a seed, so a
//! run repeats as long as the calls come in the same order.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// A stream of random values that a number determines.
#[derive(Debug, Clone)]
pub struct Seed(StdRng);

// === impl Seed ===

impl Seed {
    /// The stream of a number.
    pub fn new(number: u64) -> Self {
        Self(StdRng::seed_from_u64(number))
    }

    /// A number in `0..bound`; 0 for an empty range.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.0.random_range(0..bound) }
    }

    /// Whether something happens that happens in `percent` of all cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// One of several things.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// A uid in the form of a random (version 4) UUID.
    pub fn uid(&mut self) -> String {
        let bits: u128 = self.0.random();
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{bits:032x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Five characters, as the server appends to generateName.
    pub fn suffix(&mut self) -> String {
        self.text(5)
    }

    /// So many characters of the alphabet that the server uses.
    pub fn text(&mut self, length: usize) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length).map(|_| char::from(ALPHABET[self.below(ALPHABET.len())])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_version_4_and_repeat() {
        let (mut one, mut other) = (Seed::new(7), Seed::new(7));
        for _ in 0..100 {
            let uid = one.uid();
            assert_eq!(uid, other.uid());
            assert_eq!((uid.len(), &uid[14..15]), (36, "4"), "{uid}");
            assert!("89ab".contains(&uid[19..20]), "{uid}");
        }
    }
}
