//! Who comes first for a mirror, by rendezvous hashing: every process puts the nodes it sees in the same order without
//! asking anybody, and a node that leaves takes only its own place with it.
//!
//! The name of a node is hashed as text, so all processes must write an address alike. FNV alone will not do: the last
//! bytes of its input hardly move the high bits, and mirrors of one group would all choose the same node.

use std::hash::Hasher;

use crate::resource::GroupVersionResource;

/// Stands between the parts that are hashed; no name has it, being no UTF-8.
const BOUNDARY: u8 = 0xff;

/// The nodes in the order in which they come for `mirror`, the first one first. It depends on their names alone, never on
/// the order in which they are given.
pub fn order<'a>(nodes: impl IntoIterator<Item = &'a str>, mirror: &GroupVersionResource) -> Vec<&'a str> {
    let mut scored: Vec<_> = nodes.into_iter().map(|node| (score(node, mirror), node)).collect();
    scored.sort_unstable_by(|(a_score, a), (b_score, b)| b_score.cmp(a_score).then_with(|| a.cmp(b)));
    scored.into_iter().map(|(_, node)| node).collect()
}

fn score(node: &str, mirror: &GroupVersionResource) -> u64 {
    let GroupVersionResource { group, version, resource } = mirror;
    let mut hasher = fnv::FnvHasher::default();
    for part in [node, group, version, resource] {
        hasher.write(part.as_bytes());
        hasher.write_u8(BOUNDARY);
    }
    mix(hasher.finish())
}

/// Lets every bit of the hash move every bit of the result, one to one: xor with the own high half between two
/// multiplications by odd constants, the last step of MurmurHash3.
fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests;
