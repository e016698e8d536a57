//! Small objects for the tests of this crate. They are real JSON and go through the same scan as upstream's.

use std::sync::Arc;

use weir_core::message::{Change, ChangeKind};
use weir_core::object::ObjectSchema;
use weir_core::selector::FieldTable;
use weir_core::{GroupVersionResource, Object, ResourceVersion, Slot, SlotSet};

/// A pod of the tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) app: String,
    pub(crate) node: String,
    pub(crate) padding: usize,
}

pub(crate) fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

pub(crate) fn table() -> FieldTable {
    FieldTable::of(&GroupVersionResource::new("", "v1", "pods"), None).unwrap()
}

// === impl Pod ===

impl Pod {
    pub(crate) fn new(namespace: &str, name: &str, uid: &str) -> Self {
        let [namespace, name, uid] = [namespace, name, uid].map(str::to_owned);
        Self { namespace, name, uid, app: String::new(), node: String::new(), padding: 0 }
    }

    /// A pod whose uid lies in the slots.
    pub(crate) fn in_slots(slots: SlotSet, name: &str) -> Self {
        let mut uids = (0..).map(|number| format!("uid-{name}-{number}"));
        let uid = uids.find(|uid| slots.contains(Slot::of_uid(uid))).unwrap();
        Self::new("ns", name, &uid)
    }

    pub(crate) fn object(&self, at: u64) -> Arc<Object> {
        let Self { namespace, name, uid, app, node, padding } = self;
        let padding = "x".repeat(*padding);
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{at}","labels":{{"app":"{app}"}}}},"spec":{{"nodeName":"{node}"}},"status":{{"message":"{padding}"}}}}"#
        );
        Arc::new(Object::parse(json.as_bytes(), &ObjectSchema::new(table()).unwrap()).unwrap())
    }

    pub(crate) fn put(&self, at: u64) -> Change {
        Change { rv: rv(at), kind: ChangeKind::Put, object: self.object(at) }
    }

    pub(crate) fn delete(&self, at: u64) -> Change {
        Change { rv: rv(at), kind: ChangeKind::Delete, object: self.object(at) }
    }
}
