//! Name sets: what the merges register by name on one session becomes one registration for each set of slots, whose names
//! come and go. The merges know nothing of it: each of their registrations is told what it would be told if it stood alone.
//!
//! The credit that the merges give is counted here, for each of their registrations; one that has none left ends alone, as it
//! would at the node. The set's own credit only bounds what is under way between the node and here, and is given back when it
//! arrives.

mod set;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use weir_core::interest::{FieldTarget, Interest};
use weir_core::message::{Credit, Delivery, EventKind, FromNode, NamesEdit, Open, OpenId, ToNode};
use weir_core::statement::{SourceId, Statement};
use weir_core::{ObjectKey, ResourceVersion, SlotSet};

use set::{NameSet, Wanted};

/// Set in the ids of name sets. The merges count theirs up from 0.
const SET: u64 = 1 << 63;

/// Events of one set under way: 16,384 × some 4 KiB is 64 MiB at a node whose session stands still, until it is given up.
const SET_CREDIT: Credit = Credit(16_384);

/// Longer keys are not sent in sets, so that a message of names stays below the size that a node takes. No key of an object is
/// longer than 317 bytes.
const MAX_KEY_BYTES: usize = 512;

/// The name sets of one mirror on one session.
#[derive(Debug)]
pub(super) struct NameSets {
    /// What each set begins with.
    credit: Credit,
    is_namespaced: bool,
    /// Counts the sets; never set back, so that no id is used twice.
    opened: u64,
    sets: BTreeMap<OpenId, NameSet>,
    registrations: HashMap<OpenId, Registration>,
    /// Where the node's last statement ended.
    heard: ResourceVersion,
}

/// What becomes of a message.
#[derive(Debug, Default)]
pub(super) struct Translated {
    /// For the node, in order.
    pub(super) to_node: Vec<ToNode>,
    /// For the merges, in order.
    pub(super) said: Vec<FromNode>,
}

/// A registration of the merges that is in a set.
#[derive(Debug)]
struct Registration {
    set: OpenId,
    key: ObjectKey,
    credit: Credit,
}

/// A statement that is being taken apart where registrations end.
struct Cut {
    source: SourceId,
    after: ResourceVersion,
    events: Vec<Delivery>,
    said: Vec<FromNode>,
}

// === impl NameSets ===

impl NameSets {
    /// A session begins: nothing is registered on it.
    pub(super) fn begin(&mut self, is_namespaced: bool) {
        self.is_namespaced = is_namespaced;
        self.sets.clear();
        self.registrations.clear();
        self.heard = ResourceVersion::ZERO;
    }

    /// Translates what the merges say.
    pub(super) fn say(&mut self, message: ToNode) -> Translated {
        let mut translated = Translated::default();
        match message {
            ToNode::Open(open) => match key_of(&open.interest, self.is_namespaced) {
                Some(key) => self.open(&open, key, &mut translated),
                None => translated.to_node.push(ToNode::Open(open)),
            },
            ToNode::Close(id) => match self.registrations.remove(&id) {
                Some(registration) => self.close(id, &registration, &mut translated),
                None => translated.to_node.push(ToNode::Close(id)),
            },
            ToNode::Credit(id, more) => match self.registrations.get_mut(&id) {
                Some(Registration { credit, .. }) => credit.0 = credit.0.saturating_add(more.0),
                None => translated.to_node.push(ToNode::Credit(id, more)),
            },
            ToNode::OpenNames(..) | ToNode::Names(_) => translated.to_node.push(message),
        }
        translated
    }

