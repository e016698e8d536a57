//! A client of the model: it lists, follows a hub, falls behind, reads the shards' logs, comes back. What it sees is
//! recorded for the checker.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use weir_core::message::{InterestEvent, LogRequest, SnapshotRequest, SnapshotStart, Unanswered};
use weir_core::statement::Progress;
use weir_core::window::Window;
use weir_core::{History, Object, ResourceVersion, SlotSet};
use weir_proxy::hub::Read;
use weir_proxy::merge::InterestId;
use weir_tests::checker::{Item, Listing, Watch};
use weir_tests::model::{Wanted, seen, version};

use crate::proxy::{Proxy, Scene};
use crate::shard::Shard;

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) proxy: usize,
    pub(crate) wanted: usize,
    /// The history that it reads.
    pub(crate) epoch: usize,
    pub(crate) watch: Watch,
    pub(crate) list: Option<Listing>,
    pub(crate) phase: Phase,
    /// The hub that it holds.
    hub: Option<InterestId>,
    /// Upstream's history went back under it: what it saw before counts, and it has to end.
    pub(crate) cut: Option<usize>,
}

/// What a client is doing.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It reads a snapshot, part after part.
    Listing { at: ResourceVersion, parts: Vec<Part>, objects: Vec<Arc<Object>> },
    /// It reads a hub.
    Following,
    /// It has an interest of its own until it comes to the hub's floor.
    Apart(InterestId),
    /// It reads the shards' logs, of any of their replicas, until it comes to the hub's floor.
    Replaying(Replay),
    /// It was told why it cannot go on.
    Ended,
}

/// The logs of all shards, each as far as it was read.
#[derive(Debug)]
pub(crate) struct Replay {
    ranges: Vec<(usize, SlotSet, Progress)>,
    buffer: BTreeMap<ResourceVersion, InterestEvent>,
}

/// One shard's part of a snapshot; each piece of any of its replicas.
#[derive(Debug)]
pub(crate) struct Part {
    shard: usize,
    slots: SlotSet,
    /// Who was asked last.
    place: usize,
    from: Option<SnapshotStart>,
    is_done: bool,
}

/// Everything around a client.
pub(crate) struct Around<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) proxy: &'a mut Proxy,
    pub(crate) scene: Scene<'a>,
    pub(crate) rng: &'a mut StdRng,
}

// === impl Client ===

impl Client {
    /// A client of a proxy's interest that begins at `after`.
    pub(crate) fn new((proxy, wanted): (usize, usize), epoch: usize, after: ResourceVersion) -> Self {
        Self {
            proxy,
            wanted,
            epoch,
            watch: Watch::starting_at(after),
            list: None,
            phase: Phase::Following,
            hub: None,
            cut: None,
        }
    }

    /// Begins with a snapshot, if there is a revision that all shards have.
    pub(crate) fn start_list(&mut self, around: &mut Around<'_>) -> bool {
        let mut parts = Vec::new();
        let mut windows = Vec::new();
        for (shard, slots) in ranges(around) {
            let Some(place) = self.replicas(shard, around).first().copied() else { return false };
            windows.extend(around.scene.nodes[place].node.window());
            parts.push(Part { shard, slots, place, from: None, is_done: false });
        }
        let Some(at) = Window::highest_common(windows) else { return false };
        self.phase = Phase::Listing { at, parts, objects: Vec::new() };
        true
    }

