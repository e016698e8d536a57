//! Faults as they happen to a cluster. What they are stands in `fault`.

use super::{Cluster, Record};
use crate::catalog::ResourceId;
use crate::fault::{Fault, FaultPlan, Frozen, Upheaval};
use crate::instance::{Instance, StreamEnd};
use crate::json::Node;
use crate::object::Object;
use weir_core::ResourceVersion;

// === impl Cluster ===

impl Cluster {
    /// Sets the plan of faults, which counts the events written so far too.
    pub fn set_plan(&mut self, plan: FaultPlan) {
        self.plan = plan;
        self.run_plan();
    }

    /// Makes a fault happen now.
    pub fn inject(&mut self, fault: Fault) {
        match fault {
            Fault::Pace(id, pace) => self.instances[id.0].set_pace(pace, &self.log),
            Fault::EndStreams(id) => self.instances[id.0].end_streams(StreamEnd::Clean),
            Fault::CutStreams(id) => self.instances[id.0].end_streams(StreamEnd::Broken),
            Fault::Restart(id) => self.instances[id.0].restart(&self.log),
            Fault::ForgetHistory(id, resource) => self.instances[id.0].forget_history(resource),
            Fault::LoseNext(id, resource) => self.rules[id.0].lose_next.push(resource),
            Fault::Compact => self.compact(self.log.head()),
            Fault::Backup => self.backup = Some(self.log.clone()),
            Fault::Restore => self.restore(),
            Fault::AddDefault { resource, path, value } => self.add_default(resource, (&path, &value)),
            Fault::Rule(id, rule) => self.rules[id.0].add(rule),
            Fault::Freeze(id, frozen) => self.rules[id.0].is_frozen = frozen == Frozen::Yes,
            Fault::Mute(id, resource, Frozen::Yes) => self.rules[id.0].muted.push(resource),
            Fault::Mute(id, resource, Frozen::No) => {
                self.rules[id.0].muted.retain(|muted| *muted != resource);
            }
            Fault::Throttle(id, fits, rate) => self.rules[id.0].throttle(fits, rate),
        }
    }

    pub(super) fn run_plan(&mut self) {
        while let Some(fault) = self.plan.next_due(self.written) {
            self.inject(fault);
        }
    }

    pub(super) fn compact(&mut self, at: ResourceVersion) {
        let needed = self.instances.iter().map(Instance::applied).min().unwrap_or(at);
        self.log.compact(at, needed);
        self.record.push_back(Record::Upheaval(Upheaval::Compacted(at)));
    }

    fn restore(&mut self) {
        let Some(backup) = &self.backup else { return };
        self.log.restore(backup);
        self.record.push_back(Record::Upheaval(Upheaval::Restored(self.log.head())));
        for instance in &mut self.instances {
            instance.restart(&self.log);
        }
    }

    fn add_default(&mut self, resource: ResourceId, (path, value): (&[String], &Node)) {
        let info = self.catalog.info(resource).clone();
        self.log.rewrite(resource, |object| {
            let mut tree = object.tree();
            set_missing(&mut tree, path, value).then(|| Object::from_tree(&info, tree))
        });
        for instance in &mut self.instances {
            instance.end_streams_of(resource);
            instance.forget_history(resource);
        }
        self.record.push_back(Record::Upheaval(Upheaval::Rewritten(resource)));
    }
}

/// Sets the value at a path of keys where there is none; whether it did.
fn set_missing(tree: &mut Node, path: &[String], value: &Node) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let parent = parents.iter().fold(tree, |node, key| node.entry(key));
    let is_missing = parent.get(last).is_none();
    if is_missing {
        parent.set(last, value.clone());
    }
    is_missing
}
