//! The task side of merges and hubs: carries what nodes say into the merges, what the merges want to the nodes, and what
//! they release into hubs, and wakes the clients of a hub. All of it for one mirror, under one short lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use tracing::warn;
use weir_core::ResourceVersion;
use weir_core::interest::Interest;
use weir_core::message::{InterestEvent, LogRequest, Unanswered};
use weir_core::statement::Statement;

use super::End;
use super::lag::Lag;
use super::lease::{HubCell, Lease};
use super::pace::{Moves, Pace};
use crate::link::Link;
use crate::merge::{Asked, CREDIT, InterestId, Merges, NodeIndex, Output, ShardIndex};
use crate::peers::remote::Said;
use crate::shards::Shards;

/// How often it is looked at which nodes lag, and what could not be answered is asked again.
const TICK: Duration = Duration::from_millis(100);
/// Merges and hubs of one mirror.
#[derive(Debug)]
pub struct Fanout {
    shards: Shards,
    state: Mutex<State>,
    wake: Arc<Notify>,
    /// Questions about logs for nodes of other processes. As many as there are ranges at most: a range has one at a time.
    asks: Mutex<Vec<(Asked, LogRequest)>>,
    /// How far all nodes have come.
    frontier: watch::Sender<ResourceVersion>,
    moves: Moves,
    restored: watch::Sender<Restore>,
}

/// Upstream went back, as far as this proxy has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Restore {
    /// How often it did.
    pub times: u64,
    /// The highest position of those before, which may not be resumed.
    pub up_to: ResourceVersion,
}

#[derive(Debug)]
struct State {
    merges: Merges,
    open: HashMap<Arc<Interest>, Arc<HubCell>>,
    by_id: HashMap<InterestId, Leased>,
    /// Nothing is opened any more.
    is_over: bool,
}

/// A hub and how many leases are out. They are counted under the lock: two that end at once must not each leave the closing
/// to the other.
#[derive(Debug)]
struct Leased {
    cell: Arc<HubCell>,
    leases: usize,
}

// === impl Fanout ===

impl Fanout {
    /// Over the nodes of a mirror. Nothing moves until [`Fanout::run`].
    pub fn new(shards: Shards) -> Self {
        let merges = Merges::new(shards.slots().to_vec(), CREDIT);
        let state = State { merges, open: HashMap::new(), by_id: HashMap::new(), is_over: false };
        Self {
            shards,
            state: Mutex::new(state),
            wake: Arc::new(Notify::new()),
            asks: Mutex::default(),
            frontier: watch::Sender::new(ResourceVersion::ZERO),
            moves: Moves::default(),
            restored: watch::Sender::new(Restore::default()),
        }
    }

    /// A node that is gone for good is lost, whatever it has said last.
    pub fn remove(&self, node: NodeIndex) {
        self.shards.remove(node);
        let mut state = self.state.lock();
        let outputs = state.merges.on_session_lost(node);
        self.carry(&mut state, outputs);
    }

    /// Notified when a node has said something; nodes of other processes are attached with it.
    pub fn wake(&self) -> &Arc<Notify> {
        &self.wake
    }