    /// One step. False when there was nothing to do.
    pub(crate) fn step(&mut self, around: &mut Around<'_>) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Following) {
            Phase::Listing { at, parts, objects } => self.list(at, (parts, objects), around),
            Phase::Following => self.follow(around),
            Phase::Apart(own) => self.read_apart(own, around),
            Phase::Replaying(replay) => self.replay(replay, around),
            Phase::Ended => {
                self.phase = Phase::Ended;
                false
            }
        }
    }

    /// Upstream's history went back at a node that this client may have read from. Who holds a hub is told by its end; a
    /// snapshot, or a position without a hub, has to be given up by who holds it.
    pub(crate) fn cut(&mut self) {
        self.cut.get_or_insert(self.watch.items.len());
        if self.hub.is_none() {
            self.phase = Phase::Ended;
        }
    }

    /// The client goes away.
    pub(crate) fn leave(&mut self, proxy: &mut Proxy, scene: &mut Scene<'_>) {
        if let Phase::Apart(own) = self.phase {
            proxy.let_go(own, scene);
        }
        if let Some(hub) = self.hub.take() {
            proxy.let_go(hub, scene);
        }
        self.phase = Phase::Ended;
    }

    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    fn list(
        &mut self,
        at: ResourceVersion,
        (mut parts, mut objects): (Vec<Part>, Vec<Arc<Object>>),
        around: &mut Around<'_>,
    ) -> bool {
        let open: Vec<&mut Part> = parts.iter_mut().filter(|part| !part.is_done).collect();
        let chosen = around.rng.random_range(0..open.len().max(1));
        if let Some(part) = open.into_iter().nth(chosen) {
            let request = SnapshotRequest {
                history: History::new(self.epoch as u64),
                interest: around.wanted.interest.clone(),
                slots: part.slots,
                at,
                from: part.from.clone(),
                max_objects: around.rng.random_range(1..=4),
            };
            let replicas = self.replicas(part.shard, around);
            let chunk = replicas.into_iter().find_map(|place| {
                Some((place, around.scene.nodes[place].node.store().snapshot(&request).ok()?))
            });
            let Some((place, chunk)) = chunk else {
                around.scene.reached.lists_broken += 1;
                self.leave(around.proxy, &mut around.scene);
                return true;
            };
            around.scene.reached.lists_mixed += usize::from(place != part.place && part.from.is_some());
            part.place = place;
            objects.extend(chunk.objects);
            part.is_done = chunk.next.is_none();
            part.from = chunk.next.map(SnapshotStart::Behind);
        }
        if parts.iter().all(|part| part.is_done) {
            around.scene.reached.lists += 1;
            objects.sort_by(|a, b| a.key().cmp(b.key()));
            let items = objects.iter().map(|object| version(object)).collect();
            self.list = Some(Listing { at, items, left: 0, not_older_than: ResourceVersion::ZERO });
            self.watch = Watch::starting_at(at);
        } else {
            self.phase = Phase::Listing { at, parts, objects };
        }
        true
    }

    fn follow(&mut self, around: &mut Around<'_>) -> bool {
        let hub = self.hub(around);
        let frontier = around.proxy.merges.frontier_of(hub).unwrap_or_default();
        match around.proxy.hubs[&hub].hub.read(self.watch.position(), around.rng.random_range(1..=5)) {
            Read::Events(events) => self.take(&events),
            Read::Nothing => self.bookmark(frontier),
            Read::Ended(_) => self.end(around),
            Read::Behind(_) if around.rng.random_bool(0.5) => {
                around.scene.reached.behind_hub += 1;
                let after = self.watch.position();
                let own = around.proxy.open(&around.wanted.interest, after, &mut around.scene);
                around.proxy.hold(own);
                self.phase = Phase::Apart(own);
                true
            }
            Read::Behind(_) => {
                around.scene.reached.behind_hub += 1;
                let progress = Progress::starting_at(self.watch.position());
                let ranges = ranges(around).into_iter().map(|(shard, slots)| (shard, slots, progress));
                self.phase = Phase::Replaying(Replay { ranges: ranges.collect(), buffer: BTreeMap::new() });
                true
            }
        }
    }

    fn read_apart(&mut self, own: InterestId, around: &mut Around<'_>) -> bool {
        let floor = self.floor(around);
        let frontier = around.proxy.merges.frontier_of(own).unwrap_or_default();
        self.phase = Phase::Apart(own);
        match around.proxy.hubs[&own].hub.read(self.watch.position(), around.rng.random_range(1..=5)) {
            Read::Events(events) => self.take(&events),
            Read::Nothing if frontier >= floor => {
                around.scene.reached.gone_over += 1;
                self.bookmark(frontier);
                around.proxy.let_go(own, &mut around.scene);
                self.phase = Phase::Following;
                true
            }
            Read::Nothing => self.bookmark(frontier),
            Read::Ended(_) => self.end(around),
            // Its own hub is short too: another one, from here.
            Read::Behind(_) => {
                around.proxy.let_go(own, &mut around.scene);
                self.phase = Phase::Following;
                true
            }
        }
    }

    fn replay(&mut self, mut replay: Replay, around: &mut Around<'_>) -> bool {
        let Replay { ranges, buffer } = &mut replay;
        let floor = self.floor(around);
        let hub = self.hub(around);
        if matches!(around.proxy.hubs[&hub].hub.read(self.watch.position(), 1), Read::Ended(_)) {
            return self.end(around);
        }
        let chosen = around.rng.random_range(0..ranges.len());
        let (shard, slots, progress) = &mut ranges[chosen];
        let request = LogRequest {
            history: History::new(self.epoch as u64),
            interest: around.wanted.interest.clone(),
            slots: *slots,
            after: progress.position(),
            to: floor.max(progress.position()),
        };
        let replicas = self.replicas(*shard, around);
        let answers = replicas.into_iter().map(|place| around.scene.nodes[place].node.store().log(&request));
        let answers: Vec<_> = answers.collect();
        let is_too_old = |answer: &Result<_, Unanswered>| matches!(answer, Err(Unanswered::TooOld { .. }));
        if !answers.is_empty() && answers.iter().all(is_too_old) {
            return self.end(around);
        }
        let is_refused = answers.first().is_some_and(Result::is_err);
        let Some(statement) = answers.into_iter().find_map(Result::ok) else {
            // Nobody is there who could answer; somebody may come.
            self.phase = Phase::Replaying(replay);
            return false;
        };
        around.scene.reached.logs_elsewhere += usize::from(is_refused);
        let fresh = progress.take(statement).expect("the log answers from where it was asked");
        buffer.extend(fresh.map(|event| (event.rv, event)));
        let reached = ranges.iter().map(|(_, _, progress)| progress.position()).min().unwrap_or(floor);
        let later = buffer.split_off(&reached.next());
        let events: Vec<_> = std::mem::replace(buffer, later).into_values().collect();
        self.take(&events);
        self.bookmark(reached);
        if reached < floor {
            self.phase = Phase::Replaying(replay);
        }
        true
    }

    /// The hub of the interest, joined when the client has none: the shared one, or a new one.
    fn hub(&mut self, around: &mut Around<'_>) -> InterestId {
        if let Some(hub) = self.hub {
            return hub;
        }
        let hub = match around.proxy.shared.get(&self.wanted) {
            Some(shared) => *shared,
            None => {
                let present = around.proxy.merges.frontier();
                let after =
                    if around.rng.random_bool(0.5) { present } else { self.watch.position().min(present) };
                let id = around.proxy.open(&around.wanted.interest, after, &mut around.scene);
                around.proxy.shared.insert(self.wanted, id);
                id
            }
        };
        around.proxy.hold(hub);
        self.hub = Some(hub);
        hub
    }

    /// The nodes with something of this history that hold a shard, in any order.
    fn replicas(&self, shard: usize, around: &mut Around<'_>) -> Vec<usize> {
        let slots = around.scene.slots[shard];
        let is_replica = |node: &Shard| {
            let store = node.node.store();
            node.slots.covers(&slots)
                && store.window().is_some()
                && store.history() == History::new(self.epoch as u64)
        };
        let places = around.scene.nodes.iter().enumerate().filter(|(_, node)| is_replica(node));
        let mut places: Vec<usize> = places.map(|(place, _)| place).collect();
        places.shuffle(around.rng);
        places
    }

    fn floor(&mut self, around: &mut Around<'_>) -> ResourceVersion {
        let hub = self.hub(around);
        around.proxy.hubs[&hub].hub.floor()
    }

    fn take(&mut self, events: &[InterestEvent]) -> bool {
        self.watch.items.extend(events.iter().map(|event| Item::Event(seen(event))));
        !events.is_empty()
    }

    fn bookmark(&mut self, at: ResourceVersion) -> bool {
        let is_news = at > self.watch.position();
        if is_news {
            self.watch.items.push(Item::Bookmark(at));
        }
        is_news
    }

    fn end(&mut self, around: &mut Around<'_>) -> bool {
        around.scene.reached.ended += 1;
        self.leave(around.proxy, &mut around.scene);
        true
    }
}

/// The shards that the interest concerns, and the slots of each.
fn ranges(around: &Around<'_>) -> Vec<(usize, SlotSet)> {
    let wanted = around.wanted.interest.slots();
    let slots = around.scene.slots.iter().map(|slots| slots.intersection(&wanted));
    slots.enumerate().filter(|(_, slots)| !slots.is_empty()).collect()
}
