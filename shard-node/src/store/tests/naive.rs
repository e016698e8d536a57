//! The naive store: all changes in a list, replayed for every question.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_core::interest::Interest;
use weir_core::message::{Change, ChangeKind, EventKind};
use weir_core::statement::Statement;
use weir_core::{Object, ObjectKey, ResourceVersion, SourceId};

use crate::testing::{Pod, rv};

/// One step of a random history.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Put {
        pod: usize,
        app: bool,
        padding: usize,
    },
    Delete {
        pod: usize,
    },
    /// Something else than a pod was written.
    Skip,
    /// All that was written since reaches the store as one statement, and time passes.
    Feed {
        seconds: u64,
    },
    /// The store is filled anew from a list.
    List,
}

/// What the naive store knows.
#[derive(Default)]
pub(super) struct Naive {
    pub(super) changes: Vec<Change>,
    pub(super) revision: u64,
    pub(super) recreated: BTreeMap<usize, u64>,
}

// === impl Naive ===

impl Naive {
    /// The pod of this number; it gets another uid, and so another slot, each time it is created.
    pub(super) fn pod(&self, number: usize) -> Pod {
        let birth = self.recreated.get(&number).copied().unwrap_or_default();
        Pod::new(["a", "b"][number % 2], &format!("pod{number}"), &format!("uid-{number}-{birth}"))
    }

    pub(super) fn present(&self, at: ResourceVersion) -> BTreeMap<ObjectKey, Arc<Object>> {
        let mut present = BTreeMap::new();
        for change in self.changes.iter().filter(|change| change.rv <= at) {
            match change.kind {
                ChangeKind::Put => present.insert(change.object.key().clone(), change.object.clone()),
                ChangeKind::Delete => present.remove(change.object.key()),
            };
        }
        present
    }

    pub(super) fn write(&mut self, step: &Step) {
        self.revision += 1;
        match step {
            Step::Put { pod, app, padding } => {
                let app = if *app { "red".to_owned() } else { String::new() };
                let pod = Pod { app, padding: *padding, ..self.pod(*pod) };
                self.changes.push(pod.put(self.revision));
            }
            Step::Delete { pod } => {
                let number = *pod;
                let pod = self.pod(number);
                let key = ObjectKey::new(&pod.namespace, &pod.name);
                if self.present(ResourceVersion::MAX).contains_key(&key) {
                    self.changes.push(pod.delete(self.revision));
                    *self.recreated.entry(number).or_default() += 1;
                }
            }
            Step::Skip | Step::Feed { .. } | Step::List => {}
        }
    }

    pub(super) fn statement(&self, after: ResourceVersion) -> Statement<Change> {
        let changes = self.changes.iter().filter(|change| change.rv > after).cloned().collect();
        Statement::new(SourceId(1), after, rv(self.revision), changes).unwrap()
    }

    /// What an interest sees in (after, to], written out from states before and after each change.
    pub(super) fn log(
        &self,
        interest: &Interest,
        after: ResourceVersion,
        to: ResourceVersion,
    ) -> Vec<(u64, EventKind, Vec<u8>)> {
        let mut seen = Vec::new();
        for change in self.changes.iter().filter(|change| after < change.rv && change.rv <= to) {
            let before = self.present(rv(change.rv.get() - 1)).remove(change.object.key());
            let was = before.filter(|object| interest.matches(object));
            let is = change.kind == ChangeKind::Put && interest.matches(&change.object);
            let (kind, object) = match (was, is, change.kind) {
                (None, true, _) => (EventKind::Added, change.object.clone()),
                (Some(_), true, _) => (EventKind::Modified, change.object.clone()),
                (Some(_), false, ChangeKind::Delete) => (EventKind::Deleted, change.object.clone()),
                (Some(was), false, ChangeKind::Put) => (EventKind::Deleted, Arc::new(was.with_rv(change.rv))),
                (None, false, _) => continue,
            };
            seen.push((change.rv.get(), kind, object.bytes().to_vec()));
        }
        seen
    }
}