    /// Carries messages until dropped.
    pub async fn run(self: Arc<Self>) {
        let mut answers = FuturesUnordered::new();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lag = Lag::default();
        loop {
            self.hear();
            let asks = std::mem::take(&mut *self.asks.lock());
            answers.extend(asks.into_iter().map(|(asked, request)| self.answer(asked, request)));
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                Some((asked, answer)) = answers.next() => {
                    let mut state = self.state.lock();
                    let outputs = state.merges.on_log(asked, answer);
                    self.carry(&mut state, outputs);
                }
                _ = ticks.tick() => self.tick(&mut lag),
            }
        }
    }

    /// Hands what the nodes have said to the merges.
    fn hear(&self) {
        for (node, link) in self.shards.links().iter() {
            let said = link.take(&self.wake);
            if said.is_empty() {
                continue;
            }
            let mut state = self.state.lock();
            for said in said {
                let outputs = match said {
                    Said::Up(slots) => state.merges.on_session(*node, slots),
                    Said::Node(message) => state.merges.on_node(*node, message),
                    Said::Down => state.merges.on_session_lost(*node),
                };
                self.carry(&mut state, outputs);
            }
        }
        let state = self.state.lock();
        let (frontier, awaited) = (state.merges.frontier(), state.merges.awaited());
        drop(state);
        for (node, at) in awaited {
            if let Some(link) = self.shards.link(node) {
                link.reach(at);
            }
        }
        if self.frontier.send_if_modified(|known| std::mem::replace(known, frontier) != frontier) {
            self.moves.note();
        }
    }

    async fn answer(
        &self,
        asked: Asked,
        request: LogRequest,
    ) -> (Asked, Result<Statement<InterestEvent>, Unanswered>) {
        let answer = match self.shards.link(asked.node) {
            Some(link) => link.log(&request).await,
            None => Err(Unanswered::Empty),
        };
        (asked, answer)
    }

    /// Leaves nodes that lag behind a replica, and asks again what could not be answered.
    fn tick(&self, lag: &mut Lag) {
        let mut state = self.state.lock();
        let followed = state.merges.followed();
        for node in lag.step(followed) {
            warn!(node = node.0, "node lags while a replica goes on, leaving it");
            let outputs = state.merges.avoid(node);
            self.carry(&mut state, outputs);
        }
        let outputs = state.merges.ask_again();
        self.carry(&mut state, outputs);
    }

    /// Waits until all nodes have come to `at`, and lets them know that somebody does.
    pub async fn reached(&self, at: ResourceVersion) {
        let mut frontier = self.frontier.subscribe();
        if *frontier.borrow() < at {
            self.shards.links().values().for_each(|link| link.reach(at));
        }
        // The sender lives here, so the channel cannot close.
        let _ = frontier.wait_for(|frontier| *frontier >= at).await;
    }

    /// A share of the interest's hub, which begins at the present if nobody else has it open.
    pub fn follow(self: &Arc<Self>, interest: &Arc<Interest>) -> Lease {
        let mut state = self.state.lock();
        if let Some(cell) = state.open.get(interest).cloned() {
            if let Some(leased) = state.by_id.get_mut(&cell.id) {
                leased.leases += 1;
            }
            return Lease::new(self, cell);
        }
        let after = state.merges.frontier();
        let (id, outputs) = state.merges.open(interest.clone(), after);
        let cell = Arc::new(HubCell::new(id, interest.clone(), after));
        state.open.insert(interest.clone(), cell.clone());
        state.by_id.insert(id, Leased { cell: cell.clone(), leases: 1 });
        self.carry(&mut state, outputs);
        if state.is_over {
            self.end_all(&mut state);
        }
        Lease::new(self, cell)
    }

    /// Up to where everything of an interest was released.
    pub(super) fn frontier_of(&self, id: InterestId) -> ResourceVersion {
        self.state.lock().merges.frontier_of(id).unwrap_or_default()
    }

    /// Ends every interest, and those that are opened later.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.is_over = true;
        self.end_all(&mut state);
    }

    fn end_all(&self, state: &mut State) {
        let ids: Vec<_> = state.by_id.keys().copied().collect();
        for id in ids {
            let mut outputs = state.merges.close(id);
            outputs.push(Output::Ended(id, End::Over));
            self.carry(state, outputs);
        }
    }

    /// The shards, for what lies before a hub.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// How often a shard went on at another node than before.
    pub fn moves(&self) -> u64 {
        self.state.lock().merges.moves()
    }

    /// The shards that no node serves now.
    pub fn holes(&self) -> Vec<ShardIndex> {
        self.state.lock().merges.holes()
    }

    /// How many distinct interests are open.
    pub fn interests(&self) -> usize {
        self.state.lock().open.len()
    }

    /// The bytes of the objects in all hubs.
    pub fn bytes(&self) -> usize {
        self.state.lock().by_id.values().map(|leased| leased.cell.bytes()).sum()
    }

    /// How far all nodes have come; zero while one of them holds nothing.
    pub fn frontier(&self) -> watch::Receiver<ResourceVersion> {
        self.frontier.subscribe()
    }

    /// Whether it moves by itself.
    pub fn pace(&self) -> Pace {
        self.moves.pace()
    }

    /// The last time that upstream went back; changes when that is noticed, or more of it.
    pub fn restored(&self) -> watch::Receiver<Restore> {
        self.restored.subscribe()
    }

    /// Does what the merges want, and what follows from it.
    fn carry(&self, state: &mut State, outputs: Vec<Output>) {
        let mut queue = std::collections::VecDeque::from(outputs);
        while let Some(output) = queue.pop_front() {
            match output {
                Output::Send(node, message) => {
                    if let Some(link) = self.shards.link(node) {
                        link.send(message);
                    }
                }
                Output::AskLog(asked, request) => match self.shards.link(asked.node) {
                    Some(Link::Local(link)) => {
                        let answer = link.cell().log(&request);
                        queue.extend(state.merges.on_log(asked, answer));
                    }
                    Some(Link::Remote(_)) => {
                        self.asks.lock().push((asked, request));
                        self.wake.notify_one();
                    }
                    None => queue.extend(state.merges.on_log(asked, Err(Unanswered::Empty))),
                },
                Output::Release(id, events) => {
                    if let Some(leased) = state.by_id.get(&id) {
                        leased.cell.push(events);
                    }
                }
                Output::Ended(id, why) => {
                    if let Some(Leased { cell, .. }) = state.by_id.remove(&id) {
                        state.open.remove(&cell.interest);
                        cell.end(why);
                    }
                }
                Output::Restored(highest) => {
                    self.restored.send_modify(|restore| {
                        *restore = Restore { times: restore.times + 1, up_to: highest };
                    });
                }
                Output::Refused(highest) => self.restored.send_modify(|restore| restore.up_to = highest),
            }
        }
    }

    /// A lease ends; an interest that has ended by itself is gone already.
    pub(super) fn release(&self, cell: &HubCell) {
        let mut state = self.state.lock();
        let Some(leased) = state.by_id.get_mut(&cell.id) else { return };
        leased.leases -= 1;
        if leased.leases > 0 {
            return;
        }
        state.open.remove(&cell.interest);
        state.by_id.remove(&cell.id);
        let outputs = state.merges.close(cell.id);
        self.carry(&mut state, outputs);
    }
}
