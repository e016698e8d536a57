//! The objects of the churning cluster, in the key order and about the size that real ones have (2 to 6 KB, most of it
//! in managedFields and status). Values that no selector looks at are plausible, not meaningful.

use weir_core::GroupVersionResource;

use crate::catalog::ResourceInfo;
use crate::json::{Node, object};
use crate::seed::Seed;

/// The custom resource of the churning cluster: `gauges.metering.weir.test`.
pub fn gauges() -> ResourceInfo {
    let gvr = GroupVersionResource::new("metering.weir.test", "v1", "gauges");
    ResourceInfo {
        short: vec!["ga".to_owned()],
        selectable: vec!["spec.unit".to_owned()],
        ..ResourceInfo::custom(gvr, "Gauge")
    }
}

/// A namespace.
pub(super) fn namespace(name: &str) -> Node {
    object([
        (
            "metadata",
            object([("name", text(name)), ("labels", object([("kubernetes.io/metadata.name", text(name))]))]),
        ),
        ("spec", object([("finalizers", list([text("kubernetes")]))])),
        ("status", object([("phase", text("Active"))])),
    ])
}

/// A node, which reports as ready.
pub(super) fn node(seed: &mut Seed, name: &str) -> Node {
    let zone = format!("zone-{}", seed.below(3));
    let labels = object([
        ("kubernetes.io/arch", text("amd64")),
        ("kubernetes.io/hostname", text(name)),
        ("kubernetes.io/os", text("linux")),
        ("topology.kubernetes.io/zone", text(&zone)),
    ]);
    let resources = object([("cpu", text("16")), ("memory", text("65842156Ki")), ("pods", text("110"))]);
    let images = (0..12).map(|_| {
        let image = format!("registry.weir.test/{}@sha256:{}", seed.text(12), seed.text(64));
        object([("names", list([text(&image)])), ("sizeBytes", Node::from(seed.below(900_000_000) as u64))])
    });
    let images = Node::Array(images.collect());
    let info = object([
        ("machineID", text(&seed.uid())),
        ("systemUUID", text(&seed.uid())),
        ("bootID", text(&seed.uid())),
        ("kernelVersion", text("6.12.0")),
        ("osImage", text("Debian GNU/Linux 13")),
        ("containerRuntimeVersion", text("containerd://2.1.0")),
        ("kubeletVersion", text("v1.37.2")),
        ("kubeProxyVersion", text("v1.37.2")),
        ("operatingSystem", text("linux")),
        ("architecture", text("amd64")),
    ]);
    object([
        ("metadata", metadata(name, (labels, "kubelet", &["spec", "status"]))),
        ("spec", object([("podCIDR", text(&format!("10.{}.0.0/24", seed.below(255))))])),
        (
            "status",
            object([
                ("capacity", resources.clone()),
                ("allocatable", resources),
                ("conditions", list([condition("Ready", "KubeletReady")])),
                ("daemonEndpoints", object([("kubeletEndpoint", object([("Port", Node::from(10_250))]))])),
                ("nodeInfo", info),
                ("images", images),
            ]),
        ),
    ])
}

/// A pod of a replica set, bound to a node.
pub(super) fn pod(seed: &mut Seed, app: &str, node: &str) -> Node {
    let hash = seed.text(10);
    let labels = object([("app", text(app)), ("pod-template-hash", text(&hash)), ("tier", text(tier(seed)))]);
    let mut metadata = metadata("", (labels, "kube-controller-manager", &["spec", "status"]));
    metadata.remove("name");
    metadata.set("generateName", text(&format!("{app}-{hash}-")));
    let owner = object([
        ("apiVersion", text("apps/v1")),
        ("kind", text("ReplicaSet")),
        ("name", text(&format!("{app}-{hash}"))),
        ("uid", text(&seed.uid())),
        ("controller", Node::from(true)),
        ("blockOwnerDeletion", Node::from(true)),
    ]);
    metadata.set("ownerReferences", list([owner]));
    let containers: Vec<_> = (0..1 + seed.below(3)).map(|index| container(seed, app, index)).collect();
    let spec = object([
        ("containers", Node::Array(containers)),
        ("restartPolicy", text("Always")),
        ("terminationGracePeriodSeconds", Node::from(30)),
        ("dnsPolicy", text("ClusterFirst")),
        ("serviceAccountName", text("default")),
        ("serviceAccount", text("default")),
        ("nodeName", text(node)),
        ("securityContext", Node::object()),
        ("schedulerName", text("default-scheduler")),
        ("enableServiceLinks", Node::from(true)),
    ]);
    object([("metadata", metadata), ("spec", spec), ("status", object([("phase", text("Pending"))]))])
}

