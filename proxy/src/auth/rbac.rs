//! Which rights there are by name, so that a change of one says whose watches to ask about first. Only what that takes is kept:
//! of a binding its role and whom it names, of a role a hash of its rules. What a rule means is upstream's to say.
//!
//! A right that is added takes none away, so only what was there before and is not any more names anybody; of a role that changed it
//! is not known which rules went.

mod reader;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::reader::RbacReader;
use super::standings::{Named, Subject};

/// Objects that are kept: 100,000 × ~300 bytes ≈ 30 MB; clusters have thousands. With more nothing is said of any, and the round
/// finds what was lost.
const MAX_OBJECTS: usize = 100_000;

/// The four kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
}

/// An object of one of them; at cluster scope the namespace is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) kind: Kind,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

/// One object, as far as it is looked at.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RbacObject<'a> {
    pub(super) metadata: Metadata,
    #[serde(default)]
    subjects: Option<Vec<RawSubject>>,
    #[serde(default)]
    role_ref: Option<RoleRef>,
    #[serde(borrow, default)]
    rules: Option<&'a RawValue>,
}

/// Its name and position.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) name: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) resource_version: Box<str>,
    /// Of lists.
    #[serde(rename = "continue")]
    pub(super) more: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawSubject {
    kind: Box<str>,
    name: Box<str>,
    namespace: Box<str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: Box<str>,
    name: Box<str>,
}

/// All rights by name.
#[derive(Debug, Default)]
pub(super) struct Rbac {
    keys: RandomState,
    bindings: HashMap<Key, Binding>,
    /// The rules of roles, as hashes.
    roles: HashMap<Key, u64>,
}

/// What a binding gives to whom.
#[derive(Debug, PartialEq, Eq)]
struct Binding {
    role: Key,
    subjects: Box<[Subject]>,
}

// === impl Kind ===

impl Kind {
    /// All of them.
    pub(super) const ALL: [Self; 4] =
        [Self::Role, Self::RoleBinding, Self::ClusterRole, Self::ClusterRoleBinding];

    /// The plural.
    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRole => "clusterroles",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    fn is_role(self) -> bool {
        match self {
            Self::Role | Self::ClusterRole => true,
            Self::RoleBinding | Self::ClusterRoleBinding => false,
        }
    }
}

// === impl RbacObject ===

impl RbacObject<'_> {
    /// Its key among the objects of a kind.
    pub(super) fn key(&self, kind: Kind) -> Key {
        Key { kind, namespace: self.metadata.namespace.clone(), name: self.metadata.name.clone() }
    }

    fn binding(self, kind: Kind) -> Binding {
        let RoleRef { kind: role_kind, name } = self.role_ref.unwrap_or_default();
        let role = match (&*role_kind, kind) {
            ("Role", Kind::RoleBinding) => Key { kind: Kind::Role, namespace: self.metadata.namespace, name },
            _ => Key { kind: Kind::ClusterRole, namespace: Box::default(), name },
        };
        let subjects = self.subjects.unwrap_or_default().into_iter().filter_map(RawSubject::named);
        Binding { role, subjects: subjects.collect() }
    }
}

// === impl RawSubject ===

impl RawSubject {
    fn named(self) -> Option<Subject> {
        let Self { kind, name, namespace } = self;
        match &*kind {
            "User" => Some(Subject::User(name)),
            "Group" => Some(Subject::Group(name)),
            "ServiceAccount" => {
                Some(Subject::User(format!("system:serviceaccount:{namespace}:{name}").into()))
            }
            _ => None,
        }
    }
}

// === impl Rbac ===

impl Rbac {
    /// An object that is there now. Whom it may have taken something from.
    pub(super) fn set(&mut self, kind: Kind, object: RbacObject<'_>) -> Option<Named> {
        let key = object.key(kind);
        if kind.is_role() {
            let rules = self.keys.hash_one(object.rules.map(RawValue::get).unwrap_or_default());
            let before = self.roles.insert(key.clone(), rules);
            return before.filter(|before| *before != rules).and_then(|_| self.bound_to(&key));
        }
        let now = object.binding(kind);
        let lost = self.bindings.get(&key).and_then(|before| before.lost(&now));
        self.bindings.insert(key.clone(), now);
        lost.map(|subjects| Named { subjects, namespace: key.reach() })
    }

    /// An object that is not there any more. Whom it takes something from.
    pub(super) fn delete(&mut self, key: &Key) -> Option<Named> {
        if key.kind.is_role() {
            self.roles.remove(key)?;
            return self.bound_to(key);
        }
        let Binding { subjects, .. } = self.bindings.remove(key)?;
        (!subjects.is_empty())
            .then(|| Named { subjects: subjects.into_iter().collect(), namespace: key.reach() })
    }

    /// What is not among all that there is of a kind goes.
    pub(super) fn retain(&mut self, kind: Kind, all: &HashSet<Key>) -> Vec<Named> {
        let keys = self.roles.keys().chain(self.bindings.keys());
        let gone = keys.filter(|key| key.kind == kind && !all.contains(key));
        let gone: Vec<_> = gone.cloned().collect();
        gone.iter().filter_map(|key| self.delete(key)).collect()
    }

    /// Whether there are more than can be kept.
    pub(super) fn is_full(&self) -> bool {
        self.bindings.len() + self.roles.len() > MAX_OBJECTS
    }

    /// Forgets all of a kind.
    pub(super) fn forget(&mut self, kind: Kind) {
        self.bindings.retain(|key, _| key.kind != kind);
        self.roles.retain(|key, _| key.kind != kind);
    }

    /// Those to whom bindings give a role; everywhere, if one of these does.
    fn bound_to(&self, role: &Key) -> Option<Named> {
        let mut named: Option<Named> = None;
        for (key, binding) in self.bindings.iter().filter(|(_, binding)| binding.role == *role) {
            let subjects = binding.subjects.iter().cloned();
            match &mut named {
                None => named = Some(Named { subjects: subjects.collect(), namespace: key.reach() }),
                Some(named) => {
                    named.subjects.extend(subjects);
                    if named.namespace != key.reach() {
                        named.namespace = None;
                    }
                }
            }
        }
        named.filter(|named| !named.subjects.is_empty())
    }
}

// === impl Key ===

impl Key {
    fn reach(&self) -> Option<Box<str>> {
        (!self.namespace.is_empty()).then(|| self.namespace.clone())
    }
}

// === impl Binding ===

impl Binding {
    /// Those who had something by this one that they have not by the next.
    fn lost(&self, next: &Self) -> Option<HashSet<Subject>> {
        let is_same_role = self.role == next.role;
        let is_lost = |subject: &&Subject| !is_same_role || !next.subjects.contains(subject);
        let lost: HashSet<_> = self.subjects.iter().filter(is_lost).cloned().collect();
        (!lost.is_empty()).then_some(lost)
    }
}
