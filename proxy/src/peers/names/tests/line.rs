//! A session between what the merges say and a real node, with or without name sets between them, and what each registration
//! is told. Both directions keep their order and carry as much as they are asked to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::message::{
    Change, ChangeKind, Credit, EventKind, FeedMessage, FromNode, ListChunk, ListId, Open, OpenId, ToNode,
};
use weir_core::object::ObjectSchema;
use weir_core::selector::LabelSelector;
use weir_core::statement::{SourceId, Statement};
use weir_core::{History, Object, ResourceVersion, SlotSet, WindowBounds};
use weir_shard_node::node::{Node, SessionId};

use super::super::{NameSets, Translated};

/// Namespace and name of the objects, in all slots.
pub(super) const KEYS: [(&str, &str); 6] =
    [("ns", "a"), ("ns", "b"), ("other", "a"), ("other", "b"), ("third", "a"), ("third", "z")];

/// What a registration is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Live(u64),
    Event(u64, EventKind),
    /// All up to here was said; of several without an event between them the last.
    UpTo(u64),
    Left(u64),
    TooOld,
    NotMine,
    Restored,
}

/// One session with one node.
#[derive(Debug)]
pub(super) struct Line {
    node: Node,
    session: SessionId,
    sets: Option<NameSets>,
    to_node: VecDeque<ToNode>,
    from_node: VecDeque<FromNode>,
    /// Who has neither been closed nor ended.
    open: BTreeSet<OpenId>,
    live: BTreeSet<OpenId>,
    told: BTreeMap<OpenId, Vec<Told>>,
}

/// What happens upstream, and all of it so far.
#[derive(Debug, Default)]
pub(super) struct World {
    at: u64,
    history: u64,
    present: BTreeSet<usize>,
    pub(super) log: Vec<(u64, usize, EventKind)>,
}

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

pub(super) fn object(key: usize, at: u64) -> Arc<Object> {
    let (namespace, name) = KEYS[key];
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"uid-{key}","resourceVersion":"{at}","labels":{{"app":"red"}}}}}}"#
    );
    Arc::new(Object::parse(json.as_bytes(), &ObjectSchema::bare()).unwrap())
}

pub(super) fn scope(namespace: Option<&str>, name: Option<&str>) -> Scope {
    Scope { namespace: namespace.map(Into::into), name: name.map(Into::into) }
}

/// One key, spelled in one of three ways.
pub(super) fn by_name(key: usize, spelling: usize) -> Arc<Interest> {
    let (namespace, name) = KEYS[key];
    let term = |target, value: &str| FieldTerm { target, is_negated: false, value: value.into() };
    let fields = [term(FieldTarget::Name, name), term(FieldTarget::Namespace, namespace)];
    let scope = scope(Some(namespace), Some(name));
    Arc::new(Interest::new(scope, LabelSelector::everything(), fields[..spelling].into(), None))
}

/// Interests that go into no set.
pub(super) fn interest(number: usize) -> Interest {
    let of = |scope, labels| Interest::new(scope, LabelSelector::parse(labels).unwrap(), Vec::new(), None);
    match number {
        0 => Interest::everything(),
        1 => of(scope(None, Some("a")), ""),
        2 => of(scope(Some("ns"), None), ""),
        _ => of(scope(Some("ns"), Some("a")), "app=red"),
    }
}

// === impl World ===

impl World {
    /// A list without objects is installed at every node.
    pub(super) fn list(&mut self, lines: &mut [&mut Line]) {
        let list = self.listed();
        lines.iter_mut().for_each(|line| line.feed(list.clone()));
    }

    pub(super) fn listed(&mut self) -> FeedMessage {
        self.at += 10;
        self.present.clear();
        let at = rv(self.at);
        let chunk = ListChunk { list: ListId(self.at), at, seq: 0, is_last: true, objects: Vec::new() };
        FeedMessage::List(chunk)
    }

    /// Upstream's history goes back; a list follows.
    pub(super) fn restore(&mut self, lines: &mut [&mut Line]) {
        self.history += 1;
        let history = History::new(self.history);
        lines.iter_mut().for_each(|line| line.feed(FeedMessage::Restored(history)));
        self.list(lines);
    }

    /// One statement. Objects are put or deleted; one that is not there is not deleted.
    pub(super) fn change(&mut self, lines: &mut [&mut Line], changes: &[(usize, bool)]) {
        let statement = self.changed(changes);
        lines.iter_mut().for_each(|line| line.feed(statement.clone()));
    }

    pub(super) fn changed(&mut self, changes: &[(usize, bool)]) -> FeedMessage {
        let after = self.at;
        let mut said = Vec::new();
        for (key, is_put) in changes {
            let was = self.present.contains(key);
            let (kind, seen) = match (was, is_put) {
                (false, false) => continue,
                (false, true) => (ChangeKind::Put, EventKind::Added),
                (true, true) => (ChangeKind::Put, EventKind::Modified),
                (true, false) => (ChangeKind::Delete, EventKind::Deleted),
            };
            self.at += 1;
            if *is_put {
                self.present.insert(*key);
            } else {
                self.present.remove(key);
            }
            self.log.push((self.at, *key, seen));
            said.push(Change { rv: rv(self.at), kind, object: object(*key, self.at) });
        }
        if said.is_empty() {
            self.at += 1;
        }
        FeedMessage::Statement(Statement::new(SourceId(1), rv(after), rv(self.at), said).unwrap())
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }
}

// === impl Line ===

impl Line {
    fn new(sets: Option<NameSets>) -> Self {
        let mut line = Self {
            node: Node::new(SlotSet::ALL, WindowBounds::default()),
            session: SessionId(0),
            sets,
            to_node: VecDeque::new(),
            from_node: VecDeque::new(),
            open: BTreeSet::new(),
            live: BTreeSet::new(),
            told: BTreeMap::new(),
        };
        line.lose();
        line
    }

