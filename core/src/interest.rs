//! What a client watches or lists: scope, selectors and shard ranges over one mirror. All clients with equal interests
//! share one registration at each node and one hub, so equality is by canonical text, not by how the client spelled it.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::message::EventKind;
use crate::object::Object;
use crate::selector::LabelSelector;
use crate::shard_selector::{ShardField, ShardSelector};
use crate::slot::SlotSet;

/// Which part of a collection is meant, on whole path segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// One namespace, or all of them.
    pub namespace: Option<Arc<str>>,
    /// One name, or all of them.
    pub name: Option<Arc<str>>,
}

/// A term of a field selector, with its label resolved against the resource's table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    /// Whose value is compared.
    pub target: FieldTarget,
    /// Whether it must be equal or must differ.
    pub is_negated: bool,
    /// With what.
    pub value: Arc<str>,
}

/// What a field label stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldTarget {
    /// `metadata.name`.
    Name,
    /// `metadata.namespace`.
    Namespace,
    /// The selectable field with this index in the resource's table.
    Field(usize),
    /// A label that upstream accepts and never sets: always the empty text.
    NeverSet,
}

/// One distinct interest.
#[derive(Clone, Debug)]
pub struct Interest {
    /// The part of the collection.
    pub scope: Scope,
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector's terms, all of which must hold.
    pub fields: Vec<FieldTerm>,
    /// The shard selector.
    pub shard: Option<ShardSelector>,
    canonical: Box<str>,
}

// === impl Interest ===

impl Interest {
    /// An interest; equal ones have equal canonical texts.
    pub fn new(
        scope: Scope,
        labels: LabelSelector,
        fields: Vec<FieldTerm>,
        shard: Option<ShardSelector>,
    ) -> Self {
        let mut canonical = format!("{:?}/{:?}?{labels}", scope.namespace, scope.name);
        for term in &fields {
            // Writing to a String cannot fail.
            let _ = write!(canonical, "&{term:?}");
        }
        if let Some(shard) = &shard {
            let _ = write!(canonical, "&{shard}");
        }
        Self { scope, labels, fields, shard, canonical: canonical.into() }
    }

    /// Everything in the collection.
    pub fn everything() -> Self {
        Self::new(Scope::default(), LabelSelector::everything(), Vec::new(), None)
    }

    /// Whether the object is in the interest.
    pub fn matches(&self, object: &Object) -> bool {
        self.scope.contains(object)
            && self.shard.as_ref().is_none_or(|shard| shard_contains(shard, object))
            && self.fields.iter().all(|term| term.matches(object))
            && self.labels.matches(|key| object.label(key))
    }

    /// How a change from `previous` to `current` looks, `None` where it is not seen.
    pub fn event_kind(&self, previous: Option<&Object>, current: Option<&Object>) -> Option<EventKind> {
        let matched = previous.is_some_and(|object| self.matches(object));
        let matches = current.is_some_and(|object| self.matches(object));
        match (matched, matches) {
            (false, true) => Some(EventKind::Added),
            (true, true) => Some(EventKind::Modified),
            (true, false) => Some(EventKind::Deleted),
            (false, false) => None,
        }
    }

    /// The slots in which matching objects can live.
    pub fn slots(&self) -> SlotSet {
        match &self.shard {
            Some(shard) if shard.field() == ShardField::Uid => {
                shard.ranges().iter().fold(SlotSet::EMPTY, |slots, range| slots.union(&range.slots()))
            }
            Some(_) | None => SlotSet::ALL,
        }
    }

    /// Whether nothing but the scope narrows the collection; the condition of `remainingItemCount`.
    pub fn has_no_selector(&self) -> bool {
        self.labels.is_everything() && self.fields.is_empty() && self.shard.is_none()
    }

    /// The value that an exact term requires of a selectable field, for the index by field.
    pub fn exact_field(&self) -> Option<(usize, &Arc<str>)> {
        self.fields.iter().find_map(|term| match term.target {
            FieldTarget::Field(index) if !term.is_negated => Some((index, &term.value)),
            FieldTarget::Field(_) | FieldTarget::Name | FieldTarget::Namespace | FieldTarget::NeverSet => {
                None
            }
        })
    }
}

impl PartialEq for Interest {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical
    }
}

impl Eq for Interest {}

impl Hash for Interest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical.hash(state);
    }
}

// === impl Scope ===

impl Scope {
    /// Whether the object lies in the scope.
    pub fn contains(&self, object: &Object) -> bool {
        let key = object.key();
        self.namespace.as_deref().is_none_or(|namespace| key.namespace() == namespace)
            && self.name.as_deref().is_none_or(|name| key.name() == name)
    }

    /// Whether one object at most can lie in the scope.
    pub fn is_one_object(&self, is_namespaced: bool) -> bool {
        self.name.is_some() && (self.namespace.is_some() || !is_namespaced)
    }

    /// What every key in the scope begins with: `namespace/`, or nothing.
    pub fn prefix(&self) -> String {
        self.namespace.as_deref().map_or_else(String::new, |namespace| format!("{namespace}/"))
    }
}

// === impl FieldTerm ===

impl FieldTerm {
    /// Whether the object meets the term.
    pub fn matches(&self, object: &Object) -> bool {
        let value = match self.target {
            FieldTarget::Name => object.key().name(),
            FieldTarget::Namespace => object.key().namespace(),
            FieldTarget::Field(index) => object.field(index),
            FieldTarget::NeverSet => "",
        };
        (value == &*self.value) != self.is_negated
    }
}

fn shard_contains(shard: &ShardSelector, object: &Object) -> bool {
    shard.matches(match shard.field() {
        ShardField::Uid => object.uid_hash(),
        ShardField::Namespace => object.namespace_hash(),
    })
}
