//! What all these tests start from.

use weir_core::GroupVersionResource;
use weir_sim::{ClusterConfig, Handle, Listen, Node, Op, ResourceInfo, Right, Sim, SimConfig, User};

use crate::client::Client;

/// A simulation of two instances that listen.
pub(crate) struct Fixture {
    pub(crate) sim: Sim,
    pub(crate) handles: Vec<Handle>,
}

// === impl Fixture ===

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut SimConfig)) -> Self {
        let gauges = GroupVersionResource::new("metering.weir.test", "v1", "gauges");
        let mut config = SimConfig {
            cluster: ClusterConfig {
                resources: vec![ResourceInfo::custom(gauges, "Gauge")],
                ..ClusterConfig::default()
            },
            ..SimConfig::default()
        };
        let reader = Right::new(&["get", "list", "watch"], "", &["configmaps"]).in_namespace("default");
        config.users.push(("bob-token".to_owned(), User::named("bob").may(reader)));
        change(&mut config);
        let sim = Sim::new(config);
        let mut handles = Vec::new();
        for index in 0..2 {
            handles.push(sim.serve(index, Listen::default()).await.unwrap());
        }
        Self { sim, handles }
    }

    pub(crate) fn client(&self, instance: usize) -> Client {
        Client { addr: self.handles[instance].addr(), token: "admin".to_owned() }
    }

    pub(crate) fn create(&self, resource: &str, name: &str) -> u64 {
        let resource = self.sim.resource(resource).unwrap();
        let body = Node::parse(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#).as_bytes()).unwrap();
        let op = Op::Create { resource, namespace: Some("default".to_owned()), body };
        self.sim.apply(op).unwrap().object.rv().get()
    }

    pub(crate) fn head(&self) -> u64 {
        self.sim.with(|cluster| cluster.log().head().get())
    }
}
