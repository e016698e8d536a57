//! How weir cuts the hash space: 256 equal slots, of which a shard is a set. Slots are never split or joined, so a
//! change of the number of shards only moves slots.

use std::fmt;

use crate::hash::fnv1a64;

/// One of the 256 equal parts of the hash space: the top eight bits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

/// A set of slots, as a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SlotSet([u64; 4]);

// === impl Slot ===

impl Slot {
    /// How many there are.
    pub const COUNT: usize = 256;

    /// The slot with this number.
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The slot of a hash.
    pub const fn of(hash: u64) -> Self {
        Self((hash >> 56) as u8)
    }

    /// The slot of a uid.
    pub fn of_uid(uid: &str) -> Self {
        Self::of(fnv1a64(uid.as_bytes()))
    }
}

// === impl SlotSet ===

impl SlotSet {
    /// No slot.
    pub const EMPTY: Self = Self([0; 4]);
    /// The whole space.
    pub const ALL: Self = Self([u64::MAX; 4]);
    /// How many bytes it takes as bits.
    pub const BYTES: usize = Slot::COUNT / 8;

    /// From `first` to `last`, both inclusive; empty if `last` is below `first`.
    pub fn run(first: Slot, last: Slot) -> Self {
        let mut set = Self::EMPTY;
        for number in first.0..=last.0 {
            set.insert(Slot(number));
        }
        set
    }

    /// The contiguous run of shard `index` of `count` equal shards; `count` is at most 256.
    pub fn of_shard(index: usize, count: usize) -> Self {
        let bound = |i: usize| i * Slot::COUNT / count;
        let (first, end) = (bound(index), bound(index + 1));
        match (u8::try_from(first), u8::try_from(end.saturating_sub(1))) {
            (Ok(first), Ok(last)) if end > usize::from(first) => Self::run(Slot(first), Slot(last)),
            _ => Self::EMPTY,
        }
    }

    /// The set as bits: slot n is bit n % 8, 1 the lowest, of byte n / 8.
    pub fn to_bits(&self) -> [u8; Self::BYTES] {
        let mut bits = [0; Self::BYTES];
        for (bytes, word) in bits.as_chunks_mut().0.iter_mut().zip(self.0) {
            *bytes = word.to_le_bytes();
        }
        bits
    }

    /// The set that [`Self::to_bits`] wrote.
    pub fn from_bits(bits: &[u8; Self::BYTES]) -> Self {
        let words = bits.as_chunks().0;
        Self(std::array::from_fn(|i| u64::from_le_bytes(words[i])))
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        self.0[usize::from(slot.0 >> 6)] |= 1 << (slot.0 & 63);
    }

    /// Whether the slot is in the set.
    pub const fn contains(&self, slot: Slot) -> bool {
        self.0[(slot.0 >> 6) as usize] & (1 << (slot.0 & 63)) != 0
    }

    /// Whether every slot of `other` is in the set.
    pub fn covers(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(mine, theirs)| theirs & !mine == 0)
    }

    /// The slots in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] & other.0[i]))
    }

    /// The slots in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// Whether no slot is in the set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// How many slots are in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0;
        write!(f, "SlotSet({d:016x}{c:016x}{b:016x}{a:016x})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_partition_the_space_whatever_their_number() {
        for count in 1..=Slot::COUNT {
            let mut seen = SlotSet::EMPTY;
            for index in 0..count {
                let shard = SlotSet::of_shard(index, count);
                assert!(!shard.is_empty(), "{index} of {count}");
                assert!(seen.intersection(&shard).is_empty(), "{index} of {count}");
                seen = seen.union(&shard);
            }
            assert_eq!(seen, SlotSet::ALL, "{count}");
        }
    }

    #[test]
    fn bits_stand_in_the_order_of_slots() {
        let mut set = SlotSet::EMPTY;
        for (slot, byte, bit) in [(0, 0, 1), (9, 1, 2), (70, 8, 64), (255, 31, 128)] {
            set.insert(Slot::new(slot));
            assert_eq!(set.to_bits()[byte], bit, "{slot}");
        }
        assert_eq!(SlotSet::from_bits(&set.to_bits()), set);
    }

    #[test]
    fn covers_means_every_slot() {
        let half = SlotSet::of_shard(0, 2);
        assert!(SlotSet::ALL.covers(&half) && !half.covers(&SlotSet::ALL) && half.covers(&SlotSet::EMPTY));
        assert_eq!(half.len(), 128);
    }
}