    /// Translates what the node says.
    pub(super) fn hear(&mut self, message: FromNode) -> Translated {
        let mut translated = Translated::default();
        match message {
            FromNode::Said(statement) => self.on_said(statement, &mut translated),
            FromNode::Live { id, at } if is_set(id) => self.on_answer((id, None), at, &mut translated),
            FromNode::Named { id, edit, at } => self.on_answer((id, Some(edit)), at, &mut translated),
            FromNode::NotMine(id) if is_set(id) => self.on_not_mine(id, &mut translated),
            FromNode::Left { id, at } if is_set(id) => {
                let ended = self.end(id, &mut translated);
                translated.said.extend(ended.into_iter().map(|id| FromNode::Left { id, at }));
            }
            FromNode::TooOld(id) if is_set(id) => {
                let ended = self.end(id, &mut translated);
                translated.said.extend(ended.into_iter().map(FromNode::TooOld));
            }
            FromNode::Restored { .. } => {
                translated.said.push(message);
                self.heard = ResourceVersion::ZERO;
                // What was under way to the node when it said so is registered there by now.
                let ended: Vec<OpenId> =
                    self.sets.iter().filter(|(_, set)| set.is_registered()).map(|(id, _)| *id).collect();
                ended.into_iter().for_each(|set| drop(self.end(set, &mut translated)));
            }
            FromNode::History(_) => {
                translated.said.push(message);
                self.heard = ResourceVersion::ZERO;
            }
            FromNode::Live { .. } | FromNode::NotMine(_) | FromNode::Left { .. } | FromNode::TooOld(_) => {
                translated.said.push(message);
            }
        }
        translated
    }

    /// A registration for a name that is in the set already is live at once: all that the node says from here on counts for it.
    fn open(&mut self, open: &Open, key: ObjectKey, translated: &mut Translated) {
        let set = self.set_of(open.slots);
        let registration = Registration { set, key: key.clone(), credit: open.credit };
        self.registrations.insert(open.id, registration);
        match self.sets.get_mut(&set).map(|set| set.want(key, open.id)) {
            Some(Wanted::Live) => translated.said.push(FromNode::Live { id: open.id, at: self.heard }),
            Some(Wanted::Later) | None => {}
        }
        self.ask(set, translated);
    }

    fn close(&mut self, id: OpenId, registration: &Registration, translated: &mut Translated) {
        if let Some(set) = self.sets.get_mut(&registration.set) {
            set.unwant(&registration.key, id);
        }
        self.ask(registration.set, translated);
    }

    /// The set for these slots.
    fn set_of(&mut self, slots: SlotSet) -> OpenId {
        if let Some((id, _)) = self.sets.iter().find(|(_, set)| set.slots() == slots) {
            return *id;
        }
        let id = OpenId(SET | self.opened);
        self.opened += 1;
        self.sets.insert(id, NameSet::new(slots));
        id
    }

    /// Tells the node what a set is for now, as soon as it has answered what it was told before. A set that nobody wants ends.
    fn ask(&mut self, id: OpenId, translated: &mut Translated) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        let message = set.ask(id, self.credit);
        if let Some(ToNode::Close(_)) = message {
            self.sets.remove(&id);
        }
        translated.to_node.extend(message);
    }

    fn on_answer(
        &mut self,
        (id, edit): (OpenId, Option<NamesEdit>),
        at: ResourceVersion,
        translated: &mut Translated,
    ) {
        let Some(set) = self.sets.get_mut(&id) else { return };
        let live = set.on_answer(edit);
        translated.said.extend(live.into_iter().map(|id| FromNode::Live { id, at }));
        self.ask(id, translated);
    }

    fn on_not_mine(&mut self, id: OpenId, translated: &mut Translated) {
        self.sets.remove(&id);
        let mut refused: Vec<OpenId> =
            self.registrations.iter().filter(|(_, one)| one.set == id).map(|(id, _)| *id).collect();
        refused.sort_unstable();
        for id in refused {
            self.registrations.remove(&id);
            translated.said.push(FromNode::NotMine(id));
        }
    }

    /// The node has ended a set, and with it the registrations that are returned. What it was told and had not answered comes
    /// too late for this set: who waits for that is in another one from here on.
    fn end(&mut self, id: OpenId, translated: &mut Translated) -> Vec<OpenId> {
        let Some(set) = self.sets.remove(&id) else { return Vec::new() };
        let slots = set.slots();
        let (ended, waiting) = set.into_ended();
        ended.iter().for_each(|id| drop(self.registrations.remove(id)));
        if !waiting.is_empty() {
            let next = self.set_of(slots);
            for (id, key) in waiting {
                if let Some(registration) = self.registrations.get_mut(&id) {
                    registration.set = next;
                }
                if let Some(set) = self.sets.get_mut(&next) {
                    set.want(key, id);
                }
            }
            self.ask(next, translated);
        }
        ended
    }

    fn on_said(&mut self, statement: Statement<Delivery>, translated: &mut Translated) {
        self.heard = statement.to();
        let mut tags = statement.events().iter().flat_map(|delivery| &delivery.tags);
        if !tags.any(|(id, _)| is_set(*id)) {
            translated.said.push(FromNode::Said(statement));
            return;
        }
        let mut cut = Cut::of(&statement);
        for delivery in statement.events() {
            let (tags, left) = self.tags(delivery);
            left.into_iter().for_each(|id| cut.leave(id));
            if !tags.is_empty() {
                cut.events.push(Delivery { tags, ..delivery.clone() });
            }
        }
        cut.say(statement.to());
        translated.said.append(&mut cut.said);
        let sets: Vec<OpenId> = self.sets.keys().copied().collect();
        for id in sets {
            let credit = self.sets.get_mut(&id).and_then(|set| set.take_used(self.credit));
            translated.to_node.extend(credit.map(|credit| ToNode::Credit(id, credit)));
            self.ask(id, translated);
        }
    }

    /// Whom an event concerns, and who has no credit left for it and ends.
    fn tags(&mut self, delivery: &Delivery) -> (Vec<(OpenId, EventKind)>, Vec<OpenId>) {
        let (mut tags, mut left) = (Vec::with_capacity(delivery.tags.len()), Vec::new());
        for (tagged, kind) in &delivery.tags {
            if !is_set(*tagged) {
                tags.push((*tagged, *kind));
                continue;
            }
            let object = delivery.present.as_ref().or(delivery.gone.as_ref());
            let (Some(object), Some(set)) = (object, self.sets.get_mut(tagged)) else { continue };
            for id in set.on_event(object.key()) {
                match self.registrations.get_mut(&id) {
                    Some(Registration { credit: Credit(credit), .. }) if *credit > 0 => {
                        *credit -= 1;
                        tags.push((id, *kind));
                    }
                    Some(_) | None => {
                        self.registrations.remove(&id);
                        set.unwant(object.key(), id);
                        left.push(id);
                    }
                }
            }
        }
        (tags, left)
    }
}

