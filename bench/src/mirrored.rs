//! A mirror in this process that is fed by hand: nodes, merges and hubs as weir runs them, without a feed, upstream and HTTP.

use std::sync::Arc;

use tokio::time::Instant;
use weir_core::interest::Interest;
use weir_core::message::{Change, ChangeKind, FeedMessage, ListChunk, ListId};
use weir_core::{Object, ResourceVersion, SlotSet, SourceId, Statement, WindowBounds};
use weir_daemon::Lifecycle;
use weir_proxy::drain::Drain;
use weir_proxy::http::body::ProxyBody;
use weir_proxy::http::watch_body::{self, Frames, WatchPlan};
use weir_proxy::hub::fanout::Fanout;
use weir_proxy::hub::follow::Follower;
use weir_proxy::shards::Shards;
use weir_proxy::shards::snapshot::Snapshot;
use weir_shard_node::node::cell::NodeCell;

use crate::pods::PodMirror;

/// Objects of one chunk of a list; a page of a feed.
pub const CHUNK: usize = 500;

/// A longer watch than any measurement.
const WATCH_SECONDS: u64 = 3_600;

/// One mirror.
#[derive(Clone, Debug)]
pub struct Mirrored {
    /// Where messages are pushed.
    pub feed: Hand,
    /// The shards.
    pub nodes: Vec<Arc<NodeCell>>,
    /// Merges and hubs.
    pub fanout: Arc<Fanout>,
}

/// Feeds every shard by hand, one after the other, in the caller's own task.
#[derive(Clone, Debug)]
pub struct Hand {
    nodes: Vec<Arc<NodeCell>>,
    started: Instant,
}

// === impl Hand ===

impl Hand {
    /// Gives a message to all shards.
    pub fn push(&self, message: &FeedMessage) {
        for node in &self.nodes {
            let taken = node.on_feed(message.narrowed(&node.slots()), self.started.elapsed());
            taken.expect("what is pushed leaves no gap");
        }
    }
}

// === impl Mirrored ===

impl Mirrored {
    /// An empty mirror of so many shards. Nothing moves until [`Mirrored::start`].
    pub fn new(shards: usize, bounds: WindowBounds) -> Self {
        let nodes: Vec<_> = (0..shards)
            .map(|index| Arc::new(NodeCell::new(SlotSet::of_shard(index, shards), bounds)))
            .collect();
        let fanout = Arc::new(Fanout::new(Shards::local(nodes.clone())));
        let feed = Hand { nodes: nodes.clone(), started: Instant::now() };
        Self { feed, nodes, fanout }
    }

    /// Starts the tasks that carry messages.
    pub fn start(&self, lifecycle: &Lifecycle) {
        lifecycle.spawn_critical("fan-out", self.fanout.clone().run());
    }

    /// Waits until all shards have come to `at`.
    pub async fn reached(&self, at: ResourceVersion) {
        // The sender lives in the fan-out, so the channel cannot close.
        let _ = self.fanout.frontier().wait_for(|frontier| *frontier >= at).await;
    }

    /// Gives a list to the nodes at once, without the tasks.
    pub fn fill(&self, at: ResourceVersion, objects: impl Iterator<Item = Arc<Object>>) {
        for message in list(at, objects) {
            for node in &self.nodes {
                node.on_feed(message.narrowed(&node.slots()), Default::default())
                    .expect("a list leaves no gap");
            }
        }
    }

    /// The body of a watch of an interest from `after` on, with the state at `after` before it if there is one given.
    pub fn watch(
        &self,
        pods: &PodMirror,
        (interest, after): (&Arc<Interest>, ResourceVersion),
        initial: Option<Snapshot>,
    ) -> ProxyBody {
        watch_body::watch(WatchPlan {
            frames: Frames::new(&pods.spec),
            initial: initial.map(Into::into),
            has_end_bookmark: false,
            follower: Follower::new(self.fanout.follow(interest), after, self.fanout.shards().history()),
            bookmarks: None,
            deadline: Instant::now() + std::time::Duration::from_secs(WATCH_SECONDS),
            turn: Drain::new().turn(),
        })
    }
}

/// The chunks of a list, as a feed reads it.
pub fn list(
    at: ResourceVersion,
    objects: impl Iterator<Item = Arc<Object>>,
) -> impl Iterator<Item = FeedMessage> {
    let mut objects = objects.peekable();
    let mut seq = 0;
    std::iter::from_fn(move || {
        if seq > 0 && objects.peek().is_none() {
            return None;
        }
        let part: Vec<_> = objects.by_ref().take(CHUNK).collect();
        let chunk = ListChunk { list: ListId(1), at, seq, is_last: objects.peek().is_none(), objects: part };
        seq += 1;
        Some(FeedMessage::List(chunk))
    })
}

/// A statement that puts these objects, which rise from `after`.
pub fn puts(after: ResourceVersion, objects: impl IntoIterator<Item = Arc<Object>>) -> Statement<Change> {
    let changes = objects.into_iter().map(|object| Change { rv: object.rv(), kind: ChangeKind::Put, object });
    let changes: Vec<Change> = changes.collect();
    let to = changes.last().map_or(after, |change| change.rv);
    Statement::new(SourceId(1), after, to, changes).expect("made objects rise")
}
