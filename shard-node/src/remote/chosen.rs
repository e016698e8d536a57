//! The feed that is read, and the better one that is being taken instead. Of both everything is taken; the old one is left
//! when the new one has come as far as the node.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tracing::{debug, info, warn};
use weir_core::message::FeedMessage;
use weir_core::mirror::MirrorSpec;
use weir_core::{History, ResourceVersion};
use weir_daemon::members::NodeAddress;

use super::stream::{FollowError, Heard, Stream, Wanted};
use super::{FollowLimits, Follower};
use crate::subscriber::standing;

/// How often the feed is judged, and a better one looked for.
const CHECK: Duration = Duration::from_millis(250);
/// How often a quiet window moves with time; its shortest bound is 75 s.
const TRIM: Duration = Duration::from_secs(5);

/// Why a feed is left.
#[derive(Debug)]
pub(super) enum Left {
    /// Its stream has ended.
    Lost(FollowError),
    /// What it says does not lead the node on.
    Unled,
    /// It begins a list, as upstream has no longer what leads the node on; a replica may.
    Listing,
    /// Its node does not answer while others do.
    Hanging,
    /// It says nothing while others have more.
    Behind {
        /// How far they are.
        others: ResourceVersion,
    },
}

/// What became of something that a feed said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The node goes on.
    Led,
    /// The node has to subscribe again, with what it has.
    Unled,
    /// A list begins, and the node would lose its log by it.
    Declined,
}

/// A better feed on its way.
type Approach = Pin<Box<dyn Future<Output = Result<Stream, FollowError>> + Send>>;

/// The feed that is read.
pub(super) struct Chosen {
    current: Stream,
    limits: FollowLimits,
    heard: Instant,
    /// How far others were when it was first seen that they have more, and when that was.
    missed: Option<((History, ResourceVersion), Instant)>,
    approach: Option<(NodeAddress, Approach)>,
    /// The better feed, once it is subscribed to.
    next: Option<Stream>,
}

// === impl Chosen ===

impl Chosen {
    pub(super) fn new(current: Stream, limits: FollowLimits) -> Self {
        Self { current, limits, heard: Instant::now(), missed: None, approach: None, next: None }
    }

    pub(super) fn address(&self) -> &NodeAddress {
        &self.current.address
    }

    pub(super) fn at(&self) -> ResourceVersion {
        self.current.at
    }

    pub(super) fn spec(&self) -> Arc<MirrorSpec> {
        self.current.spec.clone()
    }

    /// Reads until the feed has to be left.
    pub(super) async fn run(&mut self, follower: &mut Follower) -> Left {
        let (mut check, mut trim) = (every(CHECK), every(TRIM));
        loop {
            tokio::select! {
                biased;
                _ = trim.tick() => follower.cell.trim(follower.started.elapsed()),
                _ = check.tick() => {
                    if let Some(left) = self.judge(follower) {
                        return left;
                    }
                    self.look_for_better(follower);
                }
                heard = self.current.next() => {
                    self.heard = Instant::now();
                    match heard {
                        Ok(heard) => match follower.take(&self.current, heard) {
                            Taken::Led => {}
                            Taken::Unled => return Left::Unled,
                            Taken::Declined => return Left::Listing,
                        },
                        Err(error) if self.take_over("feed lost") => debug!(%error, "the old feed has ended"),
                        Err(error) => return Left::Lost(error),
                    }
                }
                heard = next_of(self.next.as_mut()) => self.hear_next(heard, follower),
                opened = opened(self.approach.as_mut()) => self.approached(opened, follower),
            }
        }
    }

    /// Whether the feed has to be left.
    fn judge(&mut self, follower: &Follower) -> Option<Left> {
        if self.heard.elapsed() < self.limits.silent {
            self.missed = None;
            return None;
        }
        if self.current.address != *follower.nodes.own() && follower.nodes.is_hanging(&self.current.address) {
            return Some(Left::Hanging);
        }
        let standing = standing(&follower.cell);
        let others = follower.nodes.newest(&follower.mirror)?;
        let own = (standing.history, standing.after.unwrap_or_default());
        // A node that waits for its first list is given as long as it waited for the feed.
        let patience = if standing.after.is_none() { self.limits.first_choice } else { self.limits.behind };
        match self.missed {
            Some((missed, since)) if missed > own => {
                (since.elapsed() >= patience).then_some(Left::Behind { others: others.1 })
            }
            Some(_) | None => {
                self.missed = (others > own).then(|| (others, Instant::now()));
                None
            }
        }
    }

