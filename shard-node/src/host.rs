//! All mirrors of one shard node: what may be mirrored, what is, and which feeds run here. A mirror starts when it is named in
//! the configuration, when a replica has it, or when somebody attaches to it. One that is not named ends when no session has
//! carried it for long; that of a feed is the feed's own, which reads on for subscribers on other nodes.
//!
//! A mirror's tasks are its own: when one ends, the mirror has ended and nothing else. Only a panic stops the process.

mod holding;
pub mod hosted;
pub mod metrics;
mod starting;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::info;
use weir_core::policy::MirrorPolicy;
use weir_core::{GroupVersionResource, SlotSet, WindowBounds};
use weir_daemon::Lifecycle;
use weir_daemon::members::{Members, NodeAddress};
use weir_daemon::peer::Dialer;
use weir_proto::session::{MirrorNumber, Unmirrored};
use weir_upstream::Upstream;

pub use hosted::Hosted;
pub use metrics::HostMetrics;

use crate::feed::tick::TickNamespace;
use crate::feeds::Feeds;
use crate::node::cell::NodeCell;
use crate::nodes::Nodes;
use crate::remote::{FollowLimits, Follower, Told};

/// How long a refusal of a mirror counts.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// How long a mirror goes on that no session carries: proxies have let go of it after as long a time already.
pub const IDLE_LIMIT: Duration = Duration::from_secs(15 * 60);

/// How often it is looked at in that time whether a session carries it; one that came and went in between is not seen.
const LOOKS_AT_IDLE: u32 = 60;

/// What a shard node is made of.
pub struct HostParts {
    /// Where feeds read.
    pub upstream: Upstream,
    /// Whose tasks the mirrors are.
    pub lifecycle: Lifecycle,
    /// The shard nodes.
    pub members: Members,
    /// How they are reached.
    pub dialer: Dialer,
    /// This node's own address, as the members write it.
    pub own: NodeAddress,
    /// What every mirror of this node holds.
    pub slots: SlotSet,
    /// How much log.
    pub bounds: WindowBounds,
    /// What may be mirrored.
    pub policy: MirrorPolicy,
    /// How long a mirror goes on that no session carries, unless it is named.
    pub idle: Duration,
    /// The limits of subscriptions.
    pub limits: FollowLimits,
    /// What is counted.
    pub metrics: HostMetrics,
    /// Where feeds tick, if they are to.
    pub tick: Option<TickNamespace>,
}

/// All mirrors of one shard node.
#[derive(Debug)]
pub struct Host {
    lifecycle: Lifecycle,
    slots: SlotSet,
    bounds: WindowBounds,
    policy: MirrorPolicy,
    idle: Duration,
    limits: FollowLimits,
    metrics: HostMetrics,
    feeds: Arc<Feeds>,
    nodes: Arc<Nodes>,
    /// The zero of the nodes' clock.
    started: Instant,
    mirrors: Mutex<Mirrors>,
}

#[derive(Debug, Default)]
struct Mirrors {
    entries: HashMap<GroupVersionResource, Entry>,
    last_number: u32,
}

/// One mirror that was started.
#[derive(Clone, Debug)]
struct Entry {
    number: MirrorNumber,
    cell: Arc<NodeCell>,
    told: Arc<Told>,
    stop: CancellationToken,
    /// When somebody asked for it, or a session was last seen to carry it.
    used: Instant,
}

// === impl Host ===

impl Host {
    /// No mirrors yet; see [`Host::start`].
    pub fn new(parts: HostParts) -> Arc<Self> {
        let HostParts { upstream, lifecycle, members, dialer, own, slots, .. } = parts;
        let HostParts { bounds, policy, idle, limits, metrics, tick, .. } = parts;
        let counters = (metrics.feed.clone(), metrics.feeds.clone());
        let feeds = Arc::new(Feeds::new(upstream, lifecycle.clone(), counters).ticking_in(tick));
        let nodes = Arc::new(Nodes::new(own, members, dialer));
        let (started, mirrors) = (Instant::now(), Mutex::default());
        Arc::new(Self {
            lifecycle,
            slots,
            bounds,
            policy,
            idle,
            limits,
            metrics,
            feeds,
            nodes,
            started,
            mirrors,
        })
    }

    /// What every mirror of this node holds.
    pub fn slots(&self) -> SlotSet {
        self.slots
    }

    /// The zero of the nodes' clock.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The feeds that run here.
    pub fn feeds(&self) -> &Arc<Feeds> {
        &self.feeds
    }

    /// The other nodes.
    pub fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    /// The mirror of a resource; starts it if it is not there. Waits until a feed has told what it is, or that it is none.
    pub async fn attach(
        self: &Arc<Self>,
        resource: &GroupVersionResource,
    ) -> Result<Arc<Hosted>, Unmirrored> {
        if !self.policy.allows(resource) {
            return Err(Unmirrored::Forbidden);
        }
        while !self.lifecycle.is_stopping() {
            let entry = self.enter(resource);
            let mut spec = entry.told.spec.subscribe();
            tokio::select! {
                biased;
                // The sender lives in the entry.
                _ = spec.wait_for(Option::is_some) => return entry.hosted().unwrap_or(Err(Unmirrored::NotServed)),
                // It was ended meanwhile: another one begins.
                () = entry.stop.cancelled() => {}
            }
        }
        Err(Unmirrored::NotServed)
    }

