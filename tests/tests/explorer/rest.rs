//! The quiet end of a run: nothing is written any more, everything is delivered, and what is open must be complete. What
//! clients saw is judged against upstream's history, and what is left in memory against upstream's content.

use std::time::Duration;

use weir_core::Slot;
use weir_tests::checker::{Item, Version, check_list, check_watch};
use weir_tests::model::Upstream;

use crate::client::Client;
use crate::proxy::Proxy;
use crate::world::World;

/// Rounds in which everything comes to rest; a run of some hundred steps leaves far less to do.
const MAX_ROUNDS: usize = 5_000;

/// Questions of a proxy that move on in a round.
const MAX_ASKS: usize = 8;

// === impl World ===

impl World {
    pub(crate) fn come_to_rest(&mut self) {
        self.mend_everything();
        for _ in 0..MAX_ROUNDS {
            if !self.round() {
                return;
            }
        }
        panic!("no rest after {MAX_ROUNDS} rounds: {:?}", self.proxies);
    }

    /// Everybody once. False when nobody had anything to do.
    fn round(&mut self) -> bool {
        let mut is_news = false;
        for feed in 0..self.feeds.len() {
            is_news |= self.read_from(feed);
        }
        is_news |= self.step_copy();
        for place in 0..self.shards.len() {
            for feed in 0..self.feeds.len() {
                is_news |= self.pull_from(place, feed);
            }
            for proxy in 0..self.proxies.len() {
                is_news |= self.proxies[proxy].deliver_to(place, &mut self.shards[place]);
                let (proxies, mut scene) = self.proxies();
                is_news |= proxies[proxy].deliver_from(place, &mut scene);
            }
        }
        self.ask_again();
        for proxy in (0..self.proxies.len()).flat_map(|proxy| [proxy; MAX_ASKS]) {
            is_news |= self.ask_of(proxy);
        }
        for index in (0..self.clients.len()).rev() {
            is_news |= self.step_one(index, false);
        }
        is_news || self.proxies.iter().any(Proxy::is_busy)
    }

    /// What is still open is complete.
    pub(crate) fn judge_the_open(&mut self) {
        let revision = self.histories.last().map(Upstream::revision).unwrap_or_default();
        for shard in &self.shards {
            let window = shard.node.window().expect("every shard has content at the end");
            assert_eq!(window.frontier, revision, "a shard at rest has everything");
        }
        for mut client in std::mem::take(&mut self.clients) {
            assert!(
                client.cut.is_none(),
                "upstream's history went back and a client did not end: {client:?}"
            );
            client.watch.complete_to = revision;
            assert!(client.watch.position() >= revision, "an open client at rest has a bookmark: {client:?}");
            self.reached.complete += 1;
            self.judge(&client);
            let at = client.proxy;
            let (proxies, mut scene) = self.proxies();
            client.leave(&mut proxies[at], &mut scene);
        }
    }

    pub(crate) fn judge(&self, client: &Client) {
        let (upstream, wanted) = (&self.histories[client.epoch], &self.interests[client.wanted]);
        let selection = |version: &Version| upstream.means(wanted, version);
        let mut watch = client.watch.clone();
        watch.items.truncate(client.cut.unwrap_or(usize::MAX));
        let saw = || format!("{} after {}: {}", wanted.name, watch.after, brief(&watch.items));
        if let Err(fault) = check_watch(upstream.history(), &selection, &watch) {
            panic!("{fault}\n{}\n{:?}", saw(), self.settings);
        }
        if let Some(Err(fault)) =
            client.list.as_ref().map(|list| check_list(upstream.history(), &selection, list))
        {
            panic!("{fault}\n{}\n{:?}", saw(), self.settings);
        }
    }

    /// Nothing is left of clients that are gone, and nothing of a log that is over.
    pub(crate) fn everybody_leaves(&mut self) {
        self.come_to_rest();
        self.check();
        let revision = self.histories.last().map(Upstream::revision).unwrap_or_default();
        for proxy in &self.proxies {
            assert!(proxy.merges.is_empty() && proxy.hubs.is_empty() && !proxy.is_asking());
            assert!(proxy.merges.holes().is_empty(), "every shard has a node at the end");
            assert_eq!(proxy.merges.frontier(), revision, "a proxy at rest knows how far all have come");
        }
        self.now += self.settings.window.max_age + self.settings.window.min_age + Duration::from_secs(1);
        let Some(upstream) = self.histories.last() else { return };
        for shard in &mut self.shards {
            shard.node.trim(self.now);
            shard.node.store().check();
            assert_eq!(shard.node.interests(), 0, "registrations end with their clients");
            let mine: Vec<_> =
                upstream.pods().values().filter(|pod| shard.slots.contains(Slot::of(pod.hash()))).collect();
            let holdings = shard.node.store().holdings();
            assert_eq!((holdings.live_objects, holdings.log_events, holdings.log_bytes), (mine.len(), 0, 0));
        }
    }
}

fn brief(items: &[Item]) -> String {
    let brief = items.iter().map(|item| match item {
        Item::Event(seen) => format!("{:?} {}", seen.kind, seen.version.rv),
        Item::Bookmark(at) => format!("bookmark {at}"),
    });
    brief.collect::<Vec<_>>().join(", ")
}
