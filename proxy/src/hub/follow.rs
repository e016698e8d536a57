//! One client's way through the log: from its own position over the shards' logs, where the hub has not gone back so far,
//! and on in the hub. The client is a position and nothing else; a slow one is simply late.

use std::collections::BTreeMap;

use weir_core::message::{InterestEvent, LogRequest, Unanswered};
use weir_core::statement::Progress;
use weir_core::{History, ResourceVersion, SlotSet};

use super::fanout::Lease;
use super::{End, Read};

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
    ranges: Vec<(usize, SlotSet, Progress)>,
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

    /// What comes next, without waiting.
    pub fn advance(&mut self) -> Next {
        let frontier = self.lease.frontier();
        loop {
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
                Read::Ended(end) => return Next::Ended(end),
                Read::Behind(floor) => match self.replay_to(floor) {
                    Ok(events) if events.is_empty() => {}
                    Ok(events) => return Next::Events(events),
                    Err(_) => return Next::Ended(End::TooOld),
                },
            }
        }
    }

    /// Waits until there may be more.
    pub async fn changed(&mut self) {
        self.lease.changed().await;
    }

    /// One step towards the hub's floor: the events up to where all ranges have come.
    fn replay_to(&mut self, floor: ResourceVersion) -> Result<Vec<InterestEvent>, Unanswered> {
        let Some(interest) = self.lease.interest().cloned() else { return Err(Unanswered::Empty) };
        let wanted = interest.slots();
        let history = self.history.ok_or(Unanswered::Empty)?;
        let (shards, cursor) = (self.lease.shards().clone(), self.cursor);
        let replay = self.replay.get_or_insert_with(|| {
            let ranges = shards
                .slots()
                .into_iter()
                .enumerate()
                .map(|(node, slots)| (node, slots.intersection(&wanted)));
            let ranges = ranges.filter(|(_, slots)| !slots.is_empty());
            Replay {
                ranges: ranges.map(|(node, slots)| (node, slots, Progress::starting_at(cursor))).collect(),
                buffer: BTreeMap::new(),
            }
        });
        for (node, slots, progress) in &mut replay.ranges {
            let after = progress.position();
            if after >= floor || after > cursor {
                continue;
            }
            let statement = shards.log(
                *node,
                &LogRequest { history, interest: interest.clone(), slots: *slots, after, to: floor },
            )?;
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
