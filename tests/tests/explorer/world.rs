//! One run: upstream, feeds, replicas of shards, proxies and clients, a random schedule, and then a quiet end in which
//! everything has to come to rest, complete. What goes wrong on the way is in `harm`.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir_core::message::FromNode;
use weir_core::{History, ResourceVersion, SlotSet};
use weir_shard_node::node::Outgoing;
use weir_tests::model::{Pod, Upstream, Wanted};

use crate::client::{Around, Client};
use crate::feed::{Feed, Reading};
use crate::line::State;
use crate::proxy::{Proxy, Scene};
use crate::reached::Reached;
use crate::settings::{self, Settings, pick};
use crate::shard::Shard;
use crate::warm::Copy;

/// A run.
pub(crate) struct World {
    pub(crate) rng: StdRng,
    pub(crate) settings: Settings,
    pub(crate) now: Duration,
    /// Upstream's histories; a restored backup begins another.
    pub(crate) histories: Vec<Upstream>,
    pub(crate) compacted: ResourceVersion,
    pub(crate) interests: Vec<Wanted>,
    pub(crate) feeds: Vec<Feed>,
    /// The shards.
    pub(crate) slots: Vec<SlotSet>,
    /// The nodes, replicas of one shard or more, by place.
    pub(crate) shards: Vec<Shard>,
    /// Nodes that take their content from a replica, by place. They take nothing from feeds until then.
    pub(crate) copies: BTreeMap<usize, Copy>,
    /// How often nodes have started.
    pub(crate) lives: usize,
    /// Lists and copies of single nodes.
    pub(crate) lists: u64,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) clients: Vec<Client>,
    pub(crate) uids: u64,
    pub(crate) reached: Reached,
}