    /// The mirror of a resource, once it is known what it is.
    pub fn hosted(&self, resource: &GroupVersionResource) -> Option<Arc<Hosted>> {
        let entry = self.mirrors.lock().entries.get(resource).cloned();
        entry?.hosted()?.ok()
    }

    /// Whether a mirror was begun, whatever becomes of it.
    pub fn is_begun(&self, resource: &GroupVersionResource) -> bool {
        self.mirrors.lock().entries.contains_key(resource)
    }

    /// All mirrors of which it is known what they are.
    pub fn all(&self) -> Vec<Arc<Hosted>> {
        let entries: Vec<_> = self.mirrors.lock().entries.values().cloned().collect();
        entries.iter().filter_map(|entry| entry.hosted()?.ok()).collect()
    }

    /// Ends a mirror. Its number is not used again.
    pub fn end(&self, resource: &GroupVersionResource) {
        self.end_where(resource, |_| true);
    }

    /// The entry of a mirror; a new one begins to follow a feed.
    fn enter(self: &Arc<Self>, resource: &GroupVersionResource) -> Entry {
        let mut mirrors = self.mirrors.lock();
        if let Some(entry) = mirrors.entries.get_mut(resource) {
            entry.used = Instant::now();
            return entry.clone();
        }
        mirrors.last_number += 1;
        let number = MirrorNumber::new(mirrors.last_number).expect("counted from 1 on");
        let cell = Arc::new(NodeCell::new(self.slots, self.bounds));
        let follower = Follower::new(
            resource.clone(),
            (cell.clone(), self.started),
            (self.feeds.clone(), self.nodes.clone()),
            (self.limits, self.metrics.follow.clone()),
        );
        let (told, stop) = (follower.told(), self.lifecycle.token().child_token());
        let entry = Entry { number, cell, told, stop: stop.clone(), used: Instant::now() };
        mirrors.entries.insert(resource.clone(), entry.clone());
        drop(mirrors);
        let (host, resource) = (self.clone(), resource.clone());
        self.lifecycle.spawn(format!("mirror of {resource}"), async move {
            let followed = async {
                tokio::select! {
                    biased;
                    () = host.unused(&resource, number) => {}
                    () = host.follow(&resource, number, follower) => {}
                }
            };
            // Whether it was told or ended by itself, it is not there any more.
            let _ = stop.run_until_cancelled(followed).await;
        });
        entry
    }

    /// Follows until the mirror is refused, and forgets that after a while.
    async fn follow(&self, resource: &GroupVersionResource, number: MirrorNumber, follower: Follower) {
        follower.run().await;
        info!(%resource, "not mirrored");
        sleep(REFUSED_FOR).await;
        self.end_where(resource, |entry| entry.number == number);
    }

    /// Resolves when no session has carried the mirror for long, and takes it out in the same step.
    async fn unused(&self, resource: &GroupVersionResource, number: MirrorNumber) {
        if self.is_named(resource) {
            return std::future::pending().await;
        }
        let mut looks = interval((self.idle / LOOKS_AT_IDLE).max(Duration::from_millis(1)));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let is_idle = |entry: &mut Entry| {
                if entry.cell.sessions() > 0 {
                    entry.used = Instant::now();
                }
                entry.number == number && entry.used.elapsed() >= self.idle
            };
            if self.end_where(resource, is_idle) {
                info!(%resource, "mirror ended, no session carries it");
                return;
            }
        }
    }

    fn is_named(&self, resource: &GroupVersionResource) -> bool {
        self.policy.named.contains(&resource.group_resource())
    }

    /// Ends a mirror if it is as said. Whether it did.
    fn end_where(&self, resource: &GroupVersionResource, is_meant: impl FnOnce(&mut Entry) -> bool) -> bool {
        let mut mirrors = self.mirrors.lock();
        if !mirrors.entries.get_mut(resource).is_some_and(is_meant) {
            return false;
        }
        if let Some(entry) = mirrors.entries.remove(resource) {
            entry.stop.cancel();
        }
        true
    }
}

// === impl Entry ===

impl Entry {
    /// The mirror, once it is known whether it is one.
    fn hosted(&self) -> Option<Result<Arc<Hosted>, Unmirrored>> {
        let Self { number, cell, told, stop: _, used: _ } = self;
        let spec = told.spec.borrow().clone()?;
        Some(spec.map(|spec| {
            Arc::new(Hosted { number: *number, spec, facts: told.facts.subscribe(), cell: cell.clone() })
        }))
    }

    /// Resolves when the node holds content, or will not.
    async fn settled(&self) {
        let (mut spec, mut has_content) = (self.told.spec.subscribe(), self.told.has_content.subscribe());
        // The senders live in the entry.
        tokio::select! {
            _ = has_content.wait_for(|has_content| *has_content) => {}
            _ = spec.wait_for(|spec| matches!(spec, Some(Err(_)))) => {}
        }
    }

    fn watch(&self) -> watch::Receiver<bool> {
        self.told.has_content.subscribe()
    }
}
