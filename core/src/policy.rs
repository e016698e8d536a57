//! Which resources may be mirrored. It says what weir is allowed to read, not what upstream serves: a resource that is allowed
//! may turn out not to exist.

use std::collections::BTreeSet;

use crate::resource::{GroupResource, GroupVersionResource};

/// Resources that are never mirrored unless they are named: their objects change all the time and nobody watches them,
/// upstream keeps no cache of them, or nobody should hold them unasked.
const NEVER_UNASKED: [&str; 4] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io", "secrets"];

/// What is mirrored.
#[derive(Clone, Debug, Default)]
pub struct MirrorPolicy {
    /// Resources named in the configuration. If there are any, no others are mirrored.
    pub named: BTreeSet<GroupResource>,
}

// === impl MirrorPolicy ===

impl MirrorPolicy {
    /// Whether the resource may be mirrored.
    pub fn allows(&self, resource: &GroupVersionResource) -> bool {
        let resource = resource.group_resource();
        if self.named.is_empty() {
            return !NEVER_UNASKED.contains(&resource.to_string().as_str());
        }
        self.named.contains(&resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods() -> GroupVersionResource {
        GroupVersionResource::new("", "v1", "pods")
    }

    fn secrets() -> GroupVersionResource {
        GroupVersionResource::new("", "v1", "secrets")
    }

    #[test]
    fn unasked_everything_but_the_exceptions_is_mirrored() {
        let policy = MirrorPolicy::default();
        assert!(policy.allows(&pods()));
        for (group, resource) in
            [("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases"), ("", "secrets")]
        {
            assert!(!policy.allows(&GroupVersionResource::new(group, "v1", resource)), "{resource}.{group}");
        }
    }

    #[test]
    fn what_is_named_is_mirrored_and_nothing_else() {
        let policy = MirrorPolicy { named: [GroupResource::parse("secrets")].into() };
        assert!(policy.allows(&secrets()), "also an exception");
        assert!(!policy.allows(&pods()));
    }
}
