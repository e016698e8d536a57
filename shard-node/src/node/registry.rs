//! The registered interests, indexed so that a change is offered to those that it can concern: by key, by the value that
//! an exact field term requires, by namespace; the rest is asked one by one. A change is looked up under what the object
//! was and what it is.

use std::collections::HashMap;
use std::sync::Arc;

use weir_core::interest::Interest;
use weir_core::message::{Change, ChangeKind, Open, OpenId};
use weir_core::{Object, SlotSet};

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
    Key(Arc<str>),
    Field(usize, Arc<str>),
    Namespace(Arc<str>),
    Rest,
}

type ByText = HashMap<Arc<str>, Vec<Registered>>;

/// Registered interests. Each stands on exactly one shelf.
#[derive(Debug, Default)]
pub(super) struct Registry {
    shelf_of: HashMap<(SessionId, OpenId), Shelf>,
    by_key: ByText,
    by_field: HashMap<usize, ByText>,
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
            Shelf::Key(key) => self.by_key.entry(key).or_default().push(one),
            Shelf::Field(field, value) => self.by_field.entry(field).or_default().entry(value).or_default().push(one),
            Shelf::Namespace(namespace) => self.by_namespace.entry(namespace).or_default().push(one),
            Shelf::Rest => self.rest.push(one),
        }
    }

    pub(super) fn remove(&mut self, session: SessionId, id: OpenId) {
        let Some(shelf) = self.shelf_of.remove(&(session, id)) else { return };
        let is_other = |one: &Registered| (one.session, one.id) != (session, id);
        match shelf {
            Shelf::Key(key) => retain(&mut self.by_key, &key, is_other),
            Shelf::Namespace(namespace) => retain(&mut self.by_namespace, &namespace, is_other),
            Shelf::Rest => self.rest.retain(is_other),
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

    /// Every registration that sees the change, and how.
    pub(super) fn seen_by(&self, previous: Option<&Arc<Object>>, change: &Change) -> Vec<Hit> {
        let previous = previous.map(|object| &**object);
        let current = match change.kind {
            ChangeKind::Put => Some(&*change.object),
            ChangeKind::Delete => None,
        };
        let mut hits = Vec::new();
        let mut offer = |shelf: &[Registered]| {
            for one in shelf.iter().filter(|one| one.slots.contains(change.object.slot())) {
                let kind = one.interest.event_kind(previous, current);
                hits.extend(kind.map(|kind| Hit { session: one.session, id: one.id, kind }));
            }
        };
        let key = change.object.key();
        offer(of(&self.by_key, key.as_str()));
        offer(of(&self.by_namespace, key.namespace()));
        offer(&self.rest);
        for (field, values) in &self.by_field {
            let was = previous.map(|object| object.field(*field));
            let is = current.map(|object| object.field(*field));
            was.into_iter().for_each(|value| offer(of(values, value)));
            is.filter(|_| is != was).into_iter().for_each(|value| offer(of(values, value)));
        }
        hits
    }
}

// === impl Shelf ===

impl Shelf {
    fn of_interest(interest: &Interest) -> Self {
        let scope = &interest.scope;
        match (&scope.namespace, &scope.name) {
            (Some(namespace), Some(name)) => Self::Key(format!("{namespace}/{name}").into()),
            (None, Some(_)) | (Some(_) | None, None) => match interest.exact_field() {
                Some((field, value)) => Self::Field(field, value.clone()),
                None => scope.namespace.clone().map_or(Self::Rest, Self::Namespace),
            },
        }
    }
}

fn of<'a>(shelves: &'a ByText, text: &str) -> &'a [Registered] {
    shelves.get(text).map_or(&[], Vec::as_slice)
}

fn retain(shelves: &mut ByText, text: &str, keep: impl Fn(&Registered) -> bool) {
    if let Some(shelf) = shelves.get_mut(text) {
        shelf.retain(keep);
        if shelf.is_empty() {
            shelves.remove(text);
        }
    }
}
