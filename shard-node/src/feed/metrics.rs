//! What feeds count, by resource. The counters outlive a feed: a mirror that starts again goes on with the same ones, so
//! that they never fall.

use prometheus_client::metrics::{counter::Counter, family::Family};
use prometheus_client::registry::Registry;
use weir_core::GroupVersionResource;

/// One label: the resource as it is named in logs. There are as many as mirrors that ever were.
type Label = [(&'static str, String); 1];

/// The counters of all feeds of a process.
#[derive(Clone, Debug, Default)]
pub struct FeedMetrics {
    lists: Family<Label, Counter>,
    late_lists: Family<Label, Counter>,
    watches: Family<Label, Counter>,
    backfills: Family<Label, Counter>,
    restores: Family<Label, Counter>,
    ticks: Family<Label, Counter>,
    failed_ticks: Family<Label, Counter>,
}

/// The counters of one mirror's feeds.
#[derive(Clone, Debug, Default)]
pub struct FeedCounters {
    /// Lists that upstream served, in full or in part.
    pub lists: Counter,
    /// Lists that were begun beside a watch, for subscribers that came late.
    pub late_lists: Counter,
    /// Main watches opened.
    pub watches: Counter,
    /// Backfills begun.
    pub backfills: Counter,
    /// Histories begun after the first: upstream's went back, a subscriber knew of it, or what was told of one was false.
    pub restores: Counter,
    /// Ticks sent.
    pub ticks: Counter,
    /// Those of them that upstream refused, did not answer in time, or did not write.
    pub failed_ticks: Counter,
}

// === impl FeedMetrics ===

impl FeedMetrics {
    /// Shows the counters.
    pub fn register(&self, registry: &mut Registry) {
        let Self { lists, late_lists, watches, backfills, restores, ticks, failed_ticks } = self;
        let mut add = |name: &str, help: &str, family: &Family<Label, Counter>| {
            registry.register(name, help, family.clone());
        };
        add("upstream_lists", "Lists of a mirror that upstream served, in full or in part", lists);
        add("feed_late_lists", "Lists begun for shards that came late", late_lists);
        add("feed_watches", "Watches opened at upstream", watches);
        add("feed_backfills", "Watches opened for shards that were behind the ring", backfills);
        add(
            "feed_restores",
            "Histories begun after the first: upstream's went back, or what was told of one was found false",
            restores,
        );
        add("feed_ticks", "Writes of a tick object, sent since somebody waited for a quiet mirror", ticks);
        add(
            "feed_failed_ticks",
            "Ticks that upstream refused, did not answer in time, or did not write",
            failed_ticks,
        );
    }

    /// The counters of one mirror.
    pub fn of(&self, resource: &GroupVersionResource) -> FeedCounters {
        let label = [("resource", resource.to_string())];
        let of = |family: &Family<Label, Counter>| family.get_or_create(&label).clone();
        FeedCounters {
            lists: of(&self.lists),
            late_lists: of(&self.late_lists),
            watches: of(&self.watches),
            backfills: of(&self.backfills),
            restores: of(&self.restores),
            ticks: of(&self.ticks),
            failed_ticks: of(&self.failed_ticks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_a_mirror_outlive_its_feed() {
        let metrics = FeedMetrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let pods = GroupVersionResource::new("", "v1", "pods");
        metrics.of(&pods).lists.inc();
        metrics.of(&pods).lists.inc();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let line = format!("upstream_lists_total{{resource=\"{pods}\"}} 2");
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
