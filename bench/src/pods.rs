//! Pods as upstream writes them, made from their numbers, so that two runs measure the same bytes. A pod keeps its key and
//! uid whatever its size: one that is replaced by a smaller one stays on its shard.

use std::fmt::Write as _;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_core::interest::{FieldTerm, Interest, Scope};
use weir_core::mirror::{BookmarkTemplate, JsonForm, MirrorFacts, MirrorSpec};
use weir_core::object::ObjectSchema;
use weir_core::selector::{FieldSelector, FieldTable, LabelSelector};
use weir_core::{GroupVersionResource, Object, ResourceVersion};

/// Pods of one namespace.
const IN_NAMESPACE: usize = 1_000;
/// What an entry of the environment adds to a pod.
const SETTING_BYTES: usize = 76;

/// A pod's identity; all of it follows from the number.
#[derive(Clone, Copy, Debug)]
pub struct PodNumber(pub usize);

/// How large pods are.
#[derive(Clone, Copy, Debug)]
pub struct PodBytes {
    /// At least about this.
    pub least: usize,
    /// At most about this.
    pub most: usize,
}

/// What a mirror of pods is.
#[derive(Clone, Debug)]
pub struct PodMirror {
    /// The mirror.
    pub spec: Arc<MirrorSpec>,
    /// What answers repeat.
    pub facts: MirrorFacts,
}

// === impl PodNumber ===

impl PodNumber {
    /// The pod at a revision, of about so many bytes.
    pub fn json(self, rv: ResourceVersion, size: PodBytes) -> String {
        let mut rng = SmallRng::seed_from_u64(self.0 as u64);
        let target = rng.random_range(size.least..=size.most);
        let mut text = self.head(rv);
        let tail = self.tail();
        text.push_str(
            r#""spec":{"containers":[{"name":"web","image":"registry.example.com/web:1.27","env":["#,
        );
        let mut index = 0;
        while text.len() + tail.len() + SETTING_BYTES <= target {
            let comma = if index == 0 { "" } else { "," };
            let value: u128 = rng.random();
            // Writing to a String cannot fail.
            let _ = write!(text, r#"{comma}{{"name":"SETTING_{index:04}","value":"{value:032x}"}}"#);
            index += 1;
        }
        text.push_str(&tail);
        text
    }

    /// The name of its node; every pod has one of its own among `nodes`.
    pub fn node(self) -> String {
        format!("node-{:05}", self.0)
    }

    fn uid(self) -> String {
        let mut rng = SmallRng::seed_from_u64(!(self.0 as u64));
        let (a, b): (u64, u64) = (rng.random(), rng.random());
        let parts = (a >> 32, a >> 16 & 0xffff, a & 0x0fff, b >> 48 & 0x3fff | 0x8000, b & 0xffff_ffff_ffff);
        format!("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", parts.0, parts.1, parts.2, parts.3, parts.4)
    }

    fn head(self, rv: ResourceVersion) -> String {
        let (namespace, app) = (self.0 / IN_NAMESPACE, self.0 / 10);
        format!(
            concat!(
                r#"{{"metadata":{{"name":"web-{number:07}","namespace":"team-{namespace:03}","uid":"{uid}","#,
                r#""resourceVersion":"{rv}","creationTimestamp":"2026-11-30T08:00:00Z","#,
                r#""labels":{{"app":"web-{app:06}","pod-template-hash":"{hash:010x}","tier":"front"}}}},"#,
            ),
            number = self.0,
            namespace = namespace,
            uid = self.uid(),
            rv = rv,
            app = app,
            hash = app * 2_654_435_761_usize % 0xff_ffff_ffff,
        )
    }

    fn tail(self) -> String {
        let ip = format!("10.{}.{}.{}", self.0 >> 16 & 255, self.0 >> 8 & 255, self.0 & 255);
        format!(
            concat!(
                r#"]}}],"restartPolicy":"Always","serviceAccountName":"web","nodeName":"{node}","#,
                r#""schedulerName":"default-scheduler"}},"#,
                r#""status":{{"phase":"Running","podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}]}}}}"#,
            ),
            node = self.node(),
            ip = ip,
        )
    }
}

// === impl PodBytes ===

impl PodBytes {
    /// Without any setting.
    pub const SMALL: Self = Self { least: 0, most: 0 };

    /// About so many.
    pub const fn about(bytes: usize) -> Self {
        Self { least: bytes, most: bytes }
    }
}

// === impl PodMirror ===

impl PodMirror {
    /// A mirror of core/v1 pods.
    pub fn new() -> Self {
        let resource = GroupVersionResource::new("", "v1", "pods");
        let table = FieldTable::of(&resource, None).expect("pods have fields in single places");
        let spec = MirrorSpec {
            resource,
            kind: "Pod".into(),
            is_namespaced: true,
            form: JsonForm::BuiltIn,
            schema: Arc::new(ObjectSchema::new(table).expect("the paths of pods are well formed")),
        };
        let bookmark = BookmarkTemplate::composed(&spec);
        let facts = MirrorFacts { list_kind: "PodList".into(), warnings: Vec::new(), bookmark };
        Self { spec: Arc::new(spec), facts }
    }

    /// A pod as the mirror keeps it.
    pub fn object(&self, pod: PodNumber, rv: ResourceVersion, size: PodBytes) -> Arc<Object> {
        let json = pod.json(rv, size);
        Arc::new(Object::parse(json.as_bytes(), &self.spec.schema).expect("a made pod is an object"))
    }

    /// The first `count` pods, in key order, all at one revision.
    pub fn objects(&self, count: usize, rv: ResourceVersion, size: PodBytes) -> Vec<Arc<Object>> {
        (0..count).map(|number| self.object(PodNumber(number), rv, size)).collect()
    }

    /// The interest of one kubelet: the pods of a node.
    pub fn of_node(&self, pod: PodNumber) -> Arc<Interest> {
        let selector = FieldSelector::equals("spec.nodeName", &pod.node());
        let fields: Vec<FieldTerm> =
            self.spec.schema.table().resolve(&selector).expect("pods are selected by node");
        Arc::new(Interest::new(Scope::default(), LabelSelector::everything(), fields, None))
    }
}

impl Default for PodMirror {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_keeps_key_and_uid_whatever_its_size() {
        let mirror = PodMirror::new();
        let large =
            mirror.object(PodNumber(71_234), ResourceVersion::new(7), PodBytes { least: 2_000, most: 6_000 });
        let small = mirror.object(PodNumber(71_234), ResourceVersion::new(8), PodBytes::SMALL);
        assert!((1_900..=6_000).contains(&large.bytes().len()), "{}", large.bytes().len());
        assert!(small.bytes().len() < 700, "{}", small.bytes().len());
        assert_eq!((large.key(), large.uid()), (small.key(), small.uid()));
        assert!(mirror.of_node(PodNumber(71_234)).matches(&small));
        assert!(!mirror.of_node(PodNumber(71_235)).matches(&small));
    }

    #[test]
    fn numbers_rise_like_keys() {
        let keys: Vec<String> = [0, 1, 999, 1_000, 70_000]
            .map(|number| {
                PodMirror::new().object(PodNumber(number), ResourceVersion::new(7), PodBytes::SMALL)
            })
            .map(|object| object.key().to_string())
            .to_vec();
        assert!(keys.is_sorted(), "{keys:?}");
    }
}
