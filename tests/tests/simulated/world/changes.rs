//! What a test does to the cluster: random changes, and some of its own to config maps and nodes.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use weir_core::ResourceVersion;
use weir_sim::{Cluster, Node, Op, Preconditions, StoreKey};

use super::World;

/// A churn that goes on until it is stopped or dropped.
pub(crate) struct Churning(tokio::task::AbortHandle);

// === impl World ===

impl World {
    /// Makes so many random changes, one after the other.
    pub(crate) fn churn(&self, steps: usize) {
        for _ in 0..steps {
            self.sim.with(|cluster| self.churn.lock().unwrap().step(cluster));
        }
    }

    /// Makes so many random changes and something else at one blow: nobody sees the one without the other.
    pub(crate) fn churn_and(&self, steps: usize, then: impl FnOnce(&mut Cluster)) {
        self.sim.with(|cluster| {
            let mut churn = self.churn.lock().unwrap();
            for _ in 0..steps {
                churn.step(cluster);
            }
            then(cluster);
        });
    }

    /// The same the other way round.
    pub(crate) fn first_then_churn(&self, first: impl FnOnce(&mut Cluster), steps: usize) {
        self.sim.with(|cluster| {
            first(cluster);
            let mut churn = self.churn.lock().unwrap();
            for _ in 0..steps {
                churn.step(cluster);
            }
        });
    }

    /// Makes random changes beside the test.
    pub(crate) fn churning(&self, every: Duration) -> Churning {
        let (sim, churn) = (self.sim.clone(), self.churn.clone());
        let task = self.tasks.spawn("churn", async move {
            let mut tick = interval(every);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                sim.with(|cluster| churn.lock().unwrap().step(cluster));
            }
        });
        Churning(task)
    }

    /// Creates a config map and returns its revision.
    pub(crate) fn create(&self, namespace: &str, name: &str) -> ResourceVersion {
        let resource = self.sim.resource("configmaps").unwrap();
        let body =
            format!(r#"{{"metadata":{{"name":"{name}","labels":{{"tier":"front"}}}},"data":{{"n":"0"}}}}"#);
        let body = Node::parse(body.as_bytes()).unwrap();
        let namespace = Some(namespace.to_owned());
        self.sim.apply(Op::Create { resource, namespace, body }).unwrap().object.rv()
    }

    /// Changes a config map and returns its revision.
    pub(crate) fn patch(&self, namespace: &str, name: &str, patch: &str) -> ResourceVersion {
        let resource = self.sim.resource("configmaps").unwrap();
        let key = StoreKey::new(Some(namespace), name);
        let patch = Node::parse(patch.as_bytes()).unwrap();
        self.sim.apply(Op::Patch { resource, key, patch }).unwrap().object.rv()
    }

    /// Deletes a config map and returns the revision of its deletion.
    pub(crate) fn delete(&self, namespace: &str, name: &str) -> ResourceVersion {
        let resource = self.sim.resource("configmaps").unwrap();
        let key = StoreKey::new(Some(namespace), name);
        let op = Op::Delete { resource, key, only_if: Preconditions::default() };
        self.sim.apply(op).unwrap().event.unwrap().rv
    }

    /// Changes a node, and so moves upstream's revision on without a change of any other collection.
    pub(crate) fn touch_node(&self) -> ResourceVersion {
        let resource = self.sim.resource("nodes").unwrap();
        let patch = format!(r#"{{"metadata":{{"labels":{{"touched":"{}"}}}}}}"#, self.head());
        let patch = Node::parse(patch.as_bytes()).unwrap();
        self.sim.apply(Op::Patch { resource, key: StoreKey::new(None, "node-0"), patch }).unwrap().object.rv()
    }
}

// === impl Churning ===

impl Churning {
    pub(crate) async fn stop(self, world: &World) {
        self.0.abort();
        world.until("the churn stops", || self.0.is_finished()).await;
    }
}

impl Drop for Churning {
    fn drop(&mut self) {
        self.0.abort();
    }
}
