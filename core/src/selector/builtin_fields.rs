//! The fields by which upstream selects objects of its own kinds, other than name and namespace. Every kind that is not
//! listed has none. The paths are those of the JSON that upstream writes, not of its internal types, so a field of one
//! name may stand elsewhere: `status.successful` is read from `status.succeeded`.

use super::field_table::{FieldValue, Refusal};

/// What one built-in resource selects by. Every served version of it selects by the same.
pub(super) struct BuiltIn {
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    pub(super) has_namespace: bool,
    pub(super) fields: &'static [BuiltInField],
    pub(super) refusal: Refusal,
}

/// A label that a selector may name, and where its value stands; no path where upstream never sets the field.
pub(super) struct BuiltInField {
    pub(super) label: &'static str,
    pub(super) path: Option<&'static [&'static str]>,
    pub(super) value: FieldValue,
}

/// What the resource selects by, unless it is one of the many with name and namespace only.
pub(super) fn find(group: &str, resource: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|entry| entry.group == group && entry.resource == resource)
}

/// Whether the resource's fields cannot be told from one place in the object: the `source` of an event is one of two.
pub(super) fn is_beyond_paths(group: &str, resource: &str) -> bool {
    resource == "events" && matches!(group, "" | "events.k8s.io")
}

const fn text(label: &'static str, path: &'static [&'static str]) -> BuiltInField {
    BuiltInField { label, path: Some(path), value: FieldValue::Written }
}

const fn boolean(label: &'static str, path: &'static [&'static str]) -> BuiltInField {
    BuiltInField { label, path: Some(path), value: FieldValue::Boolean }
}

const SIGNER: BuiltInField = text("spec.signerName", &["spec", "signerName"]);
const NODE: BuiltInField = text("spec.nodeName", &["spec", "nodeName"]);

const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        group: "",
        resource: "pods",
        has_namespace: true,
        fields: &[
            NODE,
            text("spec.host", &["spec", "nodeName"]),
            text("spec.restartPolicy", &["spec", "restartPolicy"]),
            text("spec.schedulerName", &["spec", "schedulerName"]),
            text("spec.serviceAccountName", &["spec", "serviceAccountName"]),
            boolean("spec.hostNetwork", &["spec", "hostNetwork"]),
            text("status.phase", &["status", "phase"]),
            text("status.podIP", &["status", "podIP"]),
            BuiltInField { label: "status.podIPs", path: None, value: FieldValue::Written },
            text("status.nominatedNodeName", &["status", "nominatedNodeName"]),
        ],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "",
        resource: "nodes",
        has_namespace: false,
        fields: &[boolean("spec.unschedulable", &["spec", "unschedulable"])],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "",
        resource: "namespaces",
        has_namespace: false,
        fields: &[text("status.phase", &["status", "phase"])],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "",
        resource: "secrets",
        has_namespace: true,
        fields: &[text("type", &["type"])],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "",
        resource: "services",
        has_namespace: true,
        fields: &[text("spec.clusterIP", &["spec", "clusterIP"]), text("spec.type", &["spec", "type"])],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "",
        resource: "replicationcontrollers",
        has_namespace: true,
        fields: &[text("status.replicas", &["status", "replicas"])],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "batch",
        resource: "jobs",
        has_namespace: true,
        fields: &[BuiltInField {
            label: "status.successful",
            path: Some(&["status", "succeeded"]),
            value: FieldValue::NonZero,
        }],
        refusal: Refusal::Job,
    },
    BuiltIn {
        group: "certificates.k8s.io",
        resource: "certificatesigningrequests",
        has_namespace: false,
        fields: &[SIGNER],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "certificates.k8s.io",
        resource: "clustertrustbundles",
        has_namespace: false,
        fields: &[SIGNER],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "certificates.k8s.io",
        resource: "podcertificaterequests",
        has_namespace: false,
        fields: &[SIGNER, text("spec.podName", &["spec", "podName"]), NODE],
        refusal: Refusal::Plain,
    },
    BuiltIn {
        group: "resource.k8s.io",
        resource: "resourceslices",
        has_namespace: false,
        fields: &[
            NODE,
            text("spec.driver", &["spec", "driver"]),
            text("spec.pool.name", &["spec", "pool", "name"]),
        ],
        refusal: Refusal::ResourceSlice,
    },
];
