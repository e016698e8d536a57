//! One node with its sessions, message by message.

use std::time::Duration;

use weir_core::interest::Interest;
use weir_core::message::{Credit, FeedMessage, FromNode, ListId, NamesChange, Open, ToNode};
use weir_core::statement::Statement;

use super::*;
use crate::testing::{Pod, rv};

const SESSION: SessionId = SessionId(3);

fn node(slots: SlotSet) -> Node {
    let mut node = Node::new(slots, WindowBounds::default());
    list(&mut node, 1);
    node.attach(SESSION);
    node
}

fn list(node: &mut Node, at: u64) -> Vec<Outgoing> {
    let chunk = ListChunk { list: ListId(at), at: rv(at), seq: 0, is_last: true, objects: Vec::new() };
    node.on_feed(FeedMessage::List(chunk), Duration::ZERO).unwrap()
}

fn say(node: &mut Node, (after, to): (u64, u64), changes: Vec<Change>) -> Vec<FromNode> {
    let statement = Statement::new(SourceId(1), rv(after), rv(to), changes).unwrap();
    let outgoing = node.on_feed(FeedMessage::Statement(statement), Duration::ZERO).unwrap();
    outgoing.into_iter().map(|(_, said)| said).collect()
}

fn open(node: &mut Node, id: u64, slots: SlotSet, credit: u32) -> Vec<Outgoing> {
    let open =
        Open { id: OpenId(id), interest: Interest::everything().into(), slots, credit: Credit(credit) };
    node.on_session(SESSION, ToNode::Open(open))
}

#[test]
fn slots_that_the_node_does_not_hold_are_refused() {
    let mut node = node(SlotSet::of_shard(0, 2));
    let said = open(&mut node, 1, SlotSet::ALL, 9);
    assert!(matches!(said.as_slice(), [(SESSION, FromNode::NotMine(OpenId(1)))]));
    assert_eq!(node.interests(), 0);
}

