//! The life of one mirror: it is described, read, and answers, until nobody has used it for long or upstream no longer serves
//! its resource. What it was made of goes with it.
//!
//! On nodes the tasks are parts of one future, so that nothing of a mirror speaks to a node any more when the next one of the
//! same resource begins.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weir_core::{GroupVersionResource, SlotSet, WindowBounds};
use weir_shard_node::feed::handle::FeedHandle;
use weir_shard_node::feed::prove;
use weir_shard_node::feed::reader::Reader;
use weir_shard_node::feed::ring::SubscriberId;
use weir_shard_node::feed::tick::{Tick, TickNamespace};
use weir_shard_node::feeds::starting;
use weir_shard_node::node::cell::NodeCell;
use weir_shard_node::subscriber;

use super::check::SelfCheck;
use super::feed::{Feed, RemoteFeed};
use super::registry::{Backing, Entry, Mirrors, StartError, State};
use super::{Mirror, nodes};
use crate::hub::fanout::Fanout;
use crate::peers::Peers;
use crate::shards::Shards;

/// How long a resource that could not be described is left alone.
const DESCRIBE_AGAIN: Duration = Duration::from_secs(5);

/// Why a mirror that was begun has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Nobody has used it for long.
    Idle,
    /// Upstream does not serve what it mirrors, or not any more as it did.
    Gone,
}

// === impl Mirrors ===

impl Mirrors {
    /// One mirror from its beginning to its end.
    pub(super) async fn live(self: Arc<Self>, resource: GroupVersionResource, entry: Entry) {
        // Not a child of the process' own: its tasks end with this future, and that the process stops is no end of the mirror.
        let stop = CancellationToken::new();
        let _ending = stop.clone().drop_guard();
        let ended = tokio::select! {
            biased;
            () = self.unused(&resource, &entry) => Ok(Ended::Idle),
            ended = self.serve(&resource, &entry, &stop) => ended,
        };
        stop.cancel();
        if let Backing::Nodes(peers) = &self.backing {
            peers.all().iter().for_each(|peer| peer.forget(&resource));
        }
        match ended {
            Ok(why) => info!(%resource, ?why, "mirror ended"),
            Err(error) => {
                warn!(%resource, error = &error as &dyn std::error::Error, "not mirrored");
                entry.state.send_replace(State::Refused);
                tokio::time::sleep(DESCRIBE_AGAIN).await;
            }
        }
        entry.usage.end();
        if let State::Ready(mirror) = &*entry.state.borrow() {
            mirror.end();
        }
        self.remove(&resource, &entry);
    }

    /// Resolves when the mirror has had no users for long. One that is named goes on.
    async fn unused(&self, resource: &GroupVersionResource, entry: &Entry) {
        entry.usage.idle_for((!self.is_named(resource)).then_some(self.idle)).await;
    }