    pub(super) fn with_sets(credit: Credit) -> Self {
        Self::new(Some(NameSets { credit, ..NameSets::default() }))
    }

    pub(super) fn alone() -> Self {
        Self::new(None)
    }

    /// The session is lost, with all that is under way; another one begins.
    pub(super) fn lose(&mut self) {
        self.node.detach(self.session);
        self.session = SessionId(self.session.0 + 1);
        self.to_node.clear();
        self.from_node = self.node.attach(self.session).into_iter().map(|(_, said)| said).collect();
        self.sets.iter_mut().for_each(|sets| sets.begin(true));
        self.open.clear();
        self.live.clear();
    }

    pub(super) fn open(&mut self, id: OpenId, (interest, slots): (Arc<Interest>, SlotSet), credit: u32) {
        self.open.insert(id);
        self.told.insert(id, Vec::new());
        self.say(ToNode::Open(Open { id, interest, slots, credit: Credit(credit) }));
    }

    pub(super) fn close(&mut self, id: OpenId) {
        if self.open.remove(&id) {
            self.live.remove(&id);
            self.say(ToNode::Close(id));
        }
    }

    /// False where it is gone.
    pub(super) fn credit(&mut self, id: OpenId, more: u32) -> bool {
        let is_open = self.open.contains(&id);
        if is_open {
            self.say(ToNode::Credit(id, Credit(more)));
        }
        is_open
    }

    fn say(&mut self, message: ToNode) {
        match &mut self.sets {
            None => self.to_node.push_back(message),
            Some(sets) => {
                let translated = sets.say(message);
                self.take(translated);
            }
        }
    }

    fn take(&mut self, Translated { to_node, said }: Translated) {
        self.to_node.extend(to_node);
        said.iter().for_each(|said| self.hear(said));
    }

    fn feed(&mut self, message: FeedMessage) {
        let said = self.node.on_feed(message, Duration::ZERO).unwrap();
        self.from_node.extend(said.into_iter().map(|(_, said)| said));
    }

    /// The next message to the node arrives. False where none is under way.
    pub(super) fn reach_node(&mut self) -> bool {
        let Some(message) = self.to_node.pop_front() else { return false };
        let said = self.node.on_session(self.session, message);
        self.from_node.extend(said.into_iter().map(|(_, said)| said));
        true
    }

    /// The node's next message arrives. False where none is under way.
    pub(super) fn reach_merges(&mut self) -> bool {
        let Some(message) = self.from_node.pop_front() else { return false };
        match &mut self.sets {
            None => self.hear(&message),
            Some(sets) => {
                let translated = sets.hear(message);
                self.take(translated);
            }
        }
        true
    }

    /// All that is under way to the node arrives, then all that is under way from it.
    pub(super) fn step(&mut self) {
        (0..self.to_node.len()).for_each(|_| _ = self.reach_node());
        (0..self.from_node.len()).for_each(|_| _ = self.reach_merges());
    }

    /// Everything arrives, and all that follows from it.
    pub(super) fn settle(&mut self) {
        while self.reach_merges() || self.reach_node() {}
    }

    /// What is under way to the node.
    pub(super) fn under_way(&self) -> Vec<ToNode> {
        self.to_node.iter().cloned().collect()
    }

    /// How many interests are registered at the node.
    pub(super) fn interests(&self) -> usize {
        self.node.interests()
    }

    pub(super) fn told(&self, id: u64) -> &[Told] {
        self.told.get(&OpenId(id)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_open(&self, id: OpenId) -> bool {
        self.open.contains(&id)
    }

    /// What the merges hear. They hear nothing for who is closed or has ended.
    fn hear(&mut self, message: &FromNode) {
        match message {
            FromNode::Said(statement) => {
                for delivery in statement.events() {
                    for (id, kind) in &delivery.tags {
                        let event = delivery.for_tag(*kind).expect("an object for everyone");
                        assert_eq!(event.object.rv(), delivery.rv);
                        self.tell(*id, Told::Event(delivery.rv.get(), *kind));
                    }
                }
                let to = Told::UpTo(statement.to().get());
                self.live.clone().into_iter().for_each(|id| self.tell(id, to.clone()));
            }
            FromNode::Live { id, at } => {
                self.tell(*id, Told::Live(at.get()));
                if self.open.contains(id) {
                    self.live.insert(*id);
                }
            }
            FromNode::Left { id, at } => self.end(*id, Told::Left(at.get())),
            FromNode::TooOld(id) => self.end(*id, Told::TooOld),
            FromNode::NotMine(id) => self.end(*id, Told::NotMine),
            FromNode::Restored { .. } => {
                for id in std::mem::take(&mut self.open) {
                    self.told.entry(id).or_default().push(Told::Restored);
                    // What was under way is registered there by now.
                    self.say(ToNode::Close(id));
                }
                self.live.clear();
            }
            FromNode::History(_) => {}
            FromNode::Named { .. } => panic!("the merges have no sets"),
        }
    }

    fn end(&mut self, id: OpenId, how: Told) {
        self.tell(id, how);
        self.open.remove(&id);
        self.live.remove(&id);
    }

    fn tell(&mut self, id: OpenId, what: Told) {
        if !self.open.contains(&id) {
            return;
        }
        let told = self.told.entry(id).or_default();
        let is_more = matches!(what, Told::Event(..) | Told::UpTo(_));
        if is_more && matches!(told.last(), Some(Told::UpTo(_))) {
            told.pop();
        }
        told.push(what);
    }
}