/// What a kubelet reports of a pod, as a merge patch.
pub(super) fn pod_status(seed: &mut Seed) -> Node {
    let phase = if seed.percent(90) { "Running" } else { "Pending" };
    let ip = format!("10.{}.{}.{}", seed.below(250), seed.below(250), 1 + seed.below(250));
    let statuses = object([
        ("name", text("main")),
        ("ready", Node::from(seed.percent(80))),
        ("restartCount", Node::from(seed.below(9) as u64)),
        ("containerID", text(&format!("containerd://{}", seed.text(64)))),
    ]);
    let status = object([
        ("phase", text(phase)),
        ("conditions", list([condition("Ready", "Checked"), condition("PodScheduled", "Bound")])),
        ("hostIP", text("192.0.2.7")),
        ("podIP", text(&ip)),
        ("podIPs", list([object([("ip", text(&ip))])])),
        ("containerStatuses", list([statuses])),
        ("qosClass", text("Burstable")),
    ]);
    object([("status", status)])
}

/// A node's heartbeat, as a merge patch.
pub(super) fn heartbeat(seed: &mut Seed) -> Node {
    let annotations = object([("weir.test/heartbeat", text(&seed.text(8)))]);
    object([
        ("metadata", object([("annotations", annotations)])),
        ("status", object([("conditions", list([condition("Ready", "KubeletReady")]))])),
    ])
}

/// A config map.
pub(super) fn config_map(seed: &mut Seed, name: &str) -> Node {
    let labels = object([("app", text(name)), ("tier", text(tier(seed)))]);
    object([("metadata", metadata(name, (labels, "kubectl", &["data"]))), ("data", settings(seed))])
}

/// New settings of a config map, as a merge patch.
pub(super) fn new_settings(seed: &mut Seed) -> Node {
    object([("data", settings(seed))])
}

/// A gauge.
pub(super) fn gauge(seed: &mut Seed, name: &str) -> Node {
    let labels = object([("app", text(name)), ("tier", text(tier(seed)))]);
    let unit = *seed.pick(&["ms", "bytes", "requests"]).unwrap_or(&"ms");
    object([
        ("metadata", metadata(name, (labels, "meter", &["spec", "status"]))),
        ("spec", object([("unit", text(unit)), ("every", Node::from(seed.below(60) as u64))])),
    ])
}

/// A gauge's new value, as a merge patch.
pub(super) fn reading(seed: &mut Seed) -> Node {
    let samples = Node::Array((0..60).map(|_| Node::from(seed.below(100_000) as u64)).collect());
    object([("status", object([("value", Node::from(seed.below(100_000) as u64)), ("samples", samples)]))])
}

/// Another tier, as a merge patch: objects enter and leave label selectors.
pub(super) fn move_to_tier(seed: &mut Seed) -> Node {
    let labels = object([("tier", text(tier(seed)))]);
    object([("metadata", object([("labels", labels)]))])
}

fn settings(seed: &mut Seed) -> Node {
    let lines = 20 + seed.below(40);
    let file: String = (0..lines).map(|line| format!("setting-{line} = \"{}\"\n", seed.text(32))).collect();
    object([("app.conf", Node::from(file)), ("level", text(tier(seed)))])
}

fn tier(seed: &mut Seed) -> &'static str {
    seed.pick(&["front", "middle", "back"]).copied().unwrap_or("front")
}

fn container(seed: &mut Seed, app: &str, index: usize) -> Node {
    let name = if index == 0 { "main".to_owned() } else { format!("side-{index}") };
    let variables = (0..6).map(|number| {
        object([
            ("name", Node::from(format!("{}_{number}", app.to_uppercase()))),
            ("value", Node::from(seed.text(24))),
        ])
    });
    let variables = Node::Array(variables.collect());
    object([
        ("name", Node::from(name)),
        ("image", Node::from(format!("registry.weir.test/{app}@sha256:{}", seed.text(64)))),
        ("env", variables),
        ("resources", object([("requests", object([("cpu", text("100m")), ("memory", text("128Mi"))]))])),
        ("terminationMessagePath", text("/dev/termination-log")),
        ("imagePullPolicy", text("IfNotPresent")),
    ])
}

fn condition(kind: &str, reason: &str) -> Node {
    object([("type", text(kind)), ("status", text("True")), ("reason", text(reason))])
}

fn metadata(name: &str, (labels, manager, parts): (Node, &str, &[&str])) -> Node {
    let owned = labels.pairs().iter().map(|(key, _)| (format!("f:{key}"), Node::object())).collect();
    let mut fields = object([("f:metadata", object([("f:labels", Node::Object(owned))]))]);
    for part in parts {
        let leaves = (0..24).map(|number| (format!("f:field-{number}"), Node::object())).collect();
        fields.set(&format!("f:{part}"), Node::Object(leaves));
    }
    let entry = object([
        ("manager", text(manager)),
        ("operation", text("Update")),
        ("apiVersion", text("v1")),
        ("fieldsType", text("FieldsV1")),
        ("fieldsV1", fields),
    ]);
    object([("name", text(name)), ("labels", labels), ("managedFields", list([entry]))])
}

fn text(value: &str) -> Node {
    Node::from(value)
}

fn list<const N: usize>(elements: [Node; N]) -> Node {
    Node::Array(elements.into())
}
