//! One run: upstream, feeds, shards, proxies and clients, a random schedule, and then a quiet end in which everything
//! has to come to rest, complete.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir_core::ResourceVersion;
use weir_core::message::FromNode;
use weir_proxy::merge::NodeIndex;
use weir_shard_node::node::Outgoing;
use weir_tests::model::{Pod, Upstream, Wanted};

use crate::client::{Around, Client};
use crate::feed::{Feed, Reading};
use crate::proxy::Proxy;
use crate::reached::Reached;
use crate::settings::{self, Settings, pick};
use crate::shard::Shard;

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
    pub(crate) shards: Vec<Shard>,
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
        let shards: Vec<Shard> = (0..settings.nodes).map(|index| Shard::new(index, &settings)).collect();
        let slots: Vec<_> = shards.iter().map(|shard| shard.slots).collect();
        let mut world = Self {
            now: Duration::ZERO,
            histories: vec![Upstream::new(ResourceVersion::new(rng.random_range(1..5)))],
            compacted: ResourceVersion::ZERO,
            interests: settings::interests(&mut rng),
            feeds: (0..settings.feeds).map(|index| Feed::new(index, settings.ring_bytes)).collect(),
            proxies: (0..settings.proxies).map(|index| Proxy::new(index, &settings, slots.clone())).collect(),
            shards,
            clients: Vec::new(),
            uids: 0,
            reached: Reached::default(),
            rng,
            settings,
        };
        for index in 0..world.proxies.len() {
            for shard in 0..world.shards.len() {
                let slots = world.shards[shard].slots;
                world.proxies[index].merges.on_session(NodeIndex(shard), slots);
                let outgoing = world.shards[shard].node.attach(world.proxies[index].session);
                world.queue(shard, outgoing);
            }
        }
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
        match self.rng.random_range(0..100) {
            0..10 => self.write(),
            10..25 => drop(self.read_feed()),
            25..50 => drop(self.pull()),
            50..58 => drop(self.one_to_a_node()),
            58..76 => drop(self.one_from_a_node()),
            76..82 => drop(self.ask()),
            82..85 => self.new_client(),
            85..97 => drop(self.step_client()),
            97..98 => self.disturb(),
            _ => self.pass_time(),
        }
        if self.rng.random_range(0..8) == 0 {
            self.check();
        }
    }

    /// The invariants of the parts.
    pub(crate) fn check(&self) {
        self.shards.iter().for_each(|shard| shard.node.store().check());
        self.proxies.iter().for_each(|proxy| proxy.merges.check(settings::MAX_LOG as usize));
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
        let epoch = self.histories.len() - 1;
        let reading = Reading { upstream: &self.histories[epoch], epoch, compacted: self.compacted };
        self.feeds[index].read(&reading, &mut self.rng)
    }

    fn disturb(&mut self) {
        let feed = self.rng.random_range(0..self.feeds.len());
        let shard = self.rng.random_range(0..self.shards.len());
        match self.rng.random_range(0..10) {
            8 | 9 if !self.settings.is_restored => {
                let proxy = self.rng.random_range(0..self.proxies.len());
                self.proxies[proxy].lose_session(shard, &mut self.shards[shard], &mut self.reached);
            }
            0 => self.feeds[feed].reconnect(),
            1 => self.feeds[feed].relist(),
            2 => self.compacted = self.histories.last().map(Upstream::revision).unwrap_or_default(),
            3 => self.feeds[feed].ring.shrink(),
            4 | 5 => self.shards[shard].break_off(feed),
            _ if self.settings.is_restored => self.restore(),
            _ => {}
        }
    }

    /// Upstream comes back from a backup. Feeds notice when they read next.
    fn restore(&mut self) {
        let epoch = self.histories.len() - 1;
        // One at a time: shards that missed two are told once, and the model counts.
        if self.shards.iter().any(|shard| shard.history != epoch) {
            return;
        }
        let last = &self.histories[epoch];
        let (start, end) = (last.history().start().get(), last.revision().get());
        let at = ResourceVersion::new(self.rng.random_range(start..=end));
        let restored = last.restored(at);
        self.histories.push(restored);
        self.compacted = ResourceVersion::ZERO;
        self.reached.restored += 1;
    }

    // --- shards

    fn pull(&mut self) -> bool {
        let shard = self.rng.random_range(0..self.shards.len());
        let feed = self.rng.random_range(0..self.feeds.len());
        self.pull_from(shard, feed)
    }

    pub(crate) fn pull_from(&mut self, shard: usize, feed: usize) -> bool {
        let before = self.shards[shard].history;
        let outgoing = self.shards[shard].pull((feed, &mut self.feeds[feed]), self.now, &mut self.reached);
        if self.shards[shard].history != before {
            self.clients.iter_mut().for_each(Client::cut);
        }
        let is_news = outgoing.is_some();
        self.queue(shard, outgoing.unwrap_or_default());
        is_news
    }

    fn queue(&mut self, shard: usize, outgoing: Vec<Outgoing>) {
        for (session, said) in outgoing {
            let proxy = self.proxies.iter_mut().find(|proxy| proxy.session == session);
            proxy.expect("sessions are those of proxies").from_nodes[shard].push_back(said);
        }
    }

    fn pass_time(&mut self) {
        self.now += Duration::from_secs(self.rng.random_range(1..10));
        for shard in &mut self.shards {
            shard.node.trim(self.now);
        }
    }

    // --- proxies

    fn one_to_a_node(&mut self) -> bool {
        let (proxy, node) = self.draw_session();
        self.proxies[proxy].deliver_to(node, &mut self.shards[node])
    }

    fn one_from_a_node(&mut self) -> bool {
        let (proxy, node) = self.draw_session();
        self.proxies[proxy].deliver_from(node, &mut self.reached)
    }

    fn ask(&mut self) -> bool {
        let proxy = self.rng.random_range(0..self.proxies.len());
        self.proxies[proxy].step_ask(&self.shards, &mut self.rng, &mut self.reached)
    }

    fn draw_session(&mut self) -> (usize, usize) {
        (self.rng.random_range(0..self.proxies.len()), self.rng.random_range(0..self.shards.len()))
    }

    /// Whether every shard, and what this proxy heard of each, is of the same history.
    fn is_of_one_history(&self, proxy: usize) -> bool {
        let is_restored = |said: &FromNode| matches!(said, FromNode::Restored { .. });
        self.shards.iter().all(|shard| shard.history == self.shards[0].history)
            && !self.proxies[proxy].from_nodes.iter().flatten().any(is_restored)
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
        let after = match self.rng.random_range(0..4) {
            0 => frontier,
            1 => ResourceVersion::new(frontier.get() + self.rng.random_range(0..3)),
            _ => ResourceVersion::new(self.rng.random_range(start.get()..=frontier.get())),
        };
        let mut client = Client::new((proxy, wanted), self.shards[0].history, after);
        let is_list = self.rng.random_bool(0.4);
        if is_list && !client.start_list(&self.around(proxy, wanted)) {
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
            client.leave(around.proxy, around.reached);
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
            shards: &self.shards,
            rng: &mut self.rng,
            reached: &mut self.reached,
        }
    }
}
