//! The order of nodes: that it is even, that it is stable, and that it never changes. The fixed orders were computed by
//! another program.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// Addresses as a cluster gives them: alike but for a digit or two.
fn nodes(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("10.244.{}.{}:7443", i % 3, i + 2)).collect()
}

/// As many mirrors, whose names differ in a few bytes, at the end and in the middle.
fn mirrors(count: usize) -> impl Iterator<Item = GroupVersionResource> {
    (0..count).map(|i| GroupVersionResource::new(["", "apps"][i % 2], "v1", &format!("things{i}")))
}

fn firsts(nodes: &[String], mirrors: usize) -> BTreeMap<String, usize> {
    let mut firsts = BTreeMap::new();
    for mirror in self::mirrors(mirrors) {
        let first = order(nodes.iter().map(String::as_str), &mirror)[0];
        *firsts.entry(first.to_owned()).or_insert(0) += 1;
    }
    firsts
}

/// With 4,000 mirrors and even odds a node's share has a standard deviation of at most 40; five of it are allowed.
#[test]
fn nodes_come_first_equally_often() {
    for count in [2, 3, 4, 8, 16] {
        let firsts = firsts(&nodes(count), 4_000);
        assert_eq!(firsts.len(), count);
        let even = 4_000 / count;
        let allowed = 5 * even.isqrt() + 1;
        for (node, first) in firsts {
            assert!(first.abs_diff(even) <= allowed, "{node} of {count} is first of {first}");
        }
    }
}

#[test]
fn who_follows_one_that_leaves_is_spread_too() {
    let all = nodes(8);
    let mut seconds: BTreeMap<_, usize> = BTreeMap::new();
    let mut orphans = 0;
    for mirror in mirrors(16_000) {
        let order = order(all.iter().map(String::as_str), &mirror);
        if order[0] == all[3] {
            orphans += 1;
            *seconds.entry(order[1]).or_default() += 1;
        }
    }
    assert_eq!(seconds.len(), 7);
    for (node, second) in seconds {
        assert!(second.abs_diff(orphans / 7) < orphans / 28, "{node}: {second} of {orphans}");
    }
}

/// What the mix is for: the scores of a node for the mirrors that it has fill the range evenly.
#[test]
fn scores_fill_the_range() {
    let mut slots = [0_usize; 256];
    for mirror in mirrors(64 * 256) {
        slots[usize::try_from(score("10.244.0.2:7443", &mirror) >> 56).unwrap()] += 1;
    }
    assert!(slots.iter().all(|&slot| (24..=104).contains(&slot)), "{slots:?}");
}

#[test]
fn every_part_of_a_mirror_counts() {
    let mirrors = [
        ("", "v1", "pods"),
        ("v1", "", "pods"),
        ("", "v1", "pod"),
        ("apps", "v1", "pods"),
        ("", "v2", "pods"),
    ];
    let scores = mirrors
        .map(|(group, version, resource)| score("a:1", &GroupVersionResource::new(group, version, resource)));
    assert_eq!(BTreeSet::from(scores).len(), mirrors.len());
}

/// Processes of different versions must agree, so the order may never change.
#[test]
fn the_order_is_fixed_for_good() {
    let nodes = nodes(5);
    let of = |mirror: &GroupVersionResource| {
        let order = order(nodes.iter().map(String::as_str), mirror);
        order.iter().map(|node| nodes.iter().position(|other| other == node).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of(&GroupVersionResource::new("", "v1", "pods")), [2, 1, 4, 0, 3]);
    assert_eq!(of(&GroupVersionResource::new("apps", "v1", "deployments")), [0, 3, 4, 1, 2]);
    assert_eq!(of(&GroupVersionResource::new("coordination.k8s.io", "v1", "leases")), [3, 4, 0, 2, 1]);
}

proptest! {
    #[test]
    fn the_order_of_the_input_does_not_count(
        mut nodes in prop::collection::vec("[a-z0-9.:]{0,12}", 0..12),
        mirror in "[a-z]{1,8}",
        turns in any::<u64>(),
    ) {
        let mirror = GroupVersionResource::new("", "v1", &mirror);
        let before: Vec<String> =
            order(nodes.iter().map(String::as_str), &mirror).into_iter().map(str::to_owned).collect();
        // A permutation of its own: sorted by a hash of name and seed.
        nodes.sort_by_key(|node| mix(crate::fnv1a64(node.as_bytes()) ^ turns));
        prop_assert_eq!(before, order(nodes.iter().map(String::as_str), &mirror));
    }

    #[test]
    fn who_leaves_takes_only_its_own_place(
        nodes in prop::collection::btree_set("[a-z0-9.:]{0,12}", 1..12),
        mirror in "[a-z]{1,8}",
        leaving in any::<prop::sample::Index>(),
    ) {
        let mirror = GroupVersionResource::new("batch", "v1", &mirror);
        let leaving = nodes.iter().nth(leaving.index(nodes.len())).unwrap().as_str();
        let mut before = order(nodes.iter().map(String::as_str), &mirror);
        before.retain(|node| *node != leaving);
        let after = nodes.iter().map(String::as_str).filter(|node| *node != leaving);
        prop_assert_eq!(before, order(after, &mirror));
    }
}