// === impl World ===

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let settings = Settings::draw(&mut rng);
        let places = settings.places().into_iter().enumerate();
        let shards: Vec<Shard> =
            places.map(|(place, slots)| Shard::new((place, place), slots, &settings)).collect();
        let mut world = Self {
            now: Duration::ZERO,
            histories: vec![Upstream::new(ResourceVersion::new(rng.random_range(1..5)))],
            compacted: ResourceVersion::ZERO,
            interests: settings::interests(&mut rng),
            feeds: (0..settings.feeds).map(|index| Feed::new(index, settings.ring)).collect(),
            slots: settings.slots(),
            copies: BTreeMap::new(),
            lives: shards.len(),
            lists: 0,
            proxies: (0..settings.proxies).map(|index| Proxy::new(index, &settings, &shards)).collect(),
            shards,
            clients: Vec::new(),
            uids: 0,
            reached: Reached::default(),
            rng,
            settings,
        };
        world.mend_everything();
        world
    }

    /// Runs and judges.
    pub(crate) fn run(mut self) -> Reached {
        for _ in 0..self.settings.steps {
            self.step();
        }
        self.come_to_rest();
        self.judge_the_open();
        self.everybody_leaves();
        self.reached
    }

    fn step(&mut self) {
        if self.rng.random_range(0..100) < self.settings.harm {
            return self.disturb();
        }
        match self.rng.random_range(0..100) {
            0..8 => self.write(),
            8..18 => self.some(Self::read_feed),
            18..44 => self.some(Self::pull),
            44..54 => self.some(Self::one_to_a_node),
            54..73 => self.some(Self::one_from_a_node),
            73..80 => self.some(Self::ask),
            80..83 => self.new_client(),
            83..93 => self.some(Self::step_client),
            93..96 => self.some(Self::step_copy),
            96..98 => self.mend(),
            98..99 => self.ask_again(),
            _ => self.pass_time(),
        }
        if self.rng.random_range(0..8) == 0 {
            self.check();
        }
    }

    /// The same a few times, each with somebody else.
    fn some(&mut self, step: fn(&mut Self) -> bool) {
        for _ in 0..self.rng.random_range(1..=4) {
            step(self);
        }
    }

    /// The invariants of the parts.
    pub(crate) fn check(&mut self) {
        self.shards.iter().for_each(|shard| shard.node.store().check());
        for proxy in &self.proxies {
            proxy.merges.check(settings::MAX_LOG as usize);
            let has_hole = !proxy.merges.holes().is_empty() && !proxy.merges.is_empty();
            self.reached.waited += usize::from(has_hole);
        }
    }

    // --- upstream and feeds

    fn write(&mut self) {
        for _ in 0..self.rng.random_range(1..4) {
            let pod = self.draw_pod();
            let Some(upstream) = self.histories.last_mut() else { return };
            let existing = upstream.pods().get(&pod.key()).cloned();
            match (existing, self.rng.random_range(0..10)) {
                (_, 0) => upstream.skip(),
                (Some(old), 1..4) => drop(upstream.delete(&old.key())),
                (Some(old), _) => drop(upstream.put(Pod { uid: old.uid, ..pod })),
                (None, _) => drop(upstream.put(pod)),
            }
        }
    }

    fn draw_pod(&mut self) -> Pod {
        self.uids += 1;
        let rng = &mut self.rng;
        Pod {
            app: pick(rng, &["", "red", "blue"]).to_owned(),
            node: pick(rng, &["", "node0", "node1"]).to_owned(),
            padding: pick(rng, &[0, 10, 300]),
            ..Pod::new(
                pick(rng, &["ns0", "ns1"]),
                pick(rng, &["pod0", "pod1", "pod2", "pod3", "pod4"]),
                &format!("uid-{}", self.uids),
            )
        }
    }

    fn read_feed(&mut self) -> bool {
        let index = self.rng.random_range(0..self.feeds.len());
        self.read_from(index)
    }

    pub(crate) fn read_from(&mut self, index: usize) -> bool {
        let epoch = self.histories.len() - 1;
        let mut reading = Reading {
            upstream: &self.histories[epoch],
            epoch,
            compacted: self.compacted,
            rng: &mut self.rng,
            reached: &mut self.reached,
        };
        self.feeds[index].read(&mut reading)
    }

    // --- shards

    fn pull(&mut self) -> bool {
        let shard = self.rng.random_range(0..self.shards.len());
        let feed = self.rng.random_range(0..self.feeds.len());
        if self.rng.random_bool(0.05) {
            self.shards[shard].go_to(feed, &mut self.feeds, &mut self.reached);
        }
        self.pull_from(shard, feed)
    }

    pub(crate) fn pull_from(&mut self, place: usize, feed: usize) -> bool {
        if self.copies.contains_key(&place) {
            return false;
        }
        let outgoing = self.shards[place].pull((feed, &mut self.feeds[feed]), self.now, &mut self.reached);
        let history = self.shards[place].node.store().history();
        let is_over = |client: &&mut Client| History::new(client.epoch as u64) < history;
        self.clients.iter_mut().filter(is_over).for_each(Client::cut);
        let is_news = outgoing.is_some();
        self.queue(place, outgoing.unwrap_or_default());
        is_news
    }

    /// What a node said is on its way.
    pub(crate) fn queue(&mut self, place: usize, outgoing: Vec<Outgoing>) {
        for (session, said) in outgoing {
            let proxy = self.proxies.iter_mut().find(|proxy| proxy.session == session);
            let line = &mut proxy.expect("sessions are those of proxies").lines[place];
            assert_eq!(line.state, State::Up, "a node has forgotten a session that broke");
            line.from_node.push_back(said);
        }
    }

    fn pass_time(&mut self) {
        self.now += Duration::from_secs(self.rng.random_range(1..10));
        for shard in &mut self.shards {
            shard.node.trim(self.now);
        }
        for feed in &mut self.feeds {
            feed.ring.pass_time(self.now);
        }
    }

    // --- proxies

    /// The proxies, and what they have around them.
    pub(crate) fn proxies(&mut self) -> (&mut [Proxy], Scene<'_>) {
        let scene = Scene { nodes: &self.shards, slots: &self.slots, reached: &mut self.reached };
        (&mut self.proxies, scene)
    }

    fn one_to_a_node(&mut self) -> bool {
        let (proxy, place) = self.draw_session();
        self.proxies[proxy].deliver_to(place, &mut self.shards[place])
    }

    fn one_from_a_node(&mut self) -> bool {
        let (proxy, place) = self.draw_session();
        let (proxies, mut scene) = self.proxies();
        proxies[proxy].deliver_from(place, &mut scene)
    }

    fn ask(&mut self) -> bool {
        let proxy = self.rng.random_range(0..self.proxies.len());
        self.ask_of(proxy)
    }

    pub(crate) fn ask_of(&mut self, proxy: usize) -> bool {
        let mut scene = Scene { nodes: &self.shards, slots: &self.slots, reached: &mut self.reached };
        self.proxies[proxy].step_ask(&mut scene, &mut self.rng)
    }

    /// Every proxy asks again what could not be answered.
    pub(crate) fn ask_again(&mut self) {
        let (proxies, mut scene) = self.proxies();
        for proxy in proxies {
            proxy.tell(&mut scene, weir_proxy::merge::Merges::ask_again);
        }
    }

    pub(crate) fn draw_session(&mut self) -> (usize, usize) {
        (self.rng.random_range(0..self.proxies.len()), self.rng.random_range(0..self.shards.len()))
    }

    /// Whether no node is of a later history than this proxy, and none is about to say so.
    fn is_of_one_history(&self, proxy: usize) -> bool {
        let Proxy { merges, lines, .. } = &self.proxies[proxy];
        let is_later = |said: &FromNode| match said {
            FromNode::Restored { history, .. } | FromNode::History(history) => *history > merges.history(),
            FromNode::Said(_) | FromNode::Live { .. } | FromNode::Left { .. } => false,
            FromNode::Named { .. } | FromNode::NotMine(_) | FromNode::TooOld(_) => false,
        };
        self.shards.iter().all(|shard| shard.node.store().history() <= merges.history())
            && !lines.iter().flat_map(|line| &line.from_node).any(is_later)
    }

    // --- clients

    fn new_client(&mut self) {
        let (proxy, wanted) =
            (self.rng.random_range(0..self.proxies.len()), self.rng.random_range(0..self.interests.len()));
        let frontier = self.proxies[proxy].merges.frontier();
        let start = self.histories[0].history().start();
        if !self.is_of_one_history(proxy) || frontier < start {
            return;
        }
        let epoch = self.proxies[proxy].merges.history().get() as usize;
        let recent = start.get().max(frontier.get().saturating_sub(8));
        let after = match self.rng.random_range(0..8) {
            0..3 => frontier,
            3 => ResourceVersion::new(frontier.get() + self.rng.random_range(0..3)),
            4..6 => ResourceVersion::new(self.rng.random_range(recent..=frontier.get())),
            _ => ResourceVersion::new(self.rng.random_range(start.get()..=frontier.get())),
        };
        let mut client = Client::new((proxy, wanted), epoch, after);
        let is_list = self.rng.random_bool(0.4);
        if is_list && !client.start_list(&mut self.around(proxy, wanted)) {
            return;
        }
        self.clients.push(client);
    }

    fn step_client(&mut self) -> bool {
        if self.clients.is_empty() {
            return false;
        }
        let index = self.rng.random_range(0..self.clients.len());
        let goes = self.rng.random_range(0..60) == 0;
        self.step_one(index, goes)
    }

    pub(crate) fn step_one(&mut self, index: usize, goes: bool) -> bool {
        let mut client = self.clients.swap_remove(index);
        let mut around = self.around(client.proxy, client.wanted);
        let is_news = client.step(&mut around);
        if goes {
            client.leave(around.proxy, &mut around.scene);
        }
        if client.is_ended() {
            self.judge(&client);
        } else {
            self.clients.push(client);
            let last = self.clients.len() - 1;
            self.clients.swap(index, last);
        }
        is_news
    }

    fn around(&mut self, proxy: usize, wanted: usize) -> Around<'_> {
        Around {
            wanted: &self.interests[wanted],
            proxy: &mut self.proxies[proxy],
            scene: Scene { nodes: &self.shards, slots: &self.slots, reached: &mut self.reached },
            rng: &mut self.rng,
        }
    }
}
