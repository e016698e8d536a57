//! One name set as this end knows it: which names are in it at the node, and who wants them. One change is under way at a
//! time; what is wanted meanwhile goes into the next one, so that many registrations share one.
//!
//! A name is in the set from the answer to the change that added it until the change that takes it out is sent: what the node
//! says of it in between, and only that, counts for those who want it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use weir_core::interest::Interest;
use weir_core::message::{Credit, NamesChange, NamesEdit, Open, OpenId, ToNode};
use weir_core::{ObjectKey, SlotSet};

/// Names in one message: with 512 bytes each 2 MiB, a quarter of what a message may have.
const MAX_NAMES: usize = 4_096;

/// One name set.
#[derive(Debug)]
pub(super) struct NameSet {
    slots: SlotSet,
    names: HashMap<ObjectKey, Name>,
    /// Names that may have to be added or taken out.
    due: BTreeSet<ObjectKey>,
    /// The names in the message that is under way.
    asked: Vec<ObjectKey>,
    phase: Phase,
    /// Who wants any of the names.
    wanted: usize,
    /// Events that arrived since credit was given back.
    used: u32,
}

/// Whether a registration for a name is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The name is in the set.
    Live,
    /// It will be.
    Later,
}

#[derive(Debug)]
enum Phase {
    /// The node does not know of it.
    New,
    /// Its registration is under way.
    Opening,
    /// This change is under way.
    Changing(NamesEdit),
    /// The node has answered everything; the next change has this number.
    Settled(NamesEdit),
}

#[derive(Debug)]
struct Name {
    place: Place,
    ids: Vec<OpenId>,
}

/// Where a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Out,
    /// Going in with the message that is under way.
    Adding,
    In,
    /// Going out with the message that is under way.
    Removing,
}

// === impl NameSet ===

impl NameSet {
    pub(super) fn new(slots: SlotSet) -> Self {
        Self {
            slots,
            names: HashMap::new(),
            due: BTreeSet::new(),
            asked: Vec::new(),
            phase: Phase::New,
            wanted: 0,
            used: 0,
        }
    }

    pub(super) fn slots(&self) -> SlotSet {
        self.slots
    }

    /// Whether the node has said that it is registered.
    pub(super) fn is_registered(&self) -> bool {
        match self.phase {
            Phase::New | Phase::Opening => false,
            Phase::Changing(_) | Phase::Settled(_) => true,
        }
    }

    pub(super) fn want(&mut self, key: ObjectKey, id: OpenId) -> Wanted {
        self.wanted += 1;
        self.due.insert(key.clone());
        let name = self.names.entry(key).or_insert(Name { place: Place::Out, ids: Vec::new() });
        name.ids.push(id);
        if name.place == Place::In { Wanted::Live } else { Wanted::Later }
    }

    pub(super) fn unwant(&mut self, key: &ObjectKey, id: OpenId) {
        let Some(name) = self.names.get_mut(key) else { return };
        let before = name.ids.len();
        name.ids.retain(|one| *one != id);
        self.wanted -= before - name.ids.len();
        self.due.insert(key.clone());
    }

    /// What the node is to be told now, if anything, and if it has answered everything before.
    pub(super) fn ask(&mut self, id: OpenId, credit: Credit) -> Option<ToNode> {
        match self.phase {
            Phase::Opening | Phase::Changing(_) => None,
            Phase::New => {
                let (added, _) = self.take_due();
                self.phase = Phase::Opening;
                let interest = Arc::new(Interest::everything());
                Some(ToNode::OpenNames(Open { id, interest, slots: self.slots, credit }, added))
            }
            Phase::Settled(_) if self.wanted == 0 => Some(ToNode::Close(id)),
            Phase::Settled(edit) => {
                let (added, removed) = self.take_due();
                if added.is_empty() && removed.is_empty() {
                    return None;
                }
                self.phase = Phase::Changing(edit);
                Some(ToNode::Names(NamesChange { id, edit, added, removed }))
            }
        }
    }

    /// The node has answered: the registration, or the change with this number. Who is live from here on.
    pub(super) fn on_answer(&mut self, answered: Option<NamesEdit>) -> Vec<OpenId> {
        let next = match (&self.phase, answered) {
            (Phase::Opening, None) => NamesEdit::FIRST,
            (Phase::Changing(asked), Some(edit)) if *asked == edit => edit.next(),
            (Phase::New | Phase::Opening | Phase::Changing(_) | Phase::Settled(_), _) => return Vec::new(),
        };
        self.phase = Phase::Settled(next);
        let mut live = Vec::new();
        for key in std::mem::take(&mut self.asked) {
            let Some(name) = self.names.get_mut(&key) else { continue };
            match name.place {
                Place::Adding => {
                    name.place = Place::In;
                    live.extend(&name.ids);
                }
                Place::Removing => name.place = Place::Out,
                Place::Out | Place::In => {}
            }
            self.due.insert(key);
        }
        live.sort_unstable();
        live
    }

    /// An event arrived: who wants it.
    pub(super) fn on_event(&mut self, key: &ObjectKey) -> Vec<OpenId> {
        self.used += 1;
        let name = self.names.get(key).filter(|name| name.place == Place::In);
        name.map(|name| name.ids.clone()).unwrap_or_default()
    }

    /// Credit to give back, once it is half of what there is.
    pub(super) fn take_used(&mut self, credit: Credit) -> Option<Credit> {
        (self.used > 0 && self.used * 2 >= credit.0).then(|| Credit(std::mem::take(&mut self.used)))
    }

    /// The node has ended it: who was live, and who waited for a name.
    pub(super) fn into_ended(self) -> (Vec<OpenId>, Vec<(OpenId, ObjectKey)>) {
        let (mut live, mut waiting) = (Vec::new(), Vec::new());
        for (key, Name { place, ids }) in self.names {
            match place {
                Place::In => live.extend(ids),
                Place::Out | Place::Adding | Place::Removing => {
                    waiting.extend(ids.into_iter().map(|id| (id, key.clone())));
                }
            }
        }
        live.sort_unstable();
        waiting.sort_unstable();
        (live, waiting)
    }

    /// Takes names to add and to take out, as many as go into one message.
    fn take_due(&mut self) -> (Vec<ObjectKey>, Vec<ObjectKey>) {
        let (mut added, mut removed) = (Vec::new(), Vec::new());
        while self.asked.len() < MAX_NAMES
            && let Some(key) = self.due.pop_first()
        {
            let Some(name) = self.names.get_mut(&key) else { continue };
            match (name.place, name.ids.is_empty()) {
                (Place::Out, false) => {
                    name.place = Place::Adding;
                    added.push(key.clone());
                }
                (Place::In, true) => {
                    name.place = Place::Removing;
                    removed.push(key.clone());
                }
                (Place::Out, true) => {
                    self.names.remove(&key);
                    continue;
                }
                // Nothing is under way when this is asked.
                (Place::In, false) | (Place::Adding | Place::Removing, _) => continue,
            }
            self.asked.push(key);
        }
        (added, removed)
    }
}
