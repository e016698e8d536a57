//! A small upstream to test against: pods with labels and a node, written one change at a time into a log that is known in
//! full, and interests that are judged by plain code beside weir's own matching.
//!
//! Its objects are real JSON that goes through the same scan as upstream's; only their content is small.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::interest::{Interest, Scope};
use weir_core::message::{Change, ChangeKind, InterestEvent};
use weir_core::object::ObjectSchema;
use weir_core::selector::{FieldSelector, FieldTable, LabelSelector};
use weir_core::shard_selector::ShardSelector;
use weir_core::{GroupVersionResource, Object, ObjectKey, ResourceVersion, fnv1a64};

use crate::checker::{History, Seen, Version};

/// What an object of the model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The label `app`; none when empty.
    pub app: String,
    /// `spec.nodeName`; none when empty.
    pub node: String,
    /// Bytes of content besides.
    pub padding: usize,
}

/// An interest and what it means, in plain code.
#[derive(Clone)]
pub struct Wanted {
    /// For messages.
    pub name: String,
    /// As weir understands it.
    pub interest: Arc<Interest>,
    /// What it means.
    pub means: Arc<dyn Fn(&Pod) -> bool>,
}

/// The upstream: its log, and what it holds.
#[derive(Clone, Debug)]
pub struct Upstream {
    schema: Arc<ObjectSchema>,
    history: History,
    changes: Vec<Change>,
    pods: BTreeMap<ObjectKey, Pod>,
    written: BTreeMap<ResourceVersion, Pod>,
    revision: ResourceVersion,
}

// === impl Pod ===

