//! Name sets against a real node, step by step; `play` compares them with registrations that stand alone.

mod line;
mod merged;
mod play;

use weir_core::interest::FieldTerm;
use weir_core::message::NamesChange;
use weir_core::selector::LabelSelector;
use weir_core::shard_selector::ShardSelector;

use super::*;
use line::{Line, Told, World, by_name, scope};

/// A line with name sets that have this credit, over a node that stands at 10.
fn line(credit: u32) -> (World, Line) {
    let mut line = Line::with_sets(Credit(credit));
    let mut world = World::default();
    world.list(&mut [&mut line]);
    line.settle();
    (world, line)
}

fn open(line: &mut Line, id: u64, key: usize, credit: u32) {
    line.open(OpenId(id), (by_name(key, 0), SlotSet::ALL), credit);
}

fn names(messages: &[ToNode]) -> Vec<String> {
    let brief = |message: &ToNode| match message {
        ToNode::Open(open) => format!("open {}", open.id.0),
        ToNode::OpenNames(open, names) => format!("open set {} of {names:?}", open.id.0 ^ SET),
        ToNode::Names(NamesChange { id, edit, added, removed }) => {
            format!("change {} of set {} +{added:?} -{removed:?}", edit.get(), id.0 ^ SET)
        }
        ToNode::Close(id) if is_set(*id) => format!("close set {}", id.0 ^ SET),
        ToNode::Close(id) => format!("close {}", id.0),
        ToNode::Credit(id, more) => format!("{} more for {}", more.0, id.0 & !SET),
    };
    messages.iter().map(brief).collect()
}

