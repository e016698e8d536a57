//! The registered interests, indexed so that a change is offered to those that it can concern: by name, by the value that
//! an exact field term requires, by namespace; the rest is asked one by one. A change is looked up under what the object
//! was and what it is. A name set stands under each of its keys, and a change has one key, so it is found once.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use weir_core::interest::{FieldTarget, Interest};
use weir_core::message::{Change, ChangeKind, NamesChange, NamesEdit, Open, OpenId};
use weir_core::{Object, ObjectKey, SlotSet};

use super::{Hit, SessionId};

/// One registered interest.
#[derive(Clone, Debug)]
struct Registered {
    session: SessionId,
    id: OpenId,
    interest: Arc<Interest>,
    slots: SlotSet,
}

/// Where an interest stands in the index.
#[derive(Clone, Debug)]
enum Shelf {
    Name(Arc<str>),
    Field(usize, Arc<str>),
    Namespace(Arc<str>),
    Names(Box<NameSet>),
    Rest,
}

/// A registration with names.
#[derive(Clone, Debug)]
struct NameSet {
    one: Registered,
    keys: HashSet<ObjectKey>,
    next_edit: NamesEdit,
}

type ByKey = HashMap<ObjectKey, Vec<Registered>>;
type ByText = HashMap<Arc<str>, Vec<Registered>>;

/// Registered interests. Each stands on exactly one shelf, a name set under several keys.
#[derive(Debug, Default)]
pub(super) struct Registry {
    shelf_of: HashMap<(SessionId, OpenId), Shelf>,
    by_name: ByText,
    by_key: ByKey,
    by_field: BTreeMap<usize, ByText>,
    by_namespace: ByText,
    rest: Vec<Registered>,
}

// === impl Registry ===

impl Registry {
    pub(super) fn len(&self) -> usize {
        self.shelf_of.len()
    }

    pub(super) fn insert(&mut self, session: SessionId, open: Open) {
        let Open { id, interest, slots, credit: _ } = open;
        let shelf = Shelf::of_interest(&interest);
        self.shelf_of.insert((session, id), shelf.clone());
        let one = Registered { session, id, interest, slots };
        match shelf {
            Shelf::Name(name) => put(&mut self.by_name, name, one),
            Shelf::Field(field, value) => put(self.by_field.entry(field).or_default(), value, one),
            Shelf::Namespace(namespace) => put(&mut self.by_namespace, namespace, one),
            Shelf::Rest => self.rest.push(one),
            // Only a registration with names stands there.
            Shelf::Names(_) => {}
        }
    }

    /// Registers a name set. How many names it has.
    pub(super) fn insert_names(&mut self, session: SessionId, open: Open, names: Vec<ObjectKey>) -> usize {
        let Open { id, interest, slots, credit: _ } = open;
        let one = Registered { session, id, interest, slots };
        let keys: HashSet<_> = names.into_iter().collect();
        for key in &keys {
            put(&mut self.by_key, key.clone(), one.clone());
        }
        let count = keys.len();
        let set = NameSet { one, keys, next_edit: NamesEdit::FIRST };
        self.shelf_of.insert((session, id), Shelf::Names(Box::new(set)));
        count
    }

    /// The number that the next change of a name set must have; `None` where it is none.
    pub(super) fn next_edit(&self, session: SessionId, id: OpenId) -> Option<NamesEdit> {
        match self.shelf_of.get(&(session, id))? {
            Shelf::Names(set) => Some(set.next_edit),
            Shelf::Name(_) | Shelf::Field(..) | Shelf::Namespace(_) | Shelf::Rest => None,
        }
    }

    /// Changes a name set, and says how many names it has then. `None` where there is no such set, or where this is not its
    /// next change: nothing has changed.
    pub(super) fn edit(&mut self, session: SessionId, change: NamesChange) -> Option<usize> {
        let NamesChange { id, edit, added, removed } = change;
        let Some(Shelf::Names(set)) = self.shelf_of.get_mut(&(session, id)) else { return None };
        if edit != set.next_edit {
            return None;
        }
        set.next_edit = edit.next();
        let is_other = |one: &Registered| (one.session, one.id) != (session, id);
        for key in removed {
            if set.keys.remove(&key) {
                retain(&mut self.by_key, key.as_str(), is_other);
            }
        }
        for key in added {
            if set.keys.insert(key.clone()) {
                put(&mut self.by_key, key, set.one.clone());
            }
        }
        Some(set.keys.len())
    }

