//! A cluster that lives: nodes, pods, config maps and one custom resource, written by a seed.
//!
//! One step is one write. Names come back: what was deleted is often created again under its name with another uid,
//! which is where caches go wrong. Whoever restores a backup under a churn does no harm: it looks again at what there
//! is when a write misses.

mod bodies;

use std::collections::VecDeque;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::catalog::ResourceId;
use crate::cluster::Cluster;
use crate::object::StoreKey;
use crate::seed::Seed;
use crate::sim::Sim;
use crate::write::{Op, Preconditions};

pub use bodies::gauges;

/// How much there is of each kind.
#[derive(Debug, Clone, Copy)]
pub struct ChurnShape {
    /// Nodes.
    pub nodes: usize,
    /// Namespaces that the objects are spread over.
    pub namespaces: usize,
    /// Pods, on the average.
    pub pods: usize,
    /// Config maps.
    pub config_maps: usize,
    /// Gauges.
    pub gauges: usize,
}

/// Writes one thing after another to a cluster.
#[derive(Debug)]
pub struct Churn {
    shape: ChurnShape,
    seed: Seed,
    ids: Ids,
    namespaces: Vec<String>,
    pods: Vec<StoreKey>,
    absent: VecDeque<(ResourceId, StoreKey)>,
}

/// A churn that runs by itself. Dropping it stops it.
#[derive(Debug)]
pub struct ChurnHandle {
    tasks: TaskTracker,
    guard: DropGuard,
}

#[derive(Debug, Clone, Copy)]
struct Ids {
    namespaces: ResourceId,
    nodes: ResourceId,
    pods: ResourceId,
    config_maps: ResourceId,
    gauges: ResourceId,
}

const APPS: [&str; 5] = ["shop", "search", "mail", "ledger", "thumbs"];

/// At most so many names wait to come back; a name that finds no room comes back at once.
const ABSENT_NAMES: usize = 32;

// === impl ChurnShape ===

impl Default for ChurnShape {
    fn default() -> Self {
        Self { nodes: 5, namespaces: 3, pods: 40, config_maps: 12, gauges: 10 }
    }
}

// === impl Churn ===

impl Churn {
    /// Fills a cluster and is ready to change it. The custom resource is registered if it was not.
    pub fn fill(cluster: &mut Cluster, seed: u64, shape: ChurnShape) -> Self {
        let gauges = cluster.register(gauges());
        let built_in = |name| cluster.resource(name).expect("a built-in resource");
        let ids = Ids {
            namespaces: built_in("namespaces"),
            nodes: built_in("nodes"),
            pods: built_in("pods"),
            config_maps: built_in("configmaps"),
            gauges,
        };
        let mut churn = Self {
            namespaces: (0..shape.namespaces.max(1)).map(|index| format!("team-{index}")).collect(),
            seed: Seed::new(seed),
            pods: Vec::new(),
            absent: VecDeque::new(),
            shape,
            ids,
        };
        churn.create_all(cluster);
        churn
    }

    /// Writes one thing.
    pub fn step(&mut self, cluster: &mut Cluster) {
        match self.seed.below(100) {
            0..45 => self.patch_pod(cluster),
            45..65 => self.add_or_remove_pod(cluster),
            65..73 => self.patch_numbered(cluster, self.ids.nodes),
            73..81 => self.patch_numbered(cluster, self.ids.config_maps),
            81..90 => self.patch_numbered(cluster, self.ids.gauges),
            90..95 => self.remove_numbered(cluster),
            _ => self.bring_back(cluster),
        }
    }

    fn create_all(&mut self, cluster: &mut Cluster) {
        for name in self.namespaces.clone() {
            let op =
                Op::Create { resource: self.ids.namespaces, namespace: None, body: bodies::namespace(&name) };
            self.write(cluster, op);
        }
        let Ids { nodes, config_maps, gauges, .. } = self.ids;
        for resource in [nodes, config_maps, gauges] {
            for index in 0..self.count(resource) {
                let key = self.numbered(resource, index);
                self.create(cluster, resource, &key);
            }
        }
        for _ in 0..self.shape.pods {
            self.create_pod(cluster);
        }
    }

    fn patch_pod(&mut self, cluster: &mut Cluster) {
        let Some(key) = self.seed.pick(&self.pods).cloned() else { return self.create_pod(cluster) };
        let patch = if self.seed.percent(85) {
            bodies::pod_status(&mut self.seed)
        } else {
            bodies::move_to_tier(&mut self.seed)
        };
        self.write(cluster, Op::Patch { resource: self.ids.pods, key, patch });
    }

    /// The further the number of pods is from what it should be, the likelier is the way back.
    fn add_or_remove_pod(&mut self, cluster: &mut Cluster) {
        if self.seed.below(2 * self.shape.pods.max(1)) >= self.pods.len() {
            return self.create_pod(cluster);
        }
        let index = self.seed.below(self.pods.len());
        let key = self.pods.swap_remove(index);
        self.delete(cluster, self.ids.pods, key);
    }

