//! The truth: upstream's log as the simulation recorded it, in the checker's terms, and what a client asks for in words that
//! weir has no part in: a selection is judged by the text of an object and by a hash made here.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use weir_core::message::ChangeKind;
use weir_core::{ObjectKey, ResourceVersion};
use weir_sim::{EventType, Object, Record, ResourceId, ResourceInfo, Sim, Upheaval};
use weir_tests::checker::{History, Item, Listing, Seen, Version, Watch, check_list, check_watch};

use crate::client::Whole;

/// One collection of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Collection {
    pub(crate) id: ResourceId,
    info: ResourceInfo,
}

/// The lives of a collection's log: each restored backup begins another.
pub(crate) struct Truth {
    pub(crate) lives: Vec<History>,
}

/// What a client asks for, and which objects that means.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) collection: Collection,
    pub(crate) namespace: Option<String>,
    /// Parameters of the query, each with a `&` behind it.
    pub(crate) query: String,
    means: Arc<dyn Fn(&Version) -> bool + Send + Sync>,
}

/// Half-open range of hashes in 16ths of the space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sixteenths {
    pub(crate) from: u8,
    pub(crate) to: u8,
}

#[derive(Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    uid: String,
    resource_version: String,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: ListMetadata,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// What a list says of itself.
#[derive(Deserialize, Debug, Clone)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMetadata {
    resource_version: String,
    #[serde(default, rename = "continue")]
    pub(crate) token: String,
}

/// The version whose JSON this is.
pub(crate) fn version_of(json: &str) -> Version {
    let Named { metadata } = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    Version {
        key: ObjectKey::new(&metadata.namespace, &metadata.name),
        uid: metadata.uid.into(),
        rv: metadata.resource_version.parse().unwrap(),
        body: json.to_owned().into(),
    }
}

fn recorded(object: &Object) -> Version {
    Version {
        key: ObjectKey::new(object.key().namespace(), object.key().name()),
        uid: object.uid().into(),
        rv: object.rv(),
        body: object.bytes().clone(),
    }
}

/// FNV-1a with 64 bits, as the shard selectors' documentation defines it.
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

// === impl Collection ===

impl Collection {
    /// The collection that users write so: `pods`, `gauges.metering.weir.test`.
    pub(crate) fn named(sim: &Sim, name: &str) -> Self {
        let id = sim.resource(name).unwrap_or_else(|| panic!("no resource {name}"));
        Self { id, info: sim.read(|cluster| cluster.catalog().info(id).clone()) }
    }

    pub(crate) fn gvr(&self) -> &weir_core::GroupVersionResource {
        &self.info.gvr
    }

