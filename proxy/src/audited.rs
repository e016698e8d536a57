//! Answers about which resources are audited: what upstream says of their callers is kept for the log.

use std::collections::BTreeSet;

use weir_core::{GroupResource, GroupVersionResource};

/// Answers about which resources are audited.
#[derive(Clone, Debug)]
pub enum Audited {
    /// All.
    All,
    /// These.
    Only(BTreeSet<GroupResource>),
}

// === impl Audited ===

impl Audited {
    /// Of names as users write them; `*` is all.
    pub fn of(names: &[String]) -> Self {
        if names.iter().any(|name| name == "*") {
            return Self::All;
        }
        let names = names.iter().filter(|name| !name.is_empty());
        Self::Only(names.map(|name| GroupResource::parse(name)).collect())
    }

    /// Whether a resource is among them.
    pub fn covers(&self, resource: &GroupVersionResource) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(&resource.group_resource()),
        }
    }
}
