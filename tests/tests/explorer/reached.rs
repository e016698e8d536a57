//! How often runs came to the situations that they are for: an explorer that never gets there finds nothing.

/// How often a run came to what it is for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    /// Events released to hubs.
    pub(crate) released: usize,
    /// Lists that were read to their end.
    pub(crate) lists: usize,
    /// Lists that no replica could go on with.
    pub(crate) lists_broken: usize,
    /// Lists for which two replicas of one shard were read.
    pub(crate) lists_mixed: usize,
    /// Logs before a hub that one replica had no more, or not yet, and another had.
    pub(crate) logs_elsewhere: usize,
    /// Registrations that ran out of credit.
    pub(crate) left: usize,
    /// Interests that ended.
    pub(crate) too_old: usize,
    /// Clients that have to list again.
    pub(crate) ended: usize,
    /// Clients that were there at the end and had everything.
    pub(crate) complete: usize,
    /// Lists that nodes took from a feed.
    pub(crate) relists: usize,
    /// Nodes that a feed's ring went past.
    pub(crate) overruns: usize,
    /// Backfills for nodes behind a feed's ring.
    pub(crate) backfills: usize,
    /// Backfills that upstream no longer had the log for.
    pub(crate) backfills_expired: usize,
    /// Lists beside a main watch.
    pub(crate) late_lists: usize,
    /// Feeds that began with the log behind a node's position.
    pub(crate) begun_with_log: usize,
    /// Feeds that heard from a node that another history had begun.
    pub(crate) told_by_subscribers: usize,
    /// Nodes that went from one feed to another.
    pub(crate) changed_feed: usize,
    /// Clients that their hub had gone past.
    pub(crate) behind_hub: usize,
    /// Clients that came back to their hub.
    pub(crate) gone_over: usize,
    /// Backups that upstream came back from.
    pub(crate) restored: usize,
    /// Sessions that broke.
    pub(crate) broken: usize,
    /// Sessions that took the place of one whose end was not noticed.
    pub(crate) unnoticed: usize,
    /// Nodes that were lost with what they held.
    pub(crate) crashed: usize,
    /// Nodes that were lost while a range asked them for their log.
    pub(crate) crashed_filling: usize,
    /// Times that a shard went on at another node.
    pub(crate) moved: usize,
    /// Nodes that a proxy left while ranges held back events that they had sent.
    pub(crate) moved_holding: usize,
    /// Ranges that went on at a node behind the proxy's frontier.
    pub(crate) moved_to_lagging: usize,
    /// Ranges whose node could not lead on, and which went on at another.
    pub(crate) moved_by_too_old: usize,
    /// Looks at a proxy that found interests waiting for a shard without a node.
    pub(crate) waited: usize,
    /// Nodes with registrations that a proxy left because it was told to.
    pub(crate) avoided: usize,
    /// Registrations that a node refused because it held something else.
    pub(crate) denied: usize,
    /// Nodes that listed past what a replica's log still covered.
    pub(crate) relisted_alone: usize,
    /// Questions that were lost with their connection.
    pub(crate) unconnected: usize,
    /// Nodes that got their content from a replica.
    pub(crate) copied: usize,
    /// Copies that were begun again because the donor's window had moved.
    pub(crate) copied_anew: usize,
}

type Count = (&'static str, fn(&mut Reached) -> &mut usize);

/// All of them, by name.
const COUNTS: [Count; 35] = [
    ("released", |reached| &mut reached.released),
    ("lists", |reached| &mut reached.lists),
    ("lists_broken", |reached| &mut reached.lists_broken),
    ("lists_mixed", |reached| &mut reached.lists_mixed),
    ("logs_elsewhere", |reached| &mut reached.logs_elsewhere),
    ("left", |reached| &mut reached.left),
    ("too_old", |reached| &mut reached.too_old),
    ("ended", |reached| &mut reached.ended),
    ("complete", |reached| &mut reached.complete),
    ("relists", |reached| &mut reached.relists),
    ("overruns", |reached| &mut reached.overruns),
    ("backfills", |reached| &mut reached.backfills),
    ("backfills_expired", |reached| &mut reached.backfills_expired),
    ("late_lists", |reached| &mut reached.late_lists),
    ("begun_with_log", |reached| &mut reached.begun_with_log),
    ("told_by_subscribers", |reached| &mut reached.told_by_subscribers),
    ("changed_feed", |reached| &mut reached.changed_feed),
    ("behind_hub", |reached| &mut reached.behind_hub),
    ("gone_over", |reached| &mut reached.gone_over),
    ("restored", |reached| &mut reached.restored),
    ("broken", |reached| &mut reached.broken),
    ("unnoticed", |reached| &mut reached.unnoticed),
    ("crashed", |reached| &mut reached.crashed),
    ("crashed_filling", |reached| &mut reached.crashed_filling),
    ("moved", |reached| &mut reached.moved),
    ("moved_holding", |reached| &mut reached.moved_holding),
    ("moved_to_lagging", |reached| &mut reached.moved_to_lagging),
    ("moved_by_too_old", |reached| &mut reached.moved_by_too_old),
    ("waited", |reached| &mut reached.waited),
    ("avoided", |reached| &mut reached.avoided),
    ("denied", |reached| &mut reached.denied),
    ("relisted_alone", |reached| &mut reached.relisted_alone),
    ("unconnected", |reached| &mut reached.unconnected),
    ("copied", |reached| &mut reached.copied),
    ("copied_anew", |reached| &mut reached.copied_anew),
];

// === impl Reached ===

impl Reached {
    pub(crate) fn add(&mut self, mut other: Self) {
        for (_, count) in COUNTS {
            *count(self) += *count(&mut other);
        }
    }

    /// Every situation came up at least so often.
    pub(crate) fn assert_everything(mut self, at_least: usize) {
        for (name, count) in COUNTS {
            let times = *count(&mut self);
            assert!(times >= at_least, "{times} times {name} are too few: {self:#?}");
        }
    }
}