#[test]
fn what_is_opened_while_a_message_is_under_way_shares_the_next_one() {
    let (mut world, mut line) = line(9);
    for id in 0..4 {
        open(&mut line, id, id as usize % 3, 9);
    }
    assert_eq!(names(&line.under_way()), [r#"open set 0 of ["ns/a"]"#]);
    line.step();
    assert_eq!(names(&line.under_way()), [r#"change 1 of set 0 +["ns/b", "other/a"] -[]"#]);
    line.settle();
    for id in 0..4 {
        assert_eq!(line.told(id), [Told::Live(10)]);
    }
    assert_eq!(line.interests(), 1);
    world.change(&mut [&mut line], &[(0, true), (1, true), (5, true)]);
    line.settle();
    assert_eq!(line.told(0), [Told::Live(10), Told::Event(11, EventKind::Added), Told::UpTo(13)]);
    assert_eq!(line.told(3), line.told(0), "both want it");
    assert_eq!(line.told(1), [Told::Live(10), Told::Event(12, EventKind::Added), Told::UpTo(13)]);
    assert_eq!(line.told(2), [Told::Live(10), Told::UpTo(13)]);
}

#[test]
fn a_name_goes_with_the_last_who_wants_it_and_the_set_with_the_last_name() {
    let (_, mut line) = line(9);
    for (id, key) in [(0, 0), (1, 0), (2, 1)] {
        open(&mut line, id, key, 9);
    }
    line.settle();
    line.close(OpenId(0));
    assert!(line.under_way().is_empty());
    line.close(OpenId(1));
    assert_eq!(names(&line.under_way()), [r#"change 2 of set 0 +[] -["ns/a"]"#]);
    line.settle();
    line.close(OpenId(2));
    assert_eq!(names(&line.under_way()), ["close set 0"]);
    line.settle();
    assert_eq!(line.interests(), 0);
    open(&mut line, 3, 0, 9);
    assert_eq!(names(&line.under_way()), [r#"open set 1 of ["ns/a"]"#], "an id is used once");
}

#[test]
fn a_name_that_is_wanted_again_while_it_goes_out_comes_in_again() {
    let (mut world, mut line) = line(9);
    open(&mut line, 0, 0, 9);
    open(&mut line, 1, 1, 9);
    line.settle();
    line.close(OpenId(0));
    // The node says this before it hears that the name is to go.
    world.change(&mut [&mut line], &[(0, true)]);
    open(&mut line, 2, 0, 9);
    line.settle();
    assert_eq!(line.told(2), [Told::Live(11)], "only the answer makes it live");
    world.change(&mut [&mut line], &[(0, true)]);
    line.settle();
    assert_eq!(line.told(2), [Told::Live(11), Told::Event(12, EventKind::Modified), Told::UpTo(12)]);
}

#[test]
fn a_name_that_is_there_is_live_from_what_was_heard_last() {
    let (mut world, mut line) = line(9);
    open(&mut line, 0, 0, 9);
    line.settle();
    world.change(&mut [&mut line], &[(0, true)]);
    open(&mut line, 1, 0, 9);
    assert_eq!(line.told(1), [Told::Live(10)], "the event is under way");
    assert!(line.under_way().is_empty());
    line.settle();
    assert_eq!(line.told(1), [Told::Live(10), Told::Event(11, EventKind::Added), Told::UpTo(11)]);
}

#[test]
fn who_has_no_credit_left_ends_alone() {
    let (mut world, mut line) = line(1_000);
    open(&mut line, 0, 0, 1);
    open(&mut line, 1, 0, 9);
    open(&mut line, 2, 1, 9);
    line.settle();
    world.change(&mut [&mut line], &[(0, true), (1, true), (0, true)]);
    line.settle();
    use EventKind::{Added, Modified};
    assert_eq!(line.told(0), [Told::Live(10), Told::Event(11, Added), Told::UpTo(12), Told::Left(12)]);
    assert_eq!(
        line.told(1),
        [Told::Live(10), Told::Event(11, Added), Told::Event(13, Modified), Told::UpTo(13)]
    );
    assert_eq!(line.told(2), [Told::Live(10), Told::Event(12, Added), Told::UpTo(13)]);
}

#[test]
fn a_set_without_credit_ends_who_was_live_and_keeps_who_waited() {
    let (mut world, mut line) = line(2);
    open(&mut line, 0, 0, 9);
    line.settle();
    open(&mut line, 1, 1, 9);
    // One statement has more than the set may be sent, and the node says it before it hears of the second name.
    world.change(&mut [&mut line], &[(0, true), (0, true), (0, true)]);
    line.settle();
    use EventKind::{Added, Modified};
    let events = [Told::Event(11, Added), Told::Event(12, Modified)];
    assert_eq!(line.told(0), [&[Told::Live(10)], &events[..], &[Told::UpTo(12), Told::Left(12)]].concat());
    assert_eq!(line.told(1), [Told::Live(13)]);
    assert_eq!(line.interests(), 1);
    // Credit came back with the events: many statements of two go through.
    for _ in 0..10 {
        world.change(&mut [&mut line], &[(1, true), (1, true)]);
        line.settle();
    }
    assert_eq!(line.told(1).last(), Some(&Told::Left(22)), "its own credit of 9 is used");
}

#[test]
fn slots_that_a_node_does_not_hold_are_refused_for_all_who_want_them() {
    let mut sets = NameSets::default();
    sets.begin(true);
    for id in [4, 2] {
        let open = Open {
            id: OpenId(id),
            interest: by_name(id as usize % 3, 0),
            slots: SlotSet::ALL,
            credit: Credit(1),
        };
        sets.say(ToNode::Open(open));
    }
    let Translated { to_node, said } = sets.hear(FromNode::NotMine(OpenId(SET)));
    assert!(
        matches!(said.as_slice(), [FromNode::NotMine(OpenId(2)), FromNode::NotMine(OpenId(4))]),
        "{said:?}"
    );
    assert!(to_node.is_empty());
}

#[test]
fn ids_of_sets_are_never_those_of_the_merges() {
    let (_, mut line) = line(9);
    let mut ids = std::collections::BTreeSet::new();
    for round in 0..5 {
        for (id, slots) in [(0, SlotSet::ALL), (1, SlotSet::of_shard(0, 2))] {
            line.open(OpenId(round * 2 + id), (by_name(0, 0), slots), 9);
        }
        for message in line.under_way() {
            let ToNode::OpenNames(open, _) = message else { panic!("{message:?}") };
            assert!(open.id.0 >= 1 << 63, "the merges count up from 0");
            assert!(ids.insert(open.id), "used once, whatever ends");
        }
        line.lose();
    }
    assert_eq!(ids.len(), 10);
}

#[test]
fn only_what_a_name_says_wholly_goes_into_a_set() {
    let of = |scope, labels: &str, fields| {
        Interest::new(scope, LabelSelector::parse(labels).unwrap(), fields, None)
    };
    let term = |target, is_negated, value: &str| FieldTerm { target, is_negated, value: value.into() };
    let point = || scope(Some("ns"), Some("a"));
    let key = |interest: &Interest| key_of(interest, true).map(|key| key.to_string());
    let both = vec![term(FieldTarget::Name, false, "a"), term(FieldTarget::Namespace, false, "ns")];
    assert_eq!(key(&of(point(), "", both)), Some("ns/a".to_owned()));
    for fields in [
        vec![term(FieldTarget::Name, true, "b")],
        vec![term(FieldTarget::Name, false, "b")],
        vec![term(FieldTarget::Field(0), false, "a")],
        vec![term(FieldTarget::NeverSet, false, "")],
    ] {
        assert_eq!(key(&of(point(), "", fields)), None);
    }
    assert_eq!(key(&of(point(), "app=red", Vec::new())), None);
    assert_eq!(key(&of(scope(Some("ns"), None), "", Vec::new())), None);
    assert_eq!(key(&of(scope(None, Some("a")), "", Vec::new())), None, "in any namespace");
    let long = "a".repeat(MAX_KEY_BYTES);
    for name in ["", "a/b", &long] {
        assert_eq!(key(&of(scope(Some("ns"), Some(name)), "", Vec::new())), None);
    }
    let shard =
        ShardSelector::parse("shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')");
    let sharded = Interest::new(point(), LabelSelector::everything(), Vec::new(), Some(shard.unwrap()));
    assert_eq!(key(&sharded), None);
    let cluster = key_of(&of(scope(None, Some("node-1")), "", Vec::new()), false);
    assert_eq!(cluster.map(|key| key.to_string()), Some("node-1".to_owned()));
    assert_eq!(key_of(&of(point(), "", Vec::new()), false), None);
}