    async fn serve(
        &self,
        resource: &GroupVersionResource,
        entry: &Entry,
        stop: &CancellationToken,
    ) -> Result<Ended, StartError> {
        match &self.backing {
            Backing::Local { shards, bounds, tick } => {
                let mirror = self.assemble(resource, (*shards, *bounds, tick.as_ref()), stop).await?;
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = self.answer(mirror, &entry.state) => {}
                }
            }
            Backing::Nodes(peers) => self.serve_nodes(resource, peers, &entry.state).await?,
        }
        Ok(Ended::Gone)
    }

    /// Builds the mirror's parts in this process and starts their tasks.
    async fn assemble(
        &self,
        resource: &GroupVersionResource,
        (shards, bounds, tick): (usize, WindowBounds, Option<&TickNamespace>),
        stop: &CancellationToken,
    ) -> Result<Mirror, StartError> {
        let instances = self.upstream.instances();
        let first = self.len() % instances.len();
        let described = starting::describe(&self.upstream, resource, first).await;
        let spec = described
            .map_err(|source| StartError::Describe { resource: resource.group_resource(), source })?;
        let counters = self.feeds.of(resource);
        let tick = tick.and_then(|namespace| Tick::of(&spec, namespace, &counters));
        let (questions, asking) = prove::questions(tick);
        let feed = FeedHandle::new(questions).counted_by(counters);
        let (spec, feed) = (Arc::new(spec), Arc::new(feed));
        let nodes = (0..shards).map(|index| NodeCell::new(SlotSet::of_shard(index, shards), bounds));
        let nodes: Vec<_> = nodes.map(Arc::new).collect();
        for (index, node) in nodes.iter().enumerate() {
            let carry = subscriber::run(feed.clone(), node.clone(), SubscriberId(index as u64), self.started);
            self.carry(format!("shard {index} of {resource}"), carry, stop);
        }
        let fanout = Arc::new(Fanout::new(Shards::local(nodes)));
        self.carry(format!("fan-out of {resource}"), fanout.clone().run(), stop);
        let reader = Reader::new(self.upstream.clone(), spec.clone(), (feed.clone(), asking), first);
        self.carry(format!("feed of {resource}"), reader.run(), stop);
        let proofs = self.counts.0.of(&resource.group_resource()).within(self.proof_limit);
        Ok(Mirror::new(spec, Feed::Local(feed), (fanout, proofs)))
    }

    /// Follows the nodes of a mirror until none of them carries it any more.
    async fn serve_nodes(
        &self,
        resource: &GroupVersionResource,
        peers: &Arc<Peers>,
        state: &watch::Sender<State>,
    ) -> Result<(), StartError> {
        let slots = (0..peers.shards()).map(|index| SlotSet::of_shard(index, peers.shards()));
        let fanout = Arc::new(Fanout::new(Shards::new(slots.collect())));
        let told = nodes::Told::new(resource, peers, &fanout);
        let (spec, facts) = (told.spec(), told.facts());
        let answering = async {
            let spec = nodes::first(spec).await;
            let spec = spec
                .map_err(|reason| StartError::Unmirrored { resource: resource.group_resource(), reason })?;
            let feed = RemoteFeed::new(peers.clone(), resource.clone(), facts);
            let proofs = self.counts.0.of(&resource.group_resource()).within(self.proof_limit);
            self.answer(Mirror::new(spec, Feed::Remote(feed), (fanout.clone(), proofs)), state).await;
            Ok(())
        };
        tokio::select! {
            () = told.follow() => Ok(()),
            () = fanout.clone().run() => Ok(()),
            answered = answering => answered,
        }
    }

    /// Spawns a task that a mirror cannot do without: the mirror ends with it.
    fn carry(&self, name: String, task: impl Future<Output = ()> + Send + 'static, stop: &CancellationToken) {
        let stop = stop.clone();
        self.lifecycle.spawn(name, async move {
            // Whether it was told or ended by itself, the mirror ends.
            let _ = stop.run_until_cancelled(task).await;
            stop.cancel();
        });
    }

    /// Makes the mirror known once it can answer, follows upstream's history, and compares itself with it; runs until dropped.
    async fn answer(&self, mirror: Mirror, state: &watch::Sender<State>) {
        let mirror = Arc::new(mirror);
        let counts = self.counts.1.of(&mirror.spec().resource.group_resource());
        let check = SelfCheck::new(mirror.clone(), self.check_every, counts);
        let ready = async {
            let mut facts = mirror.feed().facts();
            // Their senders live in the mirror's parts.
            let _ = facts.wait_for(Option::is_some).await;
            let _ = mirror.fanout().frontier().wait_for(|frontier| !frontier.is_zero()).await;
            info!(resource = %mirror.spec().resource, "mirror ready");
            state.send_replace(State::Ready(mirror.clone()));
        };
        tokio::join!(mirror.clone().follow_restores(), check.run(), ready);
    }
}
