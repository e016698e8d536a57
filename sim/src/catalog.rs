//! What the simulated apiserver serves: its resources, each with the forms that belong to its kind.
//!
//! The bookmark of a built-in kind is the zero value of its Go struct, so it is more than metadata; `bookmark_tail`
//! holds what follows the metadata. A custom resource has none.

use std::collections::BTreeSet;
use std::fmt;

use weir_core::{GroupResource, GroupVersionResource};

/// A resource of the catalog, by its place in it. Valid only for the cluster whose catalog gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(pub(crate) usize);

/// Whether the objects of a resource live in namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In a namespace each.
    Namespaced,
    /// In none.
    Cluster,
}

/// Who defined a resource, which decides the form of its JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Compiled in: keys in struct order, items of lists without kind and apiVersion.
    BuiltIn,
    /// By a CustomResourceDefinition: sorted keys, items complete, `continue` always present in lists.
    Custom,
}

/// Whether an instance keeps a watch cache of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caching {
    /// Yes: bookmarks, history from the instance's start on, resourceVersion=0 from its own state.
    Cached,
    /// No, as for events: every read sees the log itself, no plain bookmarks.
    Uncached,
}

/// All that is known of one resource.
#[derive(Debug, Clone)]
pub struct ResourceInfo {
    /// Group, version and plural name.
    pub gvr: GroupVersionResource,
    /// The kind of its objects.
    pub kind: String,
    /// Short names, for discovery.
    pub short: Vec<String>,
    /// Namespaced or not.
    pub scope: Scope,
    /// Built-in or custom.
    pub origin: Origin,
    /// With a watch cache or without.
    pub caching: Caching,
    /// What a bookmark's object has after its metadata: a comma and pairs, or nothing.
    pub bookmark_tail: String,
    /// Fields that may be selected besides those that every object has, as dotted paths (custom resources only).
    pub selectable: Vec<String>,
    /// The text of the Warning header that comes with every answer about it.
    pub deprecation: Option<String>,
}

/// The resources of one cluster.
#[derive(Debug, Clone)]
pub struct Catalog {
    resources: Vec<ResourceInfo>,
    unserved: BTreeSet<ResourceId>,
}

// === impl ResourceInfo ===

impl ResourceInfo {
    /// A namespaced custom resource.
    pub fn custom(gvr: GroupVersionResource, kind: &str) -> Self {
        Self {
            gvr,
            kind: kind.to_owned(),
            short: Vec::new(),
            scope: Scope::Namespaced,
            origin: Origin::Custom,
            caching: Caching::Cached,
            bookmark_tail: String::new(),
            selectable: Vec::new(),
            deprecation: None,
        }
    }

    /// A cached built-in resource.
    pub fn built_in(gvr: GroupVersionResource, kind: &str, scope: Scope) -> Self {
        Self { scope, origin: Origin::BuiltIn, ..Self::custom(gvr, kind) }
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// Whether its objects live in namespaces.
    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    /// Whether a CustomResourceDefinition defines it.
    pub fn is_custom(&self) -> bool {
        self.origin == Origin::Custom
    }

    /// Whether instances keep a watch cache of it.
    pub fn is_cached(&self) -> bool {
        self.caching == Caching::Cached
    }
}

impl fmt::Display for ResourceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.gvr.group_resource())
    }
}

// === impl Catalog ===

impl Catalog {
    /// The built-in resources.
    pub fn built_in() -> Self {
        Self { resources: BUILT_IN.iter().map(BuiltIn::info).collect(), unserved: BTreeSet::new() }
    }

    /// Adds a resource, or hands back the one that has its group and plural already.
    pub fn add(&mut self, info: ResourceInfo) -> ResourceId {
        self.find(&info.gvr.group_resource()).unwrap_or_else(|| {
            self.resources.push(info);
            ResourceId(self.resources.len() - 1)
        })
    }

    /// The resource of that group and plural name.
    pub fn find(&self, name: &GroupResource) -> Option<ResourceId> {
        self.position(|gvr| gvr.group == name.group && gvr.resource == name.resource)
    }

    /// The resource of that group, version and plural name.
    pub fn find_version(&self, gvr: &GroupVersionResource) -> Option<ResourceId> {
        self.position(|own| own == gvr).filter(|id| !self.unserved.contains(id))
    }

    /// Serves a resource no longer, or again.
    pub fn set_served(&mut self, id: ResourceId, is_served: bool) {
        if is_served {
            self.unserved.remove(&id);
        } else {
            self.unserved.insert(id);
        }
    }

