//! The task of one mirror's subscription: a warm start, then one feed after the other. It ends when it is dropped, or when
//! feeds say that there is no such mirror, or another one than the node follows.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};
use weir_core::GroupVersionResource;
use weir_core::mirror::MirrorSpec;
use weir_daemon::members::NodeAddress;
use weir_proto::session::Unmirrored;

use super::chosen::{Chosen, Left};
use super::stream::{FollowError, Stream, Wanted};
use super::trials::Trials;
use super::{FollowLimits, FollowMetrics, Told};
use crate::feed::ring::Standing;
use crate::feeds::Feeds;
use crate::node::cell::NodeCell;
use crate::nodes::Nodes;
use crate::subscriber::standing;
use crate::warm::{self, Donor};

/// How often feeds are tried again when none can be had.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// What a subscription is made of.
#[derive(Debug)]
pub struct Follower {
    pub(super) mirror: GroupVersionResource,
    pub(super) cell: Arc<NodeCell>,
    pub(super) feeds: Arc<Feeds>,
    pub(super) nodes: Arc<Nodes>,
    pub(super) told: Arc<Told>,
    pub(super) metrics: FollowMetrics,
    pub(super) limits: FollowLimits,
    pub(super) trials: Trials,
    /// Whether a list may end the log that the node has: no replica can lead it on.
    pub(super) takes_lists: bool,
    /// The zero of the node's clock.
    pub(super) started: Instant,
    /// Since when the node has been looking for its first content.
    pub(super) empty_since: Instant,
}

/// What the feeds that were tried say of a mirror that there was. One of them may ask an instance that lags.
#[derive(Debug, Default)]
struct Refused {
    reason: Option<Unmirrored>,
    is_doubtful: bool,
}

// === impl Follower ===

impl Follower {
    /// The subscription of one mirror, which fills `cell`. `started` is the zero of the node's clock.
    pub fn new(
        mirror: GroupVersionResource,
        (cell, started): (Arc<NodeCell>, Instant),
        (feeds, nodes): (Arc<Feeds>, Arc<Nodes>),
        (limits, metrics): (FollowLimits, FollowMetrics),
    ) -> Self {
        let told = Arc::new(Told::default());
        let (trials, empty_since) = (Trials::default(), Instant::now());
        Self {
            mirror,
            cell,
            feeds,
            nodes,
            told,
            metrics,
            limits,
            trials,
            takes_lists: false,
            started,
            empty_since,
        }
    }

    /// What it tells.
    pub fn told(&self) -> Arc<Told> {
        self.told.clone()
    }

    /// Follows feeds until dropped.
    pub async fn run(mut self) {
        if let Err(reason) = self.begin().await {
            self.refuse(reason);
            return;
        }
        let mut preferred = None;
        loop {
            let standing = standing(&self.cell);
            let chosen = match self.choose(preferred.take(), standing).await {
                Ok(stream) => Chosen::new(stream, self.limits),
                Err(reason) => {
                    self.refuse(reason);
                    return;
                }
            };
            preferred = self.follow(chosen).await;
        }
    }

    /// Copies a replica, if one has content. What the mirror is comes from a feed first; where the replica stands, a
    /// subscription costs upstream nothing.
    async fn begin(&mut self) -> Result<(), Unmirrored> {
        // Whoever is not found in time can be found later.
        let _ = timeout(self.limits.first_choice, self.nodes.known()).await;
        let donors = self.donors().await;
        let Some(Donor { history, window, .. }) = donors.first() else { return Ok(()) };
        let stream = self.choose(None, Standing::at(*history, window.frontier)).await?;
        let spec = stream.spec.clone();
        self.learn(&spec);
        drop(stream);
        if warm::copy(&self.nodes, &donors, &spec, (&self.cell, self.started)).await {
            self.metrics.warm_starts.inc();
            self.told.has_content.send_replace(true);
        }
        Ok(())
    }

    async fn donors(&self) -> Vec<Donor> {
        if self.cell.window().is_some() {
            return Vec::new();
        }
        let slots = self.cell.slots();
        let donors = warm::donors(&self.nodes, &self.mirror, &slots).await;
        if !donors.is_empty() {
            return donors;
        }
        // A replica that was too busy to say what it has is worth a second question: without it upstream is asked for a list.
        warm::donors(&self.nodes, &self.mirror, &slots).await
    }