impl Default for NameSets {
    fn default() -> Self {
        Self {
            credit: SET_CREDIT,
            is_namespaced: true,
            opened: 0,
            sets: BTreeMap::new(),
            registrations: HashMap::new(),
            heard: ResourceVersion::ZERO,
        }
    }
}

// === impl Cut ===

impl Cut {
    fn of(statement: &Statement<Delivery>) -> Self {
        let (source, after) = (statement.source(), statement.after());
        Self { source, after, events: Vec::new(), said: Vec::new() }
    }

    /// Everything so far was said to this registration, and nothing more will be.
    fn leave(&mut self, id: OpenId) {
        let at = self.events.last().map_or(self.after, |delivery| delivery.rv);
        if at > self.after {
            self.say(at);
        }
        self.said.push(FromNode::Left { id, at });
    }

    fn say(&mut self, to: ResourceVersion) {
        let events = std::mem::take(&mut self.events);
        let said = Statement::new(self.source, self.after, to, events);
        self.said.push(FromNode::Said(said.expect("events of a statement rise, and so do some of them")));
        self.after = to;
    }
}

fn is_set(OpenId(id): OpenId) -> bool {
    id & SET != 0
}

/// The only key that an interest is for, where nothing else narrows it.
fn key_of(interest: &Interest, is_namespaced: bool) -> Option<ObjectKey> {
    let Interest { scope, labels, fields, shard, .. } = interest;
    let name = scope.name.as_deref()?;
    let namespace = match (scope.namespace.as_deref(), is_namespaced) {
        (Some(namespace), true) if !namespace.is_empty() => namespace,
        (None, false) => "",
        (Some(_) | None, _) => return None,
    };
    let is_scope = fields.iter().all(|term| {
        let scope = match term.target {
            FieldTarget::Name => name,
            FieldTarget::Namespace => namespace,
            FieldTarget::Field(_) | FieldTarget::NeverSet => return false,
        };
        !term.is_negated && *term.value == *scope
    });
    let is_path = |part: &str| !part.contains('/');
    let is_key = !name.is_empty() && is_path(name) && is_path(namespace);
    let is_short = namespace.len() + name.len() < MAX_KEY_BYTES;
    let is_by_name = is_scope && is_key && is_short && labels.is_everything() && shard.is_none();
    is_by_name.then(|| ObjectKey::new(namespace, name))
}