    /// What is known of a resource.
    pub fn info(&self, id: ResourceId) -> &ResourceInfo {
        &self.resources[id.0]
    }

    /// All resources that are served, in the order of their ids.
    pub fn all(&self) -> impl Iterator<Item = (ResourceId, &ResourceInfo)> {
        let all = self.resources.iter().enumerate().map(|(index, info)| (ResourceId(index), info));
        all.filter(|(id, _)| !self.unserved.contains(id))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.resources.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn position(&self, is_it: impl Fn(&GroupVersionResource) -> bool) -> Option<ResourceId> {
        self.resources.iter().position(|info| is_it(&info.gvr)).map(ResourceId)
    }
}

struct BuiltIn {
    group: &'static str,
    version: &'static str,
    resource: &'static str,
    kind: &'static str,
    short: &'static str,
    scope: Scope,
    caching: Caching,
    tail: &'static str,
}

// === impl BuiltIn ===

impl BuiltIn {
    const fn core(resource: &'static str, kind: &'static str, short: &'static str) -> Self {
        Self {
            group: "",
            version: "v1",
            resource,
            kind,
            short,
            scope: Scope::Namespaced,
            caching: Caching::Cached,
            tail: "",
        }
    }

    const fn of(mut self, group: &'static str) -> Self {
        self.group = group;
        self
    }

    const fn cluster(mut self) -> Self {
        self.scope = Scope::Cluster;
        self
    }

    const fn uncached(mut self) -> Self {
        self.caching = Caching::Uncached;
        self
    }

    const fn tail(mut self, tail: &'static str) -> Self {
        self.tail = tail;
        self
    }

    fn info(&self) -> ResourceInfo {
        let gvr = GroupVersionResource::new(self.group, self.version, self.resource);
        let is_deprecated = self.resource == "endpoints";
        ResourceInfo {
            deprecation: is_deprecated.then(|| ENDPOINTS_DEPRECATION.to_owned()),
            short: self.short.split_whitespace().map(str::to_owned).collect(),
            caching: self.caching,
            bookmark_tail: self.tail.to_owned(),
            ..ResourceInfo::built_in(gvr, self.kind, self.scope)
        }
    }
}

const ENDPOINTS_DEPRECATION: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
const SPEC_STATUS: &str = r#","spec":{},"status":{}"#;
const NODE: &str = r#","spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#;
const DEPLOYMENT: &str = r#","spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#;
const EVENT: &str = r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#;

const BUILT_IN: &[BuiltIn] = &[
    BuiltIn::core("configmaps", "ConfigMap", "cm"),
    BuiltIn::core("endpoints", "Endpoints", "ep"),
    BuiltIn::core("events", "Event", "ev").uncached().tail(EVENT),
    BuiltIn::core("namespaces", "Namespace", "ns").cluster().tail(SPEC_STATUS),
    BuiltIn::core("nodes", "Node", "no").cluster().tail(NODE),
    BuiltIn::core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc")
        .tail(r#","spec":{"resources":{}},"status":{}"#),
    BuiltIn::core("persistentvolumes", "PersistentVolume", "pv").cluster().tail(SPEC_STATUS),
    BuiltIn::core("pods", "Pod", "po").tail(r#","spec":{"containers":null},"status":{}"#),
    BuiltIn::core("replicationcontrollers", "ReplicationController", "rc")
        .tail(r#","spec":{},"status":{"replicas":0}"#),
    BuiltIn::core("secrets", "Secret", ""),
    BuiltIn::core("serviceaccounts", "ServiceAccount", "sa"),
    BuiltIn::core("services", "Service", "svc").tail(r#","spec":{},"status":{"loadBalancer":{}}"#),
    BuiltIn::core("deployments", "Deployment", "deploy").of("apps").tail(DEPLOYMENT),
    BuiltIn::core("jobs", "Job", "")
        .of("batch")
        .tail(r#","spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}"#),
    BuiltIn::core("leases", "Lease", "").of("coordination.k8s.io").tail(r#","spec":{}"#),
    BuiltIn::core("clusterroles", "ClusterRole", "")
        .of("rbac.authorization.k8s.io")
        .cluster()
        .tail(r#","rules":null"#),
    BuiltIn::core("roles", "Role", "").of("rbac.authorization.k8s.io").tail(r#","rules":null"#),
];
