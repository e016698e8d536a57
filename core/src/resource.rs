//! Names of resources: the API's group, version and plural. The core group is the empty string.

use std::fmt;
use std::sync::Arc;

/// A resource without its version, as users write it: `pods`, `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The plural in lower case.
    pub resource: Arc<str>,
}

/// A resource at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The version, for example `v1`.
    pub version: Arc<str>,
    /// The plural in lower case.
    pub resource: Arc<str>,
}

// === impl GroupResource ===

impl GroupResource {
    /// Splits `plural` or `plural.group` at the first dot.
    pub fn parse(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group: group.into(), resource: resource.into() }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_group_resource(f, &self.group, &self.resource)
    }
}

// === impl GroupVersionResource ===

impl GroupVersionResource {
    /// The resource at this version.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    /// `v1` or `group/v1`, as in an object's `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The same without its version.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }

    /// The path of the collection over all namespaces, for example `/apis/apps/v1/deployments`.
    pub fn collection_path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}/{}", self.version, self.resource)
        } else {
            format!("/apis/{}/{}/{}", self.group, self.version, self.resource)
        }
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_group_resource(f, &self.group, &self.resource)?;
        write!(f, "@{}", self.version)
    }
}

fn write_group_resource(f: &mut fmt::Formatter<'_>, group: &str, resource: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(resource) } else { write!(f, "{resource}.{group}") }
}
