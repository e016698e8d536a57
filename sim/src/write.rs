//! Writes: what they check, which fields the server sets, and when nothing is written at all.
//!
//! A write that changes nothing is answered but leaves no event. An object with finalizers is not gone when it is
//! deleted: it is changed, and the write that takes the last finalizer away deletes it.

use std::sync::Arc;

use weir_core::Status;

use crate::catalog::{ResourceId, ResourceInfo};
use crate::clock;
use crate::json::Node;
use crate::log::{EventType, Log, LogEvent};
use crate::object::{Object, StoreKey};
use crate::refusal;
use crate::seed::Seed;

/// One write.
#[derive(Debug, Clone)]
pub enum Op {
    /// Creates an object in a namespace (or in none), under the name in its metadata or one made of generateName.
    Create {
        /// The collection.
        resource: ResourceId,
        /// The namespace.
        namespace: Option<String>,
        /// The object as the client sends it.
        body: Node,
    },
    /// Replaces an object; a resourceVersion in the body must be the current one.
    Update {
        /// The collection.
        resource: ResourceId,
        /// The object.
        key: StoreKey,
        /// The object as the client sends it.
        body: Node,
    },
    /// Applies a JSON merge patch.
    Patch {
        /// The collection.
        resource: ResourceId,
        /// The object.
        key: StoreKey,
        /// The patch.
        patch: Node,
    },
    /// Deletes an object.
    Delete {
        /// The collection.
        resource: ResourceId,
        /// The object.
        key: StoreKey,
        /// What must be true of it.
        only_if: Preconditions,
    },
}

/// What must be true of an object for its deletion.
#[derive(Debug, Clone, Default)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its resourceVersion.
    pub rv: Option<String>,
}

/// What a write did.
#[derive(Debug, Clone)]
pub struct Written {
    /// The object that the answer shows.
    pub object: Arc<Object>,
    /// The event in the log; none when nothing was written.
    pub event: Option<Arc<LogEvent>>,
}

/// The log and what a write needs besides.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) log: &'a mut Log,
    pub(crate) seed: &'a mut Seed,
    pub(crate) resource: ResourceId,
    pub(crate) info: &'a ResourceInfo,
}

// === impl Op ===

impl Op {
    /// The collection that it changes.
    pub fn resource(&self) -> ResourceId {
        match self {
            Self::Create { resource, .. }
            | Self::Update { resource, .. }
            | Self::Patch { resource, .. }
            | Self::Delete { resource, .. } => *resource,
        }
    }
}

// === impl Writer ===

