//! The whole simulated cluster as one plain value: a log, the instances that read it, and what goes wrong.
//!
//! It is synchronous and knows no time: whoever has to wait is told so and asks again. Tests drive it directly; the
//! HTTP server holds it behind a lock.

mod upheaval;

use std::collections::VecDeque;
use std::sync::Arc;

use weir_core::{GroupResource, ResourceVersion, Status};

use crate::catalog::{Catalog, ResourceId, ResourceInfo};
use crate::fault::{FaultPlan, InstanceId, Rules, Upheaval};
use crate::instance::{Instance, StreamEnd};
use crate::json::{Node, object};
use crate::log::{Log, LogEvent};
use crate::object::{Object, StoreKey};
use crate::read::{ListQuery, ListVersion, Page, Patience, Reader, Step};
use crate::seed::Seed;
use crate::watching::{Then, Watch, WatchItem, WatchQuery};
use crate::write::{Op, Writer, Written};

/// How a cluster is made.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// Determines uids, generated names and all else that looks random.
    pub seed: u64,
    /// How many instances read the log.
    pub instances: usize,
    /// The revision before the first write.
    pub first_revision: u64,
    /// How many events of each collection an instance keeps for watches.
    pub watch_history: usize,
    /// How many events the log keeps; `None` keeps all, for a checker. Older ones are compacted away.
    pub kept_events: Option<usize>,
    /// After how many events all instances get a progress notice; 0 for never.
    pub progress_every: u64,
    /// Resources besides the built-in ones.
    pub resources: Vec<ResourceInfo>,
}

/// One entry of the truth: what happened to the log, in order.
#[derive(Debug, Clone)]
pub enum Record {
    /// An event was written.
    Event(Arc<LogEvent>),
    /// Something else happened to the log.
    Upheaval(Upheaval),
}

/// A simulated cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    config: ClusterConfig,
    catalog: Catalog,
    log: Log,
    record: VecDeque<Record>,
    written: u64,
    backup: Option<Log>,
    instances: Vec<Instance>,
    rules: Vec<Rules>,
    plan: FaultPlan,
    seed: Seed,
}

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

// === impl ClusterConfig ===

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            instances: 2,
            first_revision: 1_000,
            watch_history: 10_000,
            kept_events: None,
            progress_every: 100,
            resources: Vec::new(),
        }
    }
}

// === impl Cluster ===

impl Cluster {
    /// A cluster that has the namespaces of a new one.
    pub fn new(config: ClusterConfig) -> Self {
        let mut catalog = Catalog::built_in();
        for info in &config.resources {
            catalog.add(info.clone());
        }
        let log = Log::starting_at(ResourceVersion::new(config.first_revision));
        let mut cluster = Self {
            instances: Vec::new(),
            rules: vec![Rules::default(); config.instances],
            seed: Seed::new(config.seed),
            catalog,
            log,
            record: VecDeque::new(),
            written: 0,
            backup: None,
            plan: FaultPlan::default(),
            config,
        };
        cluster.create_namespaces();
        cluster.instances = vec![Instance::starting_on(&cluster.log); cluster.config.instances];
        cluster
    }

    /// The resources that it serves.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Serves one more resource from now on.
    pub fn register(&mut self, info: ResourceInfo) -> ResourceId {
        self.catalog.add(info)
    }

    /// Serves a resource no longer, or again, as when its definition is deleted and made anew: its objects stay, and its
    /// watches end with those of all others.
    pub fn set_served(&mut self, resource: ResourceId, is_served: bool) {
        self.catalog.set_served(resource, is_served);
        for instance in &mut self.instances {
            instance.end_streams(StreamEnd::Clean);
        }
    }