impl Pod {
    /// A pod without label, node and padding.
    pub fn new(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            app: String::new(),
            node: String::new(),
            padding: 0,
        }
    }

    /// Its key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// The hash that spreads it over shards.
    pub fn hash(&self) -> u64 {
        fnv1a64(self.uid.as_bytes())
    }

    /// As upstream's list shows it at `rv`.
    pub fn json(&self, rv: ResourceVersion) -> String {
        let Self { namespace, name, uid, app, node, padding } = self;
        let labels = if app.is_empty() { String::new() } else { format!(r#","labels":{{"app":"{app}"}}"#) };
        let node = if node.is_empty() { String::new() } else { format!(r#""nodeName":"{node}""#) };
        let padding = "x".repeat(*padding);
        format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{rv}"{labels}}},"spec":{{{node}}},"status":{{"message":"{padding}"}}}}"#
        )
    }
}

// === impl Upstream ===

impl Upstream {
    /// An empty one; its first write has the revision behind `revision`.
    pub fn new(revision: ResourceVersion) -> Self {
        let schema = ObjectSchema::new(table()).expect("the paths of pods' fields are known");
        Self {
            schema: Arc::new(schema),
            history: History::from_list(revision, []),
            changes: Vec::new(),
            pods: BTreeMap::new(),
            written: BTreeMap::new(),
            revision,
        }
    }

    /// The log for the checker.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Upstream's newest revision, of whatever resource.
    pub fn revision(&self) -> ResourceVersion {
        self.revision
    }

    /// Something else than pods was written.
    pub fn skip(&mut self) {
        self.revision = self.revision.next();
    }

    /// Creates or replaces a pod.
    pub fn put(&mut self, pod: Pod) -> ResourceVersion {
        self.write(ChangeKind::Put, pod)
    }

    /// Deletes a pod, if it is there.
    pub fn delete(&mut self, key: &ObjectKey) -> Option<ResourceVersion> {
        let pod = self.pods.get(key)?.clone();
        Some(self.write(ChangeKind::Delete, pod))
    }

    /// The pods that exist now.
    pub fn pods(&self) -> &BTreeMap<ObjectKey, Pod> {
        &self.pods
    }

    /// The changes in (after, to], as a feed reads them.
    pub fn changes(&self, after: ResourceVersion, to: ResourceVersion) -> &[Change] {
        let first = self.changes.partition_point(|change| change.rv <= after);
        let end = self.changes.partition_point(|change| change.rv <= to);
        &self.changes[first..end.max(first)]
    }

    /// The objects at `at`, as a feed lists them.
    pub fn objects(&self, at: ResourceVersion) -> Vec<Arc<Object>> {
        self.history.snapshot(at).iter().map(|version| Arc::new(self.parse(&version.body))).collect()
    }

    /// The backup taken at `at`: the same history up to there. What is written next takes the same numbers again.
    #[must_use]
    pub fn restored(&self, at: ResourceVersion) -> Self {
        let history = self.history.cut_at(at);
        let pod_of = |version: &Version| (version.key.clone(), self.written[&version.rv].clone());
        let pods = history.snapshot(at).iter().map(pod_of).collect();
        let changes = self.changes(ResourceVersion::ZERO, at).to_vec();
        let written = self.written.range(..=at).map(|(rv, pod)| (*rv, pod.clone())).collect();
        Self { schema: self.schema.clone(), history, changes, pods, written, revision: at.min(self.revision) }
    }

    /// Whether a version of this log is of the interest.
    pub fn means(&self, wanted: &Wanted, version: &Version) -> bool {
        self.written.get(&version.rv).is_some_and(|pod| (wanted.means)(pod))
    }

    fn write(&mut self, kind: ChangeKind, pod: Pod) -> ResourceVersion {
        let rv = self.revision.next();
        self.revision = rv;
        let body = pod.json(rv);
        let object = Arc::new(self.parse(body.as_bytes()));
        let version = Version { key: pod.key(), uid: pod.uid.as_str().into(), rv, body: body.into() };
        self.history.push(kind, version);
        self.changes.push(Change { rv, kind, object });
        self.written.insert(rv, pod.clone());
        match kind {
            ChangeKind::Put => self.pods.insert(pod.key(), pod),
            ChangeKind::Delete => self.pods.remove(&pod.key()),
        };
        rv
    }

    fn parse(&self, body: &[u8]) -> Object {
        Object::parse(body, &self.schema).expect("a pod of the model is an object")
    }
}

// === impl Wanted ===

impl Wanted {
    /// Everything.
    pub fn everything() -> Self {
        Self::of("everything", Interest::everything(), |_| true)
    }

    /// One namespace.
    pub fn namespace(namespace: &str) -> Self {
        let scope = Scope { namespace: Some(namespace.into()), name: None };
        let interest = Interest::new(scope, LabelSelector::everything(), Vec::new(), None);
        let namespace = namespace.to_owned();
        Self::of("namespace", interest, move |pod| pod.namespace == namespace)
    }

    /// One name in one namespace.
    pub fn name(namespace: &str, name: &str) -> Self {
        let scope = Scope { namespace: Some(namespace.into()), name: Some(name.into()) };
        let interest = Interest::new(scope, LabelSelector::everything(), Vec::new(), None);
        let key = ObjectKey::new(namespace, name);
        Self::of("name", interest, move |pod| pod.key() == key)
    }

    /// Pods with the label `app`.
    pub fn app(app: &str) -> Self {
        let labels = LabelSelector::parse(&format!("app={app}")).expect("a label selector");
        let app = app.to_owned();
        Self::of("app", Interest::new(Scope::default(), labels, Vec::new(), None), move |pod| pod.app == app)
    }

    /// Pods of one namespace without this value of the label `app`.
    pub fn namespace_without_app(namespace: &str, app: &str) -> Self {
        let labels = LabelSelector::parse(&format!("app!={app}")).expect("a label selector");
        let scope = Scope { namespace: Some(namespace.into()), name: None };
        let (namespace, app) = (namespace.to_owned(), app.to_owned());
        let means = move |pod: &Pod| pod.namespace == namespace && pod.app != app;
        Self::of("namespace without app", Interest::new(scope, labels, Vec::new(), None), means)
    }

    /// Pods on one node.
    pub fn node(node: &str) -> Self {
        let fields = FieldSelector::parse(&format!("spec.nodeName={node}")).expect("a field selector");
        let fields = table().resolve(&fields).expect("pods are selected by node");
        let node = node.to_owned();
        let interest = Interest::new(Scope::default(), LabelSelector::everything(), fields, None);
        Self::of("node", interest, move |pod| pod.node == node)
    }

    /// Pods on one node with the label `app`.
    pub fn node_and_app(node: &str, app: &str) -> Self {
        let fields = FieldSelector::parse(&format!("spec.nodeName={node}")).expect("a field selector");
        let fields = table().resolve(&fields).expect("pods are selected by node");
        let labels = LabelSelector::parse(&format!("app={app}")).expect("a label selector");
        let (node, app) = (node.to_owned(), app.to_owned());
        let interest = Interest::new(Scope::default(), labels, fields, None);
        Self::of("node and app", interest, move |pod| pod.node == node && pod.app == app)
    }

    /// Pods whose uid's hash lies in [start, end).
    pub fn uids(start: u128, end: u128) -> Self {
        let means = move |pod: &Pod| (start..end).contains(&u128::from(pod.hash()));
        Self::of("uids", sharded("object.metadata.uid", start, end), means)
    }

    /// Pods whose namespace's hash lies in [start, end).
    pub fn namespaces(start: u128, end: u128) -> Self {
        let hash = |pod: &Pod| u128::from(fnv1a64(pod.namespace.as_bytes()));
        let means = move |pod: &Pod| (start..end).contains(&hash(pod));
        Self::of("namespaces", sharded("object.metadata.namespace", start, end), means)
    }

    fn of(name: &str, interest: Interest, means: impl Fn(&Pod) -> bool + 'static) -> Self {
        Self { name: name.to_owned(), interest: Arc::new(interest), means: Arc::new(means) }
    }
}

/// A version as the checker sees the object.
pub fn version(object: &Object) -> Version {
    Version {
        key: object.key().clone(),
        uid: object.uid().into(),
        rv: object.rv(),
        body: object.bytes().clone(),
    }
}

/// An event as the checker sees it.
pub fn seen(event: &InterestEvent) -> Seen {
    Seen { kind: event.kind, version: version(&event.object) }
}

fn sharded(path: &str, start: u128, end: u128) -> Interest {
    let text = format!("shardRange({path}, '{start:#018x}', '{end:#018x}')");
    let shard = ShardSelector::parse(&text).expect("a shard selector");
    Interest::new(Scope::default(), LabelSelector::everything(), Vec::new(), Some(shard))
}

fn table() -> FieldTable {
    FieldTable::of(&GroupVersionResource::new("", "v1", "pods"), None).expect("pods have a table")
}
