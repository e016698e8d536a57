//! One client's way through the log: from its own position over the shards' logs, where the hub has not gone back so far,
//! and on in the hub. The client is a position and nothing else; a slow one is simply late.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::Instant;
use weir_core::message::{InterestEvent, LogRequest, Unanswered};
use weir_core::statement::Progress;
use weir_core::{History, ResourceVersion, SlotSet};

use super::lease::Lease;
use super::{End, Read};
use crate::merge::ShardIndex;

#[cfg(test)]
mod tests;

/// How long a log that could not be read, or a window that is none, is left alone.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// The longest pause between two looks whether all shards can answer again.
const LOOK_LIMIT: Duration = Duration::from_millis(320);
/// How long it may take until all shards can answer again after a hub has ended.
const JUDGE_LIMIT: Duration = Duration::from_secs(10);
/// Events handed over in one go.
const MAX_EVENTS: usize = 256;

/// A client that follows an interest.
#[derive(Debug)]
pub struct Follower {
    lease: Lease,
    cursor: ResourceVersion,
    /// The history that the cursor is of.
    history: Option<History>,
    replay: Option<Replay>,
}

/// What a client is to be given next.
#[derive(Debug)]
pub enum Next {
    /// These events.
    Events(Vec<InterestEvent>),
    /// Nothing; everything up to this position was given.
    Nothing(ResourceVersion),
    /// The stream cannot go on from here.
    Ended(End),
}

/// Reading the logs of all shards up to where the hub begins.
#[derive(Debug)]
struct Replay {
    ranges: Vec<(ShardIndex, SlotSet, Progress)>,
    buffer: BTreeMap<ResourceVersion, InterestEvent>,
}

// === impl Follower ===

impl Follower {
    /// A client that has everything up to `after`, a position of this history.
    pub fn new(lease: Lease, after: ResourceVersion, history: Option<History>) -> Self {
        Self { lease, cursor: after, history, replay: None }
    }

    /// Up to where the client has everything.
    pub fn cursor(&self) -> ResourceVersion {
        self.cursor
    }

    /// The lowest position from which a client could go on now.
    pub fn floor(&self) -> ResourceVersion {
        self.lease.shards().window().map_or(self.cursor, |window| window.floor)
    }

    /// Whether the client reads the logs of shards, since the hub does not go back as far.
    pub fn is_late(&self) -> bool {
        self.replay.is_some()
    }

    /// What comes next; waits only for the logs of shards. Dropping the future loses nothing.
    pub async fn advance(&mut self) -> Next {
        let mut deadline = None;
        loop {
            let (frontier, before) = (self.lease.frontier(), self.cursor);
            match self.lease.read(self.cursor, MAX_EVENTS) {
                Read::Events(events) => {
                    self.cursor = events.last().map_or(self.cursor, |event| event.rv);
                    self.replay = None;
                    return Next::Events(events);
                }
                Read::Nothing => {
                    self.cursor = self.cursor.max(frontier);
                    // A later replay begins where the client is then; the positions of this one may be too old by then.
                    self.replay = None;
                    return Next::Nothing(self.cursor);
                }
                Read::Ended(end) => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + JUDGE_LIMIT);
                    if !self.goes_on_after(end, deadline).await {
                        return Next::Ended(end);
                    }
                }
                Read::Behind(floor) => match self.replay_to(floor).await {
                    Ok(events) if !events.is_empty() => return Next::Events(events),
                    Ok(_) if self.cursor > before => {}
                    Err(Unanswered::TooOld { .. } | Unanswered::NotMine) => return Next::Ended(End::TooOld),
                    // A replica that is behind comes there, and a shard without one gets one, or the interest ends.
                    Ok(_) | Err(Unanswered::NotReached { .. } | Unanswered::Empty) => {
                        tokio::time::sleep(LOOK_AGAIN).await;
                    }
                },
            }
        }
    }

    /// The hub has ended because somebody's position was too old, which need not be this client's: one that has listed since
    /// goes on with another hub. Judged once all shards can answer in one window, for they begin anew one after the other.
    async fn goes_on_after(&mut self, end: End, deadline: Instant) -> bool {
        let mut pause = LOOK_AGAIN;
        while end == End::TooOld && Instant::now() < deadline && self.history.is_some() {
            // A floor may be some moments old; without a pause it would be looked at again at once.
            tokio::time::sleep(pause).await;
            pause = LOOK_LIMIT.min(pause * 2);
            let shards = self.lease.shards();
            let (history, window) = (shards.history(), shards.window());
            if history.is_some() && history != self.history {
                return false;
            }
            let Some(window) = window else { continue };
            if self.cursor < window.floor {
                return false;
            }
            let Some(lease) = self.lease.again() else { return false };
            (self.lease, self.replay) = (lease, None);
            return true;
        }
        false
    }

    /// Waits until there may be more.
    pub async fn changed(&mut self) {
        self.lease.changed().await;
    }

    /// One step towards the hub's floor: the events up to where all ranges have come.
    async fn replay_to(&mut self, floor: ResourceVersion) -> Result<Vec<InterestEvent>, Unanswered> {
        let Some(interest) = self.lease.interest().cloned() else { return Err(Unanswered::Empty) };
        let wanted = interest.slots();
        let history = self.history.ok_or(Unanswered::Empty)?;
        let (shards, cursor) = (self.lease.shards().clone(), self.cursor);
        let replay = self.replay.get_or_insert_with(|| {
            let ranges = shards
                .slots()
                .iter()
                .enumerate()
                .map(|(shard, slots)| (ShardIndex(shard), slots.intersection(&wanted)));
            let ranges = ranges.filter(|(_, slots)| !slots.is_empty());
            Replay {
                ranges: ranges.map(|(shard, slots)| (shard, slots, Progress::starting_at(cursor))).collect(),
                buffer: BTreeMap::new(),
            }
        });
        let behind = replay.ranges.iter_mut().filter(|(_, _, progress)| {
            let position = progress.position();
            position < floor && position <= cursor
        });
        let questions = behind.map(|(shard, slots, progress)| {
            let (after, interest) = (progress.position(), interest.clone());
            let request = LogRequest { history, interest, slots: *slots, after, to: floor };
            let shards = &shards;
            async move { Ok::<_, Unanswered>((progress, shards.log(*shard, &request).await?)) }
        });
        for (progress, statement) in try_join_all(questions).await? {
            if let Ok(events) = progress.take(statement) {
                replay.buffer.extend(events.map(|event| (event.rv, event)));
            }
        }
        let reached = replay.ranges.iter().map(|(_, _, progress)| progress.position()).min().unwrap_or(floor);
        let later = replay.buffer.split_off(&reached.next());
        let events = std::mem::replace(&mut replay.buffer, later).into_values().collect();
        self.cursor = self.cursor.max(reached);
        Ok(events)
    }
}