    /// The path of the collection, or of it in one namespace.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let gvr = self.gvr();
        let root = if gvr.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", gvr.group) };
        let place = namespace.map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
        format!("{root}/{}/{place}{}", gvr.version, gvr.resource)
    }

    /// The items of a list as single objects: built-in kinds lack kind and apiVersion there.
    pub(crate) fn items(&self, list: &Whole) -> (ListMetadata, Vec<Version>) {
        let parsed: List<'_> =
            serde_json::from_slice(&list.body).unwrap_or_else(|error| panic!("{error}: {}", list.text()));
        let full = |item: &&RawValue| match self.info.is_custom() {
            true => version_of(item.get()),
            false => {
                let (kind, version) = (&self.info.kind, self.gvr().api_version());
                let rest = item.get().strip_prefix('{').unwrap();
                version_of(&format!(r#"{{"kind":"{kind}","apiVersion":"{version}",{rest}"#))
            }
        };
        let items = parsed.items.iter().map(full).collect();
        (parsed.metadata, items)
    }

    /// What the log says of it.
    pub(crate) fn truth(&self, sim: &Sim) -> Truth {
        let mut lives = vec![History::default()];
        for record in sim.log() {
            let life = lives.last_mut().unwrap();
            match record {
                Record::Event(event) if event.resource == self.id => {
                    let kind = match event.event {
                        EventType::Added | EventType::Modified => ChangeKind::Put,
                        EventType::Deleted => ChangeKind::Delete,
                    };
                    life.push(kind, recorded(&event.object));
                }
                Record::Upheaval(Upheaval::Restored(at)) => {
                    let next = life.cut_at(at);
                    lives.push(next);
                }
                Record::Event(_) | Record::Upheaval(_) => {}
            }
        }
        Truth { lives }
    }
}

// === impl ListMetadata ===

impl ListMetadata {
    pub(crate) fn at(&self) -> ResourceVersion {
        self.resource_version.parse().unwrap()
    }
}

// === impl Truth ===

impl Truth {
    /// The log of the present life.
    pub(crate) fn now(&self) -> &History {
        self.lives.last().unwrap()
    }

    /// The revision of the last event that a client of the choice has to see, if any lies behind `after`.
    pub(crate) fn last_event(&self, choice: &Choice, after: ResourceVersion) -> Option<ResourceVersion> {
        let now = self.now();
        now.events(&*choice.means, after, now.last()).last().map(|seen| seen.version.rv)
    }

    /// The events of the choice behind `after`.
    pub(crate) fn events(&self, choice: &Choice, after: ResourceVersion) -> Vec<Seen> {
        let now = self.now();
        now.events(&*choice.means, after, now.last()).collect()
    }

    /// How many objects of the choice there are.
    pub(crate) fn count(&self, choice: &Choice) -> usize {
        self.now().snapshot(self.now().last()).iter().filter(|version| (choice.means)(version)).count()
    }

    #[track_caller]
    pub(crate) fn check_watch(&self, choice: &Choice, watch: &Watch) {
        if let Err(fault) = check_watch(self.now(), &*choice.means, watch) {
            let at = watch.items.iter().map(|item| match item {
                Item::Event(seen) => format!("{:?}@{}", seen.kind, seen.version.rv),
                Item::Bookmark(at) => format!("bookmark@{at}"),
            });
            panic!("{choice:?} from {}: {fault}\n{:?}", watch.after, at.collect::<Vec<_>>());
        }
    }

    /// Judges a list that was read in one go or whose pages were joined.
    #[track_caller]
    pub(crate) fn check_list(&self, choice: &Choice, listing: &Listing) {
        if let Err(fault) = check_list(self.now(), &*choice.means, listing) {
            panic!("{choice:?}: {fault}");
        }
    }
}

// === impl Choice ===

impl Choice {
    /// All objects of a collection.
    pub(crate) fn all(collection: &Collection) -> Self {
        Self {
            collection: collection.clone(),
            namespace: None,
            query: String::new(),
            means: Arc::new(|_| true),
        }
    }

    pub(crate) fn in_namespace(self, namespace: &str) -> Self {
        let owned = namespace.to_owned();
        let means = move |version: &Version| version.key.namespace() == owned;
        Self { namespace: Some(namespace.to_owned()), ..self.and("", means) }
    }

    /// Objects with that label value; the label is named nowhere else in an object.
    pub(crate) fn tier(self, tier: &str) -> Self {
        let text = format!(r#""tier":"{tier}""#);
        let means = move |version: &Version| contains(version, &text);
        self.and(&format!("labelSelector=tier%3D{tier}&"), means)
    }

    pub(crate) fn not_tier(self, tier: &str) -> Self {
        let text = format!(r#""tier":"{tier}""#);
        let means = move |version: &Version| !contains(version, &text);
        self.and(&format!("labelSelector=tier%21%3D{tier}&"), means)
    }

    pub(crate) fn on_node(self, node: &str) -> Self {
        let text = format!(r#""nodeName":"{node}""#);
        let means = move |version: &Version| contains(version, &text);
        self.and(&format!("fieldSelector=spec.nodeName%3D{node}&"), means)
    }

    pub(crate) fn with_unit(self, unit: &str) -> Self {
        let text = format!(r#""unit":"{unit}""#);
        let means = move |version: &Version| contains(version, &text);
        self.and(&format!("fieldSelector=spec.unit%3D{unit}&"), means)
    }

    pub(crate) fn named(self, name: &str) -> Self {
        let owned = name.to_owned();
        let means = move |version: &Version| version.key.name() == owned;
        self.and(&format!("fieldSelector=metadata.name%3D{name}&"), means)
    }

    /// Objects whose uid's hash lies in the range.
    pub(crate) fn uids(self, range: Sixteenths) -> Self {
        let means = move |version: &Version| range.contains(fnv(&version.uid));
        self.and(&range.selector("uid"), means)
    }

    /// Objects whose namespace's hash lies in the range.
    pub(crate) fn namespaces(self, range: Sixteenths) -> Self {
        let means = move |version: &Version| range.contains(fnv(version.key.namespace()));
        self.and(&range.selector("namespace"), means)
    }

    /// The path of the collection with the selectors and more parameters.
    pub(crate) fn path(&self, more: &str) -> String {
        format!("{}?{}{more}", self.collection.path(self.namespace.as_deref()), self.query)
    }

    fn and(self, query: &str, also: impl Fn(&Version) -> bool + Send + Sync + 'static) -> Self {
        let before = self.means;
        let means = Arc::new(move |version: &Version| before(version) && also(version));
        Self { query: self.query + query, means, ..self }
    }
}

impl std::fmt::Debug for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path(""))
    }
}

fn contains(version: &Version, text: &str) -> bool {
    std::str::from_utf8(&version.body).unwrap().contains(text)
}

// === impl Sixteenths ===

impl Sixteenths {
    pub(crate) fn contains(self, hash: u64) -> bool {
        let sixteenth = u8::try_from(hash >> 60).unwrap();
        self.from <= sixteenth && sixteenth < self.to
    }

    fn selector(self, field: &str) -> String {
        let bound = |sixteenth: u8| format!("0x{:016x}", u128::from(sixteenth) << 60);
        let (from, to) = (bound(self.from), bound(self.to));
        let text = format!("shardRange(object.metadata.{field},'{from}','{to}')");
        format!("shardSelector={}&", text.replace('\'', "%27").replace(',', "%2C"))
    }
}