#[test]
fn a_registration_sees_its_slots_only() {
    let mut node = node(SlotSet::ALL);
    let (lower, upper) = (SlotSet::of_shard(0, 2), SlotSet::of_shard(1, 2));
    open(&mut node, 1, lower, 9);
    let changes = vec![Pod::in_slots(upper, "b").put(2), Pod::in_slots(lower, "a").put(3)];
    let said = say(&mut node, (1, 3), changes);
    let [FromNode::Said(said)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(said.events().iter().map(|event| event.rv).collect::<Vec<_>>(), [rv(3)]);
}

#[test]
fn an_id_used_twice_changes_nothing() {
    let mut node = node(SlotSet::ALL);
    open(&mut node, 1, SlotSet::ALL, 1);
    assert!(open(&mut node, 1, SlotSet::ALL, 1_000).is_empty());
    say(&mut node, (1, 2), vec![Pod::new("ns", "a", "u").put(2)]);
    let said = say(&mut node, (2, 3), vec![Pod::new("ns", "a", "u").put(3)]);
    assert!(matches!(said.first(), Some(FromNode::Left { .. })), "the credit is still the first one's");
}

#[test]
fn credit_for_an_id_that_is_gone_is_dropped() {
    let mut node = node(SlotSet::ALL);
    open(&mut node, 1, SlotSet::ALL, 0);
    let said = say(&mut node, (1, 2), vec![Pod::new("ns", "a", "u").put(2)]);
    assert!(matches!(said.as_slice(), [FromNode::Left { at, .. }, FromNode::Said(_)] if *at == rv(1)));
    assert!(node.on_session(SESSION, ToNode::Credit(OpenId(1), Credit(5))).is_empty());
    let said = say(&mut node, (2, 3), vec![Pod::new("ns", "a", "u").put(3)]);
    let [FromNode::Said(said)] = said.as_slice() else { panic!("{said:?}") };
    assert!(said.events().is_empty());
}

#[test]
fn an_event_for_many_interests_travels_once() {
    let mut node = node(SlotSet::ALL);
    (0..5).for_each(|id| drop(open(&mut node, id, SlotSet::ALL, 9)));
    let said = say(&mut node, (1, 2), vec![Pod::new("ns", "a", "u").put(2)]);
    let [FromNode::Said(said)] = said.as_slice() else { panic!("{said:?}") };
    let [event] = said.events() else { panic!("{said:?}") };
    assert_eq!(event.tags.len(), 5);
}

#[test]
fn a_session_that_ends_takes_its_registrations_along() {
    let mut node = node(SlotSet::ALL);
    (0..5).for_each(|id| drop(open(&mut node, id, SlotSet::ALL, 9)));
    node.detach(SESSION);
    assert_eq!(node.interests(), 0);
    assert!(say(&mut node, (1, 2), vec![Pod::new("ns", "a", "u").put(2)]).is_empty());
}

#[test]
fn f8_a_new_list_ends_every_registration_before_its_frontier_is_said() {
    let mut node = node(SlotSet::ALL);
    open(&mut node, 1, SlotSet::ALL, 9);
    let said: Vec<_> = list(&mut node, 7).into_iter().map(|(_, said)| said).collect();
    let [FromNode::TooOld(OpenId(1)), FromNode::Said(frontier)] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!((frontier.to(), frontier.events().len()), (rv(7), 0));
}

#[test]
fn a_restored_upstream_ends_everything_and_says_what_may_not_be_resumed() {
    let mut node = node(SlotSet::ALL);
    open(&mut node, 1, SlotSet::ALL, 9);
    say(&mut node, (1, 50), Vec::new());
    let said = node.on_feed(FeedMessage::Restored(History::new(1)), Duration::ZERO).unwrap();
    assert!(matches!(said.as_slice(), [(SESSION, FromNode::Restored { highest, .. })] if *highest == rv(50)));
    assert_eq!((node.window(), node.interests()), (None, 0));
    // The new history is at a lower number, and its list is taken all the same.
    let said: Vec<_> = list(&mut node, 9).into_iter().map(|(_, said)| said).collect();
    assert!(matches!(said.as_slice(), [FromNode::Said(frontier)] if frontier.to() == rv(9)));
}

#[test]
fn a_quiet_statement_costs_one_message_a_session() {
    let mut node = node(SlotSet::ALL);
    (0..100).for_each(|id| drop(open(&mut node, id, SlotSet::ALL, 9)));
    assert_eq!(say(&mut node, (1, 2), Vec::new()).len(), 1);
    assert!(say(&mut node, (0, 2), Vec::new()).is_empty(), "nothing new, nothing said");
}

fn keys(names: &[&str]) -> Vec<ObjectKey> {
    names.iter().map(|name| ObjectKey::new("ns", name)).collect()
}

fn open_names(node: &mut Node, names: &[&str], credit: u32) -> Vec<Outgoing> {
    let (interest, slots) = (Interest::everything().into(), SlotSet::ALL);
    let open = Open { id: OpenId(1), interest, slots, credit: Credit(credit) };
    node.on_session(SESSION, ToNode::OpenNames(open, keys(names)))
}

fn change(node: &mut Node, edit: u64, (added, removed): (&[&str], &[&str])) -> Vec<Outgoing> {
    let edit = NamesEdit::new(edit).unwrap();
    let change = NamesChange { id: OpenId(1), edit, added: keys(added), removed: keys(removed) };
    node.on_session(SESSION, ToNode::Names(change))
}

/// The positions of the events in what was said.
fn events(said: &[FromNode]) -> Vec<u64> {
    let statements = said.iter().filter_map(|said| match said {
        FromNode::Said(statement) => Some(statement.events()),
        _ => None,
    });
    statements.flatten().map(|event| event.rv.get()).collect()
}

#[test]
fn a_name_set_is_one_registration_whose_names_change_in_one_step() {
    let mut node = node(SlotSet::ALL);
    let said = open_names(&mut node, &["a", "b"], 9);
    assert!(matches!(said.as_slice(), [(SESSION, FromNode::Live { id: OpenId(1), at })] if *at == rv(1)));
    let registered = node.registered(SESSION, OpenId(1));
    assert_eq!((node.interests(), registered.count, registered.next_edit), (1, 3, Some(NamesEdit::FIRST)));
    let pod = |name: &str, at| Pod::new("ns", name, &format!("uid-{name}")).put(at);
    let elsewhere = Pod::new("other", "a", "uid-other").put(4);
    let said = say(&mut node, (1, 5), vec![pod("a", 2), pod("c", 3), elsewhere, pod("b", 5)]);
    assert_eq!(events(&said), [2, 5]);
    let said = change(&mut node, 1, (&["c"], &["a", "nobody"]));
    let [(SESSION, FromNode::Named { id: OpenId(1), edit, at })] = said.as_slice() else {
        panic!("{said:?}")
    };
    assert_eq!((edit.get(), *at), (1, rv(5)));
    assert_eq!(node.registered(SESSION, OpenId(1)).count, 3);
    let said = say(&mut node, (5, 8), vec![pod("a", 6), pod("c", 7), pod("b", 8)]);
    assert_eq!(events(&said), [7, 8]);
    assert!(change(&mut node, 1, (&["a"], &[])).is_empty(), "this change was made");
    assert!(change(&mut node, 3, (&["a"], &[])).is_empty(), "one was left out");
    node.on_session(SESSION, ToNode::Close(OpenId(1)));
    assert!(change(&mut node, 2, (&["a"], &[])).is_empty(), "the set is gone");
    assert!(events(&say(&mut node, (8, 9), vec![pod("c", 9)])).is_empty());
    assert_eq!((node.interests(), node.registered(SESSION, OpenId(1)).count), (0, 0));
}

#[test]
fn the_credit_of_a_name_set_is_that_of_all_names() {
    let mut node = node(SlotSet::ALL);
    open_names(&mut node, &["a", "b", "c"], 2);
    let pod = |name: &str, at| Pod::new("ns", name, &format!("uid-{name}")).put(at);
    let said = say(&mut node, (1, 6), vec![pod("a", 2), pod("b", 3), pod("c", 4), pod("a", 5)]);
    let [FromNode::Said(first), FromNode::Left { id: OpenId(1), at }, FromNode::Said(rest)] = said.as_slice()
    else {
        panic!("{said:?}")
    };
    assert_eq!((first.to(), *at, rest.to(), rest.events().len()), (rv(3), rv(3), rv(6), 0));
    assert_eq!(node.registered(SESSION, OpenId(1)).count, 0);
}

#[test]
fn a_new_list_and_another_history_end_a_name_set_once() {
    let mut node = node(SlotSet::ALL);
    open_names(&mut node, &["a", "b", "c"], 2);
    let said: Vec<_> = list(&mut node, 7).into_iter().map(|(_, said)| said).collect();
    assert!(matches!(said.as_slice(), [FromNode::TooOld(OpenId(1)), FromNode::Said(_)]), "{said:?}");
    open_names(&mut node, &["a", "b", "c"], 2);
    assert_eq!(node.registered(SESSION, OpenId(1)).count, 4);
    node.on_feed(FeedMessage::Restored(History::new(1)), Duration::ZERO).unwrap();
    assert_eq!((node.interests(), node.registered(SESSION, OpenId(1)).count), (0, 0));
    open_names(&mut node, &["a"], 2);
    node.detach(SESSION);
    assert_eq!(node.interests(), 0);
}