    /// One feed, and whatever it is left for while it can be read. Returns whom to try first next.
    async fn follow(&mut self, mut chosen: Chosen) -> Option<NodeAddress> {
        info!(resource = %self.mirror, feed = %chosen.address(), at = %chosen.at(), "subscribed");
        self.learn(&chosen.spec());
        self.metrics.subscriptions.inc();
        let left = chosen.run(self).await;
        self.metrics.subscriptions.dec();
        self.metrics.feeds_lost.inc();
        let address = chosen.address().clone();
        match left {
            Left::Lost(error) => {
                let wait = self.trials.failed(&address);
                warn!(
                    resource = %self.mirror, feed = %address,
                    error = &error as &dyn std::error::Error, "feed lost"
                );
                sleep(wait).await;
            }
            Left::Unled => {
                let wait = self.trials.failed(&address);
                warn!(resource = %self.mirror, feed = %address, "feed does not lead on, subscribing again");
                sleep(wait).await;
            }
            Left::Listing => {
                let donors = warm::donors(&self.nodes, &self.mirror, &self.cell.slots()).await;
                let into = (&*self.cell, self.started);
                self.takes_lists = !warm::lead_on(&self.nodes, &donors, &chosen.spec(), into).await;
                info!(resource = %self.mirror, is_led = !self.takes_lists, "upstream has lost the log, asked replicas");
            }
            Left::Hanging => {
                warn!(resource = %self.mirror, feed = %address, "node of the feed hangs, leaving it");
                return None;
            }
            Left::Behind { others } => {
                warn!(resource = %self.mirror, feed = %address, %others, "feed stands still, leaving it");
                self.trials.suspend(&address, self.limits.suspended);
                return None;
            }
        }
        Some(address)
    }

    /// The first feed that can be had, tried in order, `preferred` before all.
    async fn choose(
        &mut self,
        preferred: Option<NodeAddress>,
        standing: Standing,
    ) -> Result<Stream, Unmirrored> {
        let wanted = Wanted { mirror: self.mirror.clone(), slots: self.cell.slots(), standing };
        let mut changed = self.nodes.changed();
        loop {
            changed.mark_unchanged();
            let mut refused = Refused::default();
            for address in self.candidates(preferred.as_ref(), standing) {
                match Stream::open((&self.nodes, &self.feeds), &address, &wanted).await {
                    Ok(stream) if self.is_another(&stream.spec) => return Err(Unmirrored::NotServed),
                    Ok(stream) => return Ok(stream),
                    Err(FollowError::Unmirrored(reason)) if self.is_unknown() => return Err(reason),
                    Err(error) => {
                        refused.take(&error);
                        let error: &dyn std::error::Error = &error;
                        debug!(resource = %self.mirror, feed = %address, error, "no feed");
                        self.trials.failed(&address);
                    }
                }
            }
            if let Some(reason) = refused.by_all() {
                return Err(reason);
            }
            tokio::select! {
                Ok(()) = changed.changed() => {}
                () = sleep(TRY_AGAIN) => {}
            }
        }
    }

    /// Whom to try now.
    fn candidates(&self, preferred: Option<&NodeAddress>, standing: Standing) -> Vec<NodeAddress> {
        let is_waiting = self.empty_since.elapsed() < self.limits.first_choice;
        let mut order = if standing.after.is_none() && self.is_empty() && is_waiting {
            self.nodes.order(&self.mirror).into_iter().take(1).collect()
        } else {
            self.order(preferred)
        };
        let is_due = |address: &NodeAddress| self.trials.is_due(address) && !self.nodes.is_hanging(address);
        order.retain(is_due);
        order
    }

    /// All nodes as feeds of this mirror, the most wanted first, the doubtful ones last.
    fn order(&self, preferred: Option<&NodeAddress>) -> Vec<NodeAddress> {
        let mut order = self.nodes.order(&self.mirror);
        // The sort is stable.
        order.sort_by_key(|address| (self.is_doubtful(address), preferred != Some(address)));
        order
    }

    /// Whether the feed of a node stood still lately, or the node cannot be reached.
    pub(super) fn is_doubtful(&self, address: &NodeAddress) -> bool {
        self.trials.is_suspended(address) || self.nodes.is_down(address)
    }

    /// Whether the node has never had content.
    fn is_empty(&self) -> bool {
        !*self.told.has_content.borrow()
    }

    /// Whether a feed reads something else by the name of what the node follows.
    pub(super) fn is_another(&self, spec: &MirrorSpec) -> bool {
        matches!(&*self.told.spec.borrow(), Some(Ok(known)) if !known.is_same(spec))
    }

    fn is_unknown(&self) -> bool {
        self.told.spec.borrow().is_none()
    }

    fn learn(&self, spec: &Arc<MirrorSpec>) {
        self.told.spec.send_if_modified(|known| {
            let is_news = known.is_none();
            if is_news {
                *known = Some(Ok(spec.clone()));
            }
            is_news
        });
    }

    fn refuse(&self, reason: Unmirrored) {
        self.told.spec.send_replace(Some(Err(reason)));
    }
}

// === impl Refused ===

impl Refused {
    fn take(&mut self, error: &FollowError) {
        match error {
            FollowError::Unmirrored(reason) => self.reason = Some(*reason),
            // A node that cannot be reached says nothing.
            FollowError::Dial(_) | FollowError::Lost(_) | FollowError::Silent => {}
            FollowError::Local(_)
            | FollowError::Protocol(_)
            | FollowError::Ended
            | FollowError::Passed(_) => self.is_doubtful = true,
        }
    }

    fn by_all(&self) -> Option<Unmirrored> {
        self.reason.filter(|_| !self.is_doubtful)
    }
}
