//! Whom a change of somebody's rights names.

use std::collections::HashSet;

use crate::auth::identity::Identity;

/// Somebody whom a binding names. A service account is the user that it is for upstream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::auth) enum Subject {
    /// A user.
    User(Box<str>),
    /// All of a group.
    Group(Box<str>),
}

/// Those whom a change names, and where their rights may have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::auth) struct Named {
    /// Who.
    pub(in crate::auth) subjects: HashSet<Subject>,
    /// In this namespace only; `None` for everywhere.
    pub(in crate::auth) namespace: Option<Box<str>>,
}

// === impl Named ===

impl Named {
    /// Whether it names somebody.
    pub(super) fn names(&self, identity: &Identity) -> bool {
        let is_named = |subject| self.subjects.contains(&subject);
        is_named(Subject::User(identity.username.as_str().into()))
            || identity.groups.iter().any(|group| is_named(Subject::Group(group.as_str().into())))
    }

    /// Whether it may change what somebody may do in a namespace, or at cluster scope where that is empty.
    pub(super) fn reaches(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}
