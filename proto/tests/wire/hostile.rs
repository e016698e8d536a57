//! Bytes that nobody meant: a reader refuses or takes them, and never panics. Whatever it takes it can say again.

use proptest::prelude::*;

use crate::golden::{kept, kind};
use crate::kinds::{Any, KINDS};

/// Reads; what was taken must come out the same when it is sent on.
fn read(kind: &str, bytes: &[u8]) -> bool {
    let Ok(taken) = Any::read(kind, bytes) else { return false };
    let again = Any::read(kind, &taken.encode())
        .unwrap_or_else(|error| panic!("{kind} was taken, but not when sent on: {error}: {bytes:02x?}"));
    assert_eq!(format!("{again:?}"), format!("{taken:?}"), "{kind} {bytes:02x?}");
    true
}

#[test]
fn messages_that_are_cut_short() {
    let mut refused = 0;
    for (name, bytes) in kept() {
        for end in 0..bytes.len() {
            refused += usize::from(!read(kind(&name), &bytes[..end]));
        }
        assert!(read(kind(&name), &bytes), "{name} is whole");
    }
    assert!(refused > 1_000, "only {refused} were refused");
}

#[test]
fn messages_with_one_byte_changed() {
    let mut refused = 0;
    for (name, bytes) in kept() {
        for at in 0..bytes.len() {
            for changed in [0, 0xff, bytes[at] ^ 0x80, bytes[at].wrapping_add(1), bytes[at] ^ 0x07] {
                let mut bytes = bytes.clone();
                bytes[at] = changed;
                refused += usize::from(!read(kind(&name), &bytes));
            }
        }
    }
    assert!(refused > 10_000, "only {refused} were refused");
}

#[test]
fn one_kind_is_not_taken_for_another_without_looking() {
    for (_, bytes) in kept() {
        for kind in KINDS {
            read(kind, &bytes);
        }
    }
}

#[test]
fn nothing_is_no_message() {
    // A proof and a count of zero bytes are numbers that are 0; every other message has something that it must say.
    for kind in KINDS.iter().filter(|kind| **kind != "Proof") {
        assert!(Any::read(kind, &[]).is_err(), "{kind}");
    }
}

proptest! {
    #[test]
    fn any_bytes(kind in proptest::sample::select(&KINDS[..]), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read(kind, &bytes);
    }

    /// Pieces of true messages in another order reach deeper than bytes at random.
    #[test]
    fn pieces_of_messages(
        kind in proptest::sample::select(&KINDS[..]),
        pieces in proptest::collection::vec((any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), 1usize..40), 1..6),
    ) {
        let kept = kept();
        let piece = |(of, from, length): &(proptest::sample::Index, proptest::sample::Index, usize)| {
            let bytes = &of.get(&kept).1;
            let from = from.index(bytes.len().max(1)).min(bytes.len());
            bytes[from..(from + length).min(bytes.len())].to_vec()
        };
        let bytes: Vec<u8> = pieces.iter().flat_map(piece).collect();
        read(kind, &bytes);
    }
}
