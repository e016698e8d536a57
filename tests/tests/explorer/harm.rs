//! What goes wrong in a run: feeds that lose their place, sessions that break, nodes that are lost with all they held, nodes
//! that hang, refuse or list alone, and a backup that upstream comes back from.

use rand::Rng;
use weir_core::ResourceVersion;
use weir_core::message::{FeedMessage, ListChunk, ListId};
use weir_tests::model::Upstream;

use crate::line::{Line, State};
use crate::shard::Shard;
use crate::warm::Copy;
use crate::world::World;

/// Lists of single nodes have numbers of their own; no feed lists so often.
const LISTS_OF_NODES: u64 = 1 << 32;

// === impl World ===

impl World {
    /// Something goes wrong.
    pub(crate) fn disturb(&mut self) {
        let feed = self.rng.random_range(0..self.feeds.len());
        let (proxy, place) = self.draw_victim();
        match self.rng.random_range(0..24) {
            0 => self.feeds[feed].reconnect(),
            1 => self.feeds[feed].relist(),
            2 => self.compacted = self.histories.last().map(Upstream::revision).unwrap_or_default(),
            3..6 => self.shards[place].go_to(feed, &mut self.feeds, &mut self.reached),
            6 | 7 if self.settings.is_restored => self.restore(),
            8..11 => self.crash(place),
            11..15 => self.break_session(proxy, place),
            15..18 => {
                let (proxies, mut scene) = self.proxies();
                proxies[proxy].avoid(place, &mut scene);
            }
            18..20 => self.proxies[proxy].lines[place].denies = true,
            20..24 => self.list_alone(place),
            _ => {}
        }
    }

    /// A session, more often than not one whose proxy holds back events of the node, or asks it for its log.
    fn draw_victim(&mut self) -> (usize, usize) {
        let mut victims = Vec::new();
        for (proxy, of) in self.proxies.iter().enumerate() {
            let places = of.lines.iter().map(|line| line.node).enumerate();
            let busy = places.filter(|(_, node)| of.merges.buffered(*node) > 0 || of.asks(*node));
            victims.extend(busy.map(|(place, _)| (proxy, place)));
        }
        if victims.is_empty() || self.rng.random_bool(0.3) {
            return self.draw_session();
        }
        victims[self.rng.random_range(0..victims.len())]
    }

    /// A session that is broken is noticed, or replaced.
    pub(crate) fn mend(&mut self) {
        let (proxy, place) = self.draw_session();
        match self.proxies[proxy].lines[place].state {
            State::Up if self.proxies[proxy].lines[place].denies => self.break_session(proxy, place),
            State::Up => {}
            State::Broken if self.rng.random_bool(0.5) => self.notice(proxy, place),
            State::Broken | State::Down => self.connect(proxy, place),
        }
    }

    /// Every session stands, with a node that holds what it says.
    pub(crate) fn mend_everything(&mut self) {
        for proxy in 0..self.proxies.len() {
            for place in 0..self.shards.len() {
                let line = &self.proxies[proxy].lines[place];
                if line.state != State::Up || line.denies {
                    self.connect(proxy, place);
                }
            }
        }
    }

    /// A proxy has a new session with a node, whatever became of the old one.
    pub(crate) fn connect(&mut self, proxy: usize, place: usize) {
        let session = self.proxies[proxy].session;
        let line = Line::up(session, &mut self.shards[place]);
        let (proxies, mut scene) = self.proxies();
        proxies[proxy].connect(place, line, &mut scene);
    }

    fn notice(&mut self, proxy: usize, place: usize) {
        let (proxies, mut scene) = self.proxies();
        proxies[proxy].notice(place, &mut scene);
    }

    fn break_session(&mut self, proxy: usize, place: usize) {
        let broken = &mut self.proxies[proxy];
        if broken.lines[place].state == State::Up {
            self.reached.broken += 1;
            broken.lines[place].cut(broken.session, &mut self.shards[place]);
            match self.rng.random_range(0..3) {
                0 => self.notice(proxy, place),
                1 => self.connect(proxy, place),
                _ => {}
            }
        }
    }

    /// A node is lost with its store, and begins anew with nothing.
    fn crash(&mut self, place: usize) {
        let number = self.shards[place].number;
        let is_full = self.shards[place].node.window().is_some();
        self.reached.crashed += usize::from(is_full);
        self.reached.crashed_filling += usize::from(self.proxies.iter().any(|proxy| proxy.asks(number)));
        for proxy in 0..self.proxies.len() {
            self.break_session(proxy, place);
            // It may have been replaced at once, which is too early now.
            let proxy = &mut self.proxies[proxy];
            proxy.lines[place].cut(proxy.session, &mut self.shards[place]);
        }
        let slots = self.shards[place].slots;
        self.shards[place].leave(&mut self.feeds);
        self.shards[place] = Shard::new((place, self.lives), slots, &self.settings);
        self.lives += 1;
        self.copies.remove(&place);
        if self.rng.random_bool(0.6) {
            self.copies.insert(place, Copy::Choosing);
        }
    }

    /// A node lists for itself, as one does that every feed has gone past. Upstream has gone on since that list was begun.
    fn list_alone(&mut self, place: usize) {
        let epoch = self.histories.len() - 1;
        let upstream = &self.histories[epoch];
        let (revision, node) = (upstream.revision(), &self.shards[place].node);
        let Some(window) = node.window().filter(|window| window.frontier < revision) else { return };
        if node.store().history().get() != epoch as u64 {
            return;
        }
        let next = window.frontier.next().get();
        let at = ResourceVersion::new(self.rng.random_range(next..=revision.get()));
        let covers = |other: &Shard| {
            let window_of = other.node.window();
            other.slots.covers(&self.shards[place].slots)
                && window_of.is_some_and(|other| other.contains(window.frontier))
        };
        let others = self.shards.iter().enumerate().filter(|(other, _)| *other != place);
        self.reached.relisted_alone += usize::from(others.map(|(_, other)| other).any(covers));
        self.lists += 1;
        let list = ListId(LISTS_OF_NODES + self.lists);
        let objects = upstream.objects(at);
        self.hand(place, &FeedMessage::List(ListChunk { list, at, seq: 0, is_last: true, objects }));
    }

    /// A node takes a message that is not of a feed's ring.
    pub(crate) fn hand(&mut self, place: usize, message: &FeedMessage) {
        let shard = &mut self.shards[place];
        let mine = message.narrowed(&shard.slots);
        let outgoing = shard.node.on_feed(mine, self.now).expect("it begins where the node is");
        self.queue(place, outgoing);
    }

    /// Upstream comes back from a backup. Feeds notice when they read next.
    fn restore(&mut self) {
        let epoch = self.histories.len() - 1;
        let last = &self.histories[epoch];
        let (start, end) = (last.history().start().get(), last.revision().get());
        let at = ResourceVersion::new(self.rng.random_range(start..=end));
        let restored = last.restored(at);
        self.histories.push(restored);
        self.compacted = ResourceVersion::ZERO;
        self.reached.restored += 1;
    }
}