    /// Begins to approach the best feed that is better than this one.
    fn look_for_better(&mut self, follower: &Follower) {
        let order = follower.nodes.order(&follower.mirror);
        let rank = |address: &NodeAddress| order.iter().position(|one| one == address).unwrap_or(order.len());
        let own_rank = rank(&self.current.address);
        if let Some((address, _)) = &self.approach
            && rank(address) >= own_rank
        {
            self.approach = None;
        }
        if self.approach.is_some() || self.next.is_some() {
            return;
        }
        let is_well = |address: &&NodeAddress| {
            follower.trials.is_due(address)
                && !follower.is_doubtful(address)
                && !follower.nodes.is_hanging(address)
        };
        if let Some(better) = order[..own_rank].iter().find(is_well) {
            let approach = approach(follower, better.clone(), self.limits.back_for);
            self.approach = Some((better.clone(), approach));
        }
    }

    fn approached(&mut self, opened: Result<Stream, FollowError>, follower: &mut Follower) {
        let Some((address, _)) = self.approach.take() else { return };
        match opened {
            // The old feed finds out by itself that upstream serves something else now.
            Ok(stream) if follower.is_another(&stream.spec) => {
                follower.trials.failed(&address);
            }
            Ok(stream) => self.next = Some(stream),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                debug!(resource = %follower.mirror, feed = %address, error, "better feed not there yet");
                follower.trials.failed(&address);
            }
        }
        self.hand_over(follower);
    }

    fn hear_next(&mut self, heard: Result<Heard, FollowError>, follower: &mut Follower) {
        let Some(next) = &self.next else { return };
        let is_led = match heard {
            Ok(heard) => follower.take(next, heard) == Taken::Led,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                warn!(resource = %follower.mirror, feed = %next.address, error, "better feed lost");
                false
            }
        };
        if is_led {
            self.hand_over(follower);
        } else {
            follower.trials.failed(&next.address);
            self.next = None;
        }
    }

    /// Leaves the old feed when the new one has come as far as the node.
    fn hand_over(&mut self, follower: &Follower) {
        let standing = standing(&follower.cell);
        let is_level = |next: &Stream| {
            next.history == standing.history && standing.after.is_none_or(|after| next.reached >= after)
        };
        if self.next.as_ref().is_some_and(is_level) && self.take_over("better feed") {
            follower.metrics.hand_overs.inc();
        }
    }

    /// Reads the new feed instead of the old one. False if there is none.
    fn take_over(&mut self, why: &'static str) -> bool {
        let Some(next) = self.next.take() else { return false };
        info!(resource = %next.spec.resource, from = %self.current.address, to = %next.address, why, "feed handed over");
        self.current = next;
        (self.heard, self.missed) = (Instant::now(), None);
        true
    }
}

// === impl Follower ===

impl Follower {
    /// Takes what a feed says.
    pub(super) fn take(&mut self, stream: &Stream, heard: Heard) -> Taken {
        let message = match heard {
            Heard::Facts(facts) => {
                self.told.facts.send_replace(Some(facts));
                return Taken::Led;
            }
            Heard::Message(message) => message,
        };
        let is_restore = matches!(message, FeedMessage::Restored(_));
        if !is_restore && stream.history != self.cell.history() {
            return Taken::Unled;
        }
        let mut ends_list_at = None;
        if let FeedMessage::List(chunk) = &message {
            if chunk.seq == 0 && !self.takes_lists && self.cell.window().is_some() {
                return Taken::Declined;
            }
            ends_list_at = Some(chunk.at).filter(|_| chunk.is_last);
        }
        if let Err(gap) = self.cell.on_feed(message, self.started.elapsed()) {
            debug!(resource = %self.mirror, feed = %stream.address, %gap, "gap");
            return Taken::Unled;
        }
        let window = self.cell.window();
        if window.is_some() {
            self.trials.succeeded(&stream.address);
            self.told.has_content.send_if_modified(|has_content| !std::mem::replace(has_content, true));
        }
        self.takes_lists &= ends_list_at.is_none();
        let is_led = |at| window.is_some_and(|window| window.frontier >= at);
        if ends_list_at.is_none_or(is_led) { Taken::Led } else { Taken::Unled }
    }
}

/// Connects to a better feed, waits until it has been there for a while, and subscribes from what the node has then.
fn approach(follower: &Follower, address: NodeAddress, back_for: Duration) -> Approach {
    let (nodes, feeds) = (follower.nodes.clone(), follower.feeds.clone());
    let (mirror, cell) = (follower.mirror.clone(), follower.cell.clone());
    Box::pin(async move {
        let channel = if address == *nodes.own() { None } else { Some(nodes.dial(&address).await?) };
        tokio::time::sleep(back_for).await;
        let wanted = Wanted { mirror, slots: cell.slots(), standing: standing(&cell) };
        match channel {
            None => Stream::open_here(&feeds, &address, &wanted).await,
            Some(channel) => Stream::open_over(channel, &address, &wanted).await,
        }
    })
}

async fn next_of(stream: Option<&mut Stream>) -> Result<Heard, FollowError> {
    match stream {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}

async fn opened(approach: Option<&mut (NodeAddress, Approach)>) -> Result<Stream, FollowError> {
    match approach {
        Some((_, approach)) => approach.await,
        None => std::future::pending().await,
    }
}

fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