    /// A resource by the name that users write: `pods`, `deployments.apps`.
    pub fn resource(&self, name: &str) -> Option<ResourceId> {
        self.catalog.find(&GroupResource::parse(name))
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What happened, in order, as far back as it is kept.
    pub fn record(&self) -> impl Iterator<Item = &Record> {
        self.record.iter()
    }

    /// How many events were ever written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// One instance.
    ///
    /// # Panics
    /// When there is no such instance.
    pub fn instance(&self, id: InstanceId) -> &Instance {
        &self.instances[id.0]
    }

    /// How many instances there are.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Does a write and whatever faults are due after it.
    ///
    /// # Errors
    /// 404, 409 or 422, as upstream says them.
    pub fn apply(&mut self, op: Op) -> Result<Written, Status> {
        self.check_namespace(&op)?;
        let resource = op.resource();
        let Self { log, seed, catalog, .. } = self;
        let written = Writer { log, seed, resource, info: catalog.info(resource) }.write(op)?;
        if let Some(event) = &written.event {
            self.publish(event);
        }
        Ok(written)
    }

    /// All instances learn how far the log is, as by etcd's progress notices.
    pub fn notice_progress(&mut self) {
        self.instances.iter_mut().for_each(Instance::notice_all);
    }

    /// Answers a list from an instance.
    ///
    /// # Errors
    /// 410 for a state that is gone, 504 for one that has not come.
    pub fn list(
        &mut self,
        id: InstanceId,
        query: &ListQuery,
        patience: Patience,
    ) -> Result<Step<Page>, Status> {
        self.reader(id, query.resource).list(query.resource, query, patience)
    }

    /// Answers a get from an instance.
    ///
    /// # Errors
    /// 404 for a missing object, 504 for a state that has not come.
    pub fn get(
        &mut self,
        (id, resource): (InstanceId, ResourceId),
        (key, version): (&StoreKey, ListVersion),
        patience: Patience,
    ) -> Result<Step<Arc<Object>>, Status> {
        self.reader(id, resource).get(resource, (key, version), patience)
    }

    /// Opens a watch on an instance.
    ///
    /// # Errors
    /// What has to be said as the one ERROR event of the stream.
    pub fn watch(
        &mut self,
        id: InstanceId,
        query: &WatchQuery,
        patience: Patience,
    ) -> Result<Step<Watch>, Status> {
        let capacity = self.config.watch_history;
        self.reader(id, query.resource).open_watch(query, capacity, patience)
    }

    /// Reads on in a watch: at most `max` things, and what follows them.
    pub fn read_on(&mut self, id: InstanceId, watch: &mut Watch, max: usize) -> (Vec<WatchItem>, Then) {
        let capacity = self.config.watch_history;
        self.reader(id, watch.query().resource).read_on(watch, max, capacity)
    }

    /// The bookmark that a watch would be sent now, if one is due.
    pub fn bookmark(&mut self, id: InstanceId, watch: &Watch) -> Option<WatchItem> {
        self.reader(id, watch.query().resource).bookmark(watch)
    }

    /// The rules in force at an instance.
    pub(crate) fn rules(&mut self, id: InstanceId) -> &mut Rules {
        &mut self.rules[id.0]
    }

    fn reader(&mut self, id: InstanceId, resource: ResourceId) -> Reader<'_> {
        let Self { log, instances, catalog, .. } = self;
        Reader { log, instance: &mut instances[id.0], info: catalog.info(resource) }
    }

    fn create_namespaces(&mut self) {
        let Some(resource) = self.resource("namespaces") else { return };
        for name in NAMESPACES {
            let body = object([
                ("metadata", object([("name", Node::from(name))])),
                ("spec", object([("finalizers", Node::Array(vec![Node::from("kubernetes")]))])),
                ("status", object([("phase", Node::from("Active"))])),
            ]);
            self.apply(Op::Create { resource, namespace: None, body })
                .expect("a new cluster has no namespace yet");
        }
    }

    fn check_namespace(&self, op: &Op) -> Result<(), Status> {
        let Op::Create { namespace: Some(namespace), .. } = op else { return Ok(()) };
        let Some(namespaces) = self.resource("namespaces") else { return Ok(()) };
        let found = self.log.get(namespaces, &StoreKey::new(None, namespace), self.log.head());
        let refuse = || crate::refusal::not_found(self.catalog.info(namespaces), namespace);
        found.map(|_| ()).ok_or_else(refuse)
    }

    fn publish(&mut self, event: &Arc<LogEvent>) {
        self.written += 1;
        self.record.push_back(Record::Event(Arc::clone(event)));
        for (instance, rules) in self.instances.iter_mut().zip(&mut self.rules) {
            if let Some(index) = rules.lose_next.iter().position(|resource| *resource == event.resource) {
                rules.lose_next.remove(index);
                instance.lose(event.rv);
            }
            instance.follow(&self.log);
        }
        if self.config.progress_every > 0 && self.written.is_multiple_of(self.config.progress_every) {
            self.notice_progress();
        }
        self.forget_old_events();
        self.run_plan();
    }

    /// Halves the record when it holds twice what is to be kept.
    fn forget_old_events(&mut self) {
        let Some(kept) = self.config.kept_events.filter(|kept| self.record.len() >= 2 * kept.max(&1)) else {
            return;
        };
        self.record.drain(..self.record.len() - kept);
        let first = self.record.iter().find_map(|entry| match entry {
            Record::Event(event) if event.history == self.log.history() => Some(event.rv),
            Record::Event(_) | Record::Upheaval(_) => None,
        });
        if let Some(first) = first {
            self.compact(first);
            self.log.drop_events(first);
        }
    }
}

#[cfg(test)]
mod tests;