    pub(super) fn remove(&mut self, session: SessionId, id: OpenId) {
        let Some(shelf) = self.shelf_of.remove(&(session, id)) else { return };
        let is_other = |one: &Registered| (one.session, one.id) != (session, id);
        match shelf {
            Shelf::Name(name) => retain(&mut self.by_name, &name, is_other),
            Shelf::Namespace(namespace) => retain(&mut self.by_namespace, &namespace, is_other),
            Shelf::Rest => self.rest.retain(is_other),
            Shelf::Names(set) => {
                set.keys.iter().for_each(|key| retain(&mut self.by_key, key.as_str(), is_other));
            }
            Shelf::Field(field, value) => {
                if let Some(values) = self.by_field.get_mut(&field) {
                    retain(values, &value, is_other);
                    if values.is_empty() {
                        self.by_field.remove(&field);
                    }
                }
            }
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes all registrations of a session in one walk.
    pub(super) fn remove_session(&mut self, session: SessionId) {
        let is_other = |one: &Registered| one.session != session;
        self.shelf_of.retain(|(of, _), _| *of != session);
        self.rest.retain(is_other);
        for shelves in
            [&mut self.by_name, &mut self.by_namespace].into_iter().chain(self.by_field.values_mut())
        {
            sweep(shelves, is_other);
        }
        sweep(&mut self.by_key, is_other);
        self.by_field.retain(|_, values| !values.is_empty());
    }

    /// Every registration that sees the change, and how.
    pub(super) fn seen_by(&self, previous: Option<&Arc<Object>>, change: &Change) -> Vec<Hit> {
        let previous = previous.map(|object| &**object);
        let current = current(change);
        let slot = change.object.slot();
        let asked = self.candidates(previous, change).into_iter().flatten();
        let hits = asked.filter(|one| one.slots.contains(slot)).filter_map(|one| {
            let kind = one.interest.event_kind(previous, current)?;
            Some(Hit { session: one.session, id: one.id, kind })
        });
        hits.collect()
    }

    /// The shelves whose interests the change can concern; an interest stands on one of them only.
    fn candidates(&self, previous: Option<&Object>, change: &Change) -> Vec<&[Registered]> {
        let key = change.object.key();
        let mut shelves =
            vec![of(&self.by_name, key.name()), of(&self.by_namespace, key.namespace()), &self.rest];
        shelves.push(of(&self.by_key, key.as_str()));
        for (field, values) in &self.by_field {
            let was = previous.map(|object| object.field(*field));
            let is = current(change).map(|object| object.field(*field));
            shelves.extend(was.map(|value| of(values, value)));
            shelves.extend(is.filter(|_| is != was).map(|value| of(values, value)));
        }
        shelves
    }
}

// === impl Shelf ===

impl Shelf {
    fn of_interest(interest: &Interest) -> Self {
        let scope = &interest.scope;
        let exact = |target: FieldTarget| {
            let mut terms = interest.fields.iter().filter(|term| !term.is_negated && term.target == target);
            terms.next().map(|term| term.value.clone())
        };
        if let Some(name) = scope.name.clone().or_else(|| exact(FieldTarget::Name)) {
            return Self::Name(name);
        }
        if let Some((field, value)) = interest.exact_field() {
            return Self::Field(field, value.clone());
        }
        let namespace = scope.namespace.clone().or_else(|| exact(FieldTarget::Namespace));
        namespace.map_or(Self::Rest, Self::Namespace)
    }
}

/// What the object is after the change.
fn current(change: &Change) -> Option<&Object> {
    match change.kind {
        ChangeKind::Put => Some(&change.object),
        ChangeKind::Delete => None,
    }
}

/// Most shelves hold one registration, so they begin with room for one.
fn put<K: Hash + Eq>(shelves: &mut HashMap<K, Vec<Registered>>, key: K, one: Registered) {
    shelves.entry(key).or_insert_with(|| Vec::with_capacity(1)).push(one);
}

fn of<'a, K: Hash + Eq + Borrow<str>>(
    shelves: &'a HashMap<K, Vec<Registered>>,
    text: &str,
) -> &'a [Registered] {
    shelves.get(text).map_or(&[], Vec::as_slice)
}

/// Leaves on every shelf what is to stay.
fn sweep<K>(shelves: &mut HashMap<K, Vec<Registered>>, keep: impl Fn(&Registered) -> bool) {
    shelves.retain(|_, shelf| {
        shelf.retain(&keep);
        !shelf.is_empty()
    });
}

fn retain<K: Hash + Eq + Borrow<str>>(
    shelves: &mut HashMap<K, Vec<Registered>>,
    text: &str,
    keep: impl Fn(&Registered) -> bool,
) {
    if let Some(shelf) = shelves.get_mut(text) {
        shelf.retain(keep);
        if shelf.is_empty() {
            shelves.remove(text);
        }
    }
}

#[cfg(test)]
mod tests;
