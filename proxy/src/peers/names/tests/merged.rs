//! The merges over name sets over a real node: whatever is opened and closed, and however little credit there is, each interest
//! is released all of its events, once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use weir_core::WindowBounds;
use weir_core::message::FeedMessage;
use weir_shard_node::node::{Node, SessionId};

use super::line::{KEYS, World, by_name};
use super::*;
use crate::merge::{InterestId, Merges, NodeIndex, Output};

const NODE: NodeIndex = NodeIndex(0);

#[derive(Clone, Debug)]
enum Act {
    Open(usize),
    Close(usize),
    Change(Vec<(usize, bool)>),
    List,
    Lose,
    Carry(usize, usize),
}

/// A proxy with one node.
struct Proxy {
    merges: Merges,
    sets: NameSets,
    node: Node,
    session: SessionId,
    to_node: VecDeque<ToNode>,
    from_node: VecDeque<FromNode>,
    released: BTreeMap<InterestId, Vec<u64>>,
    ended: BTreeSet<InterestId>,
}

fn act() -> impl Strategy<Value = Act> {
    let change = proptest::collection::vec((0..KEYS.len(), proptest::bool::weighted(0.7)), 0..5);
    prop_oneof![
        6 => (0..KEYS.len()).prop_map(Act::Open),
        2 => any::<usize>().prop_map(Act::Close),
        8 => change.prop_map(Act::Change),
        1 => proptest::bool::weighted(0.3).prop_map(|is_list| if is_list { Act::List } else { Act::Lose }),
        8 => (0..4_usize, 0..4_usize).prop_map(|(to, from)| Act::Carry(to, from)),
    ]
}

// === impl Proxy ===

impl Proxy {
    fn new(credit: Credit, set_credit: Credit) -> Self {
        let mut proxy = Self {
            merges: Merges::new(vec![SlotSet::ALL], credit),
            sets: NameSets { credit: set_credit, ..NameSets::default() },
            node: Node::new(SlotSet::ALL, WindowBounds::default()),
            session: SessionId(0),
            to_node: VecDeque::new(),
            from_node: VecDeque::new(),
            released: BTreeMap::new(),
            ended: BTreeSet::new(),
        };
        proxy.lose();
        proxy
    }

    /// The session is lost, and another one begins.
    fn lose(&mut self) {
        self.node.detach(self.session);
        self.session = SessionId(self.session.0 + 1);
        self.to_node.clear();
        self.from_node = self.node.attach(self.session).into_iter().map(|(_, said)| said).collect();
        self.sets.begin(true);
        let outputs = self.merges.on_session(NODE, SlotSet::ALL);
        self.carry(outputs);
    }

    fn feed(&mut self, message: FeedMessage) {
        let said = self.node.on_feed(message, Duration::ZERO).unwrap();
        self.from_node.extend(said.into_iter().map(|(_, said)| said));
    }

    fn carry(&mut self, outputs: Vec<Output>) {
        let (mut outputs, mut inbox) = (VecDeque::from(outputs), VecDeque::new());
        loop {
            match outputs.pop_front() {
                Some(Output::Send(_, message)) => {
                    let Translated { to_node, said } = self.sets.say(message);
                    self.to_node.extend(to_node);
                    inbox.extend(said);
                }
                Some(Output::AskLog(asked, request)) => {
                    let answer = self.node.store().log(&request);
                    outputs.extend(self.merges.on_log(asked, answer));
                }
                Some(Output::Release(id, events)) => {
                    let events = events.into_iter().map(|event| event.rv.get());
                    self.released.entry(id).or_default().extend(events);
                }
                Some(Output::Ended(id, _)) => _ = self.ended.insert(id),
                Some(Output::Restored(_) | Output::Refused(_)) => {}
                None => match inbox.pop_front() {
                    Some(said) => outputs.extend(self.merges.on_node(NODE, said)),
                    None => return,
                },
            }
        }
    }

    fn reach_node(&mut self) -> bool {
        let Some(message) = self.to_node.pop_front() else { return false };
        let said = self.node.on_session(self.session, message);
        self.from_node.extend(said.into_iter().map(|(_, said)| said));
        true
    }

    fn reach_merges(&mut self) -> bool {
        let Some(message) = self.from_node.pop_front() else { return false };
        let Translated { to_node, said } = self.sets.hear(message);
        self.to_node.extend(to_node);
        for said in said {
            let outputs = self.merges.on_node(NODE, said);
            self.carry(outputs);
        }
        true
    }
}

proptest! {
    #[test]
    fn each_interest_is_released_all_of_its_events(
        (credit, set_credit) in (1..6_u32, 1..6_u32),
        acts in proptest::collection::vec(act(), 0..80),
    ) {
        let (mut world, mut proxy) = (World::default(), Proxy::new(Credit(credit), Credit(set_credit)));
        proxy.feed(world.listed());
        while proxy.reach_merges() {}
        let mut open: Vec<(InterestId, usize, u64)> = Vec::new();
        for act in &acts {
            match act {
                Act::Open(key) => {
                    let after = proxy.merges.frontier();
                    let (id, outputs) = proxy.merges.open(by_name(*key, 0), after);
                    proxy.carry(outputs);
                    open.push((id, *key, after.get()));
                }
                Act::Close(which) if !open.is_empty() => {
                    let (id, _, _) = open.swap_remove(which % open.len());
                    let outputs = proxy.merges.close(id);
                    proxy.carry(outputs);
                }
                Act::Close(_) => {}
                Act::Change(changes) => proxy.feed(world.changed(changes)),
                Act::List => proxy.feed(world.listed()),
                Act::Lose => proxy.lose(),
                Act::Carry(to, from) => {
                    (0..*to).for_each(|_| _ = proxy.reach_node());
                    (0..*from).for_each(|_| _ = proxy.reach_merges());
                }
            }
            proxy.merges.check(1_000);
        }
        proxy.feed(world.changed(&[]));
        for _ in 0..3 {
            while proxy.reach_merges() || proxy.reach_node() {}
            let outputs = proxy.merges.ask_again();
            proxy.carry(outputs);
        }
        open.retain(|(id, _, _)| !proxy.ended.contains(id));
        for (id, key, after) in &open {
            let happened = world.log.iter().filter(|(at, of, _)| at > after && of == key).map(|(at, _, _)| *at);
            let released = proxy.released.remove(id).unwrap_or_default();
            prop_assert_eq!(released, happened.collect::<Vec<_>>(), "{:?} of {}", id, key);
            prop_assert_eq!(proxy.merges.frontier_of(*id).map(ResourceVersion::get), Some(world.at()));
        }
        prop_assert!(proxy.node.interests() <= 1, "one set");
    }
}