impl Writer<'_> {
    /// Does a write.
    ///
    /// # Errors
    /// 404, 409 or 422, as upstream says them.
    pub(crate) fn write(&mut self, op: Op) -> Result<Written, Status> {
        match op {
            Op::Create { namespace, body, .. } => self.create(namespace, body),
            Op::Update { key, body, .. } => self.update(&key, body),
            Op::Patch { key, patch, .. } => {
                let mut tree = self.current(&key)?.tree();
                tree.merge(&patch);
                self.update(&key, tree)
            }
            Op::Delete { key, only_if, .. } => self.delete(&key, &only_if),
        }
    }

    fn create(&mut self, namespace: Option<String>, mut tree: Node) -> Result<Written, Status> {
        let name = self.name_for(&tree)?;
        if !tree.text_at(&["metadata", "resourceVersion"]).unwrap_or_default().is_empty() {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(400, "BadRequest", message));
        }
        let key = StoreKey::new(namespace.as_deref(), &name);
        if self.find(&key).is_some() {
            return Err(refusal::already_exists(self.info, &name));
        }
        let rv = self.log.head().next();
        let has_spec = tree.get("spec").is_some();
        let metadata = tree.entry("metadata");
        metadata.set("name", Node::from(name));
        match namespace {
            Some(namespace) => metadata.set("namespace", Node::from(namespace)),
            None => drop(metadata.remove("namespace")),
        }
        metadata.set("uid", Node::from(self.seed.uid()));
        metadata.set("creationTimestamp", Node::from(clock::timestamp(rv)));
        if has_spec {
            metadata.set("generation", Node::from(1));
        }
        Ok(self.append(EventType::Added, tree))
    }

    fn update(&mut self, key: &StoreKey, mut tree: Node) -> Result<Written, Status> {
        let current = self.current(key)?;
        let own = current.tree();
        self.check_identity(&current, &tree)?;
        keep_server_fields(&own, &mut tree);
        tree.entry("metadata").set("resourceVersion", Node::from(current.rv().to_string()));
        if Object::from_tree(self.info, tree.clone()).bytes() == current.bytes() {
            return Ok(Written { object: current, event: None });
        }
        if own.get("spec") != tree.get("spec") && own.at(&["metadata", "generation"]).is_some() {
            let generation = own.at(&["metadata", "generation"]).map_or(0, generation);
            tree.entry("metadata").set("generation", Node::from(generation + 1));
        }
        if is_terminating(&own) && !has_finalizers(&tree) {
            let event = self.append(EventType::Deleted, own).event;
            return Ok(Written { object: Arc::new(Object::from_tree(self.info, tree)), event });
        }
        Ok(self.append(EventType::Modified, tree))
    }

    fn delete(&mut self, key: &StoreKey, only_if: &Preconditions) -> Result<Written, Status> {
        let current = self.current(key)?;
        let fault = |what: &str, wanted: &str, has: &str| {
            format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {has}")
        };
        if let Some(uid) = only_if.uid.as_deref().filter(|uid| *uid != current.uid()) {
            return Err(refusal::conflict(self.info, key.name(), &fault("UID", uid, current.uid())));
        }
        let own_rv = current.rv().to_string();
        if let Some(rv) = only_if.rv.as_deref().filter(|rv| *rv != own_rv) {
            return Err(refusal::conflict(self.info, key.name(), &fault("ResourceVersion", rv, &own_rv)));
        }
        let mut tree = current.tree();
        if !has_finalizers(&tree) {
            return Ok(self.append(EventType::Deleted, tree));
        }
        if is_terminating(&tree) {
            return Ok(Written { object: current, event: None });
        }
        let now = clock::timestamp(self.log.head().next());
        let metadata = tree.entry("metadata");
        metadata.set("deletionTimestamp", Node::from(now));
        metadata.set("deletionGracePeriodSeconds", Node::from(0));
        Ok(self.append(EventType::Modified, tree))
    }

    fn append(&mut self, event: EventType, mut tree: Node) -> Written {
        let rv = self.log.head().next();
        tree.entry("metadata").set("resourceVersion", Node::from(rv.to_string()));
        let event = self.log.append(self.resource, event, Object::from_tree(self.info, tree));
        Written { object: Arc::clone(&event.object), event: Some(event) }
    }

    fn find(&self, key: &StoreKey) -> Option<Arc<Object>> {
        self.log.get(self.resource, key, self.log.head()).map(Arc::clone)
    }

    fn current(&self, key: &StoreKey) -> Result<Arc<Object>, Status> {
        self.find(key).ok_or_else(|| refusal::not_found(self.info, key.name()))
    }

    fn name_for(&mut self, tree: &Node) -> Result<String, Status> {
        let text = |field| tree.text_at(&["metadata", field]).unwrap_or_default();
        if !text("name").is_empty() {
            let name = text("name");
            let is_clean = !name.contains('/') && !name.contains('%') && name != "." && name != "..";
            let fault = ("metadata.name", "Invalid value: may not be a path");
            return is_clean.then(|| name.to_owned()).ok_or_else(|| refusal::invalid(self.info, name, fault));
        }
        if text("generateName").is_empty() {
            let fault = ("metadata.name", "Required value: name or generateName is required");
            return Err(refusal::invalid(self.info, "", fault));
        }
        Ok(format!("{}{}", text("generateName"), self.seed.suffix()))
    }

    fn check_identity(&self, current: &Object, tree: &Node) -> Result<(), Status> {
        let text = |field| tree.text_at(&["metadata", field]).unwrap_or_default();
        let name = current.key().name();
        if !text("name").is_empty() && text("name") != name {
            let message = format!(
                "the name of the object ({}) does not match the name on the URL ({name})",
                text("name")
            );
            return Err(Status::new(400, "BadRequest", message));
        }
        let uid = text("uid");
        if !uid.is_empty() && uid != current.uid() {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                current.uid()
            );
            return Err(refusal::conflict(self.info, name, &why));
        }
        let rv = text("resourceVersion");
        if !rv.is_empty() && rv.parse() != Ok(current.rv()) {
            return Err(refusal::modified_since(self.info, name));
        }
        Ok(())
    }
}

/// What a client cannot change: it is taken from the object as it stands.
fn keep_server_fields(own: &Node, tree: &mut Node) {
    const KEPT: [&str; 7] = [
        "name",
        "namespace",
        "uid",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    let metadata = tree.entry("metadata");
    for field in KEPT {
        match own.at(&["metadata", field]) {
            Some(value) => metadata.set(field, value.clone()),
            None => drop(metadata.remove(field)),
        }
    }
}

fn generation(node: &Node) -> u64 {
    match node {
        Node::Number(number) => number.as_u64().unwrap_or(0),
        Node::Null | Node::Bool(_) | Node::String(_) | Node::Array(_) | Node::Object(_) => 0,
    }
}

fn is_terminating(tree: &Node) -> bool {
    tree.at(&["metadata", "deletionTimestamp"]).is_some()
}

fn has_finalizers(tree: &Node) -> bool {
    tree.at(&["metadata", "finalizers"]).is_some_and(|finalizers| !finalizers.elements().is_empty())
}