    fn create_pod(&mut self, cluster: &mut Cluster) {
        let app = self.seed.pick(&APPS).copied().unwrap_or(APPS[0]);
        let node = format!("node-{}", self.seed.below(self.shape.nodes));
        let namespace = self.seed.pick(&self.namespaces).cloned();
        let body = bodies::pod(&mut self.seed, app, &node);
        let written = cluster.apply(Op::Create { resource: self.ids.pods, namespace, body });
        match written {
            Ok(written) => self.pods.push(written.object.key().clone()),
            Err(_) => self.look_again(cluster),
        }
    }

    fn patch_numbered(&mut self, cluster: &mut Cluster, resource: ResourceId) {
        let index = self.seed.below(self.count(resource));
        let key = self.numbered(resource, index);
        let is_move = self.seed.percent(20) && resource != self.ids.nodes;
        let patch = match resource {
            _ if is_move => bodies::move_to_tier(&mut self.seed),
            id if id == self.ids.nodes => bodies::heartbeat(&mut self.seed),
            id if id == self.ids.gauges => bodies::reading(&mut self.seed),
            _ => bodies::new_settings(&mut self.seed),
        };
        self.write(cluster, Op::Patch { resource, key, patch });
    }

    fn remove_numbered(&mut self, cluster: &mut Cluster) {
        let resource = *self.seed.pick(&[self.ids.config_maps, self.ids.gauges]).unwrap_or(&self.ids.gauges);
        let index = self.seed.below(self.count(resource));
        let key = self.numbered(resource, index);
        self.delete(cluster, resource, key.clone());
        self.absent.push_back((resource, key));
        if self.absent.len() > ABSENT_NAMES {
            self.bring_back(cluster);
        }
    }

    /// The same name, another object.
    fn bring_back(&mut self, cluster: &mut Cluster) {
        match self.absent.pop_front() {
            Some((resource, key)) => self.create(cluster, resource, &key),
            None => self.patch_pod(cluster),
        }
    }

    fn create(&mut self, cluster: &mut Cluster, resource: ResourceId, key: &StoreKey) {
        let body = match resource {
            id if id == self.ids.nodes => bodies::node(&mut self.seed, key.name()),
            id if id == self.ids.gauges => bodies::gauge(&mut self.seed, key.name()),
            _ => bodies::config_map(&mut self.seed, key.name()),
        };
        let namespace = (!key.namespace().is_empty()).then(|| key.namespace().to_owned());
        self.write(cluster, Op::Create { resource, namespace, body });
    }

    fn delete(&mut self, cluster: &mut Cluster, resource: ResourceId, key: StoreKey) {
        self.write(cluster, Op::Delete { resource, key, only_if: Preconditions::default() });
    }

    /// A write that misses means that somebody else writes too, or that history went back.
    fn write(&mut self, cluster: &mut Cluster, op: Op) {
        if cluster.apply(op).is_err() {
            self.look_again(cluster);
        }
    }

    fn look_again(&mut self, cluster: &Cluster) {
        let log = cluster.log();
        let pods = log.scan(self.ids.pods, ("", ""), log.head());
        self.pods = pods.map(|object| object.key().clone()).collect();
    }

    fn count(&self, resource: ResourceId) -> usize {
        match resource {
            id if id == self.ids.nodes => self.shape.nodes,
            id if id == self.ids.gauges => self.shape.gauges,
            _ => self.shape.config_maps,
        }
    }

    fn numbered(&self, resource: ResourceId, index: usize) -> StoreKey {
        let namespace = self.namespaces[index % self.namespaces.len()].as_str();
        match resource {
            id if id == self.ids.nodes => StoreKey::new(None, &format!("node-{index}")),
            id if id == self.ids.gauges => StoreKey::new(Some(namespace), &format!("gauge-{index}")),
            _ => StoreKey::new(Some(namespace), &format!("settings-{index}")),
        }
    }
}

// === impl Sim ===

impl Sim {
    /// Lets a churn make one step each `interval`. Its task ends when the handle is dropped.
    pub fn run_churn(&self, mut churn: Churn, interval: Duration) -> ChurnHandle {
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let (sim, stopped) = (self.clone(), stop.clone());
        tasks.spawn(async move {
            let mut ticks = tokio::time::interval(interval);
            loop {
                tokio::select! {
                    biased;
                    () = stopped.cancelled() => return,
                    _ = ticks.tick() => sim.with(|cluster| churn.step(cluster)),
                }
            }
        });
        ChurnHandle { tasks, guard: stop.drop_guard() }
    }
}

// === impl ChurnHandle ===

impl ChurnHandle {
    /// Stops the churn and waits until it is out.
    pub async fn stop(self) {
        let Self { tasks, guard } = self;
        drop(guard);
        tasks.close();
        tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
