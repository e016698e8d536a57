//! The shard nodes that this proxy sees, each a process with a session of its own. Members come and go at run time; a session
//! that stands is kept for as long as it does, also when the node is no longer named: its answers are as good as ever.

mod names;
pub mod pace;
pub mod peer;
pub mod remote;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::{error, info, warn};
use weir_core::SlotSet;
use weir_daemon::Lifecycle;
use weir_daemon::members::{Members, NodeAddress};
use weir_daemon::peer::Dialer;
use weir_daemon::readiness::{Condition, Readiness};

use self::pace::Pace;
use self::peer::Peer;

/// In how many steps nodes are asked again for mirrors that they refused.
const ATTACH_EVERY: u32 = 10;
/// How often nodes are compared. Each says something every 250 ms.
const STEP: Duration = Duration::from_millis(300);

/// The shard nodes that this proxy sees.
#[derive(Debug)]
pub struct Peers {
    dialer: Dialer,
    lifecycle: Lifecycle,
    shards: usize,
    state: Mutex<State>,
    condition: Mutex<Option<Condition>>,
    /// Counts the changes of who is there.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    peers: BTreeMap<NodeAddress, Arc<Peer>>,
    next: usize,
    /// Sessions lost with nodes that are gone.
    lost_before: u64,
    /// Whether it was said that shards have no node.
    has_holes: bool,
}

// === impl Peers ===

impl Peers {
    /// Nobody yet; see [`Peers::run`].
    pub fn new(dialer: Dialer, lifecycle: Lifecycle, shards: usize) -> Self {
        Self {
            dialer,
            lifecycle,
            shards,
            state: Mutex::default(),
            condition: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// In how many shards the space is cut.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Everybody who is there.
    pub fn all(&self) -> Vec<Arc<Peer>> {
        self.state.lock().peers.values().cloned().collect()
    }

    /// How many sessions stand.
    pub fn sessions_up(&self) -> usize {
        self.all().iter().filter(|peer| peer.is_up()).count()
    }

    /// How many sessions were lost so far.
    pub fn sessions_lost(&self) -> u64 {
        let state = self.state.lock();
        state.lost_before + state.peers.values().map(|peer| peer.sessions_lost()).sum::<u64>()
    }

    /// The shards that no node with a session holds.
    pub fn holes(&self) -> Vec<usize> {
        let held: Vec<SlotSet> = self.all().iter().filter_map(|peer| peer.slots()).collect();
        let is_hole = |shard: &usize| {
            let slots = SlotSet::of_shard(*shard, self.shards);
            !held.iter().any(|held| held.covers(&slots))
        };
        (0..self.shards).filter(is_hole).collect()
    }

    /// Makes the process ready only while every shard has a node.
    pub fn report(self: &Arc<Self>, readiness: &Readiness) {
        *self.condition.lock() = Some(readiness.condition("a node for every shard"));
    }

    /// Changes when somebody comes or goes.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Follows the members, and leaves nodes that hang; runs until dropped.
    pub async fn run(self: Arc<Self>, members: Members) {
        let mut addresses = members.addresses();
        let mut pace = Pace::default();
        let mut count = 0_u32;
        let mut steps = tokio::time::interval(STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.follow(&addresses.borrow_and_update().clone());
        loop {
            tokio::select! {
                biased;
                Ok(()) = addresses.changed() => self.follow(&addresses.borrow_and_update().clone()),
                _ = steps.tick() => {
                    count = count.wrapping_add(1);
                    self.compare(&mut pace);
                    if count.is_multiple_of(ATTACH_EVERY) {
                        self.all().iter().for_each(|peer| peer.attach_again());
                    }
                }
            }
        }
    }

    fn follow(&self, named: &[NodeAddress]) {
        let mut state = self.state.lock();
        for address in named {
            if state.peers.contains_key(address) {
                continue;
            }
            let peer = Arc::new(Peer::new(state.next, address.clone(), self.dialer.clone()));
            state.next += 1;
            info!(node = %address, "new node");
            state.peers.insert(address.clone(), peer.clone());
            let stop = self.lifecycle.token().clone();
            self.lifecycle.spawn(format!("session with {address}"), async move {
                // Whether it was told or ended by itself makes no difference.
                let _ = stop.run_until_cancelled(peer.run()).await;
            });
        }
        for (address, peer) in &state.peers {
            peer.set_named(named.contains(address));
        }
        drop(state);
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// A shard that nobody holds is for somebody to act on: nothing is answered from a mirror meanwhile.
    fn look_for_holes(&self) {
        let holes = self.holes();
        if let Some(condition) = &*self.condition.lock() {
            condition.set(holes.is_empty());
        }
        let had_holes = std::mem::replace(&mut self.state.lock().has_holes, !holes.is_empty());
        if !had_holes && !holes.is_empty() {
            error!(shards = ?holes, "no node holds these shards");
        } else if had_holes && holes.is_empty() {
            info!("every shard has a node again");
        }
    }

    fn compare(&self, pace: &mut Pace) {
        self.look_for_holes();
        let peers = self.all();
        let up = peers.iter().filter(|peer| peer.is_up());
        for hanging in pace.step(up.map(|peer| (peer.index(), peer.beats()))) {
            if let Some(peer) = peers.iter().find(|peer| peer.index() == hanging) {
                warn!(node = %peer.address(), "node says nothing while others go on, leaving it");
                peer.leave();
            }
        }
        let gone: Vec<_> =
            peers.iter().filter(|peer| peer.is_gone()).map(|peer| peer.address().clone()).collect();
        if !gone.is_empty() {
            let mut state = self.state.lock();
            let lost = gone.iter().filter_map(|address| Some(state.peers.get(address)?.sessions_lost()));
            state.lost_before += lost.sum::<u64>();
            state.peers.retain(|address, _| !gone.contains(address));
            drop(state);
            self.changed.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

#[cfg(test)]
mod tests;
