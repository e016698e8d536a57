//! One range of one interest: where it stands, and how it comes to follow its node live. Live first: the node says where
//! the registration begins (`at`), what lies before comes as statements of its log, and what it says meanwhile waits as
//! one interval.
//!
//! The frontier that a node says for the whole mirror counts for a range only while it is live and its own position has
//! reached `at`; counting it earlier promises events that were never fetched.

use std::collections::BTreeMap;

use weir_core::message::{Credit, InterestEvent, OpenId};
use weir_core::statement::{Progress, SourceId, Statement};
use weir_core::{ResourceVersion, SlotSet};

use super::NodeIndex;

/// Statements that the proxy makes of what waited carry no source of their own.
const WAITED: SourceId = SourceId(0);

/// One range.
#[derive(Debug)]
pub(super) struct Range {
    slots: SlotSet,
    /// The node that it follows; `None` while there is none.
    node: Option<NodeIndex>,
    /// Nodes that could not lead on from a position; they are asked again when it has moved.
    refused: BTreeMap<NodeIndex, ResourceVersion>,
    progress: Progress,
    phase: Phase,
    /// Who is being asked for the log.
    asking: Option<NodeIndex>,
    /// Events in the merge's buffer, wherever they came from.
    buffered: usize,
    /// Credit of the present registration that was used and is free again, but not given back yet.
    free: u32,
}

/// How far the registration is.
#[derive(Debug)]
enum Phase {
    /// Not registered.
    Away,
    /// Registering.
    Opening(OpenId),
    /// Registered at `at`, which the position has not reached.
    Filling { open: OpenId, at: ResourceVersion, waiting: Vec<InterestEvent> },
    /// Left at `until` before the position had reached `at`.
    Leaving { at: ResourceVersion, until: ResourceVersion, waiting: Vec<InterestEvent> },
    /// Registered, and everything before is here.
    Live(OpenId),
}

// === impl Range ===

impl Range {
    pub(super) fn new(slots: SlotSet, after: ResourceVersion) -> Self {
        let progress = Progress::starting_at(after);
        Self {
            slots,
            node: None,
            refused: BTreeMap::new(),
            progress,
            phase: Phase::Away,
            asking: None,
            buffered: 0,
            free: 0,
        }
    }

    pub(super) fn slots(&self) -> SlotSet {
        self.slots
    }

    /// The node that it follows.
    pub(super) fn node(&self) -> Option<NodeIndex> {
        self.node
    }

    /// Follows another node from here on; the session with the old one is over, or the registration there.
    pub(super) fn follow(&mut self, node: NodeIndex) {
        self.node = Some(node);
    }

    /// The node cannot lead on from here.
    pub(super) fn refuse(&mut self, node: NodeIndex) {
        self.refused.insert(node, self.progress.position());
    }

    /// A node that comes back may lead on after all.
    pub(super) fn forgive(&mut self, node: NodeIndex) {
        self.refused.remove(&node);
    }

    /// Whether the node may be asked: it has not refused this position.
    pub(super) fn takes(&self, node: NodeIndex) -> bool {
        self.refused.get(&node).is_none_or(|position| *position < self.progress.position())
    }

    /// The registration that events may come from now.
    pub(super) fn registration(&self) -> Option<OpenId> {
        match &self.phase {
            Phase::Opening(open) | Phase::Filling { open, .. } | Phase::Live(open) => Some(*open),
            Phase::Away | Phase::Leaving { .. } => None,
        }
    }

    /// Up to where the range is complete, given what its node has said for the whole mirror.
    pub(super) fn position(&self, said: ResourceVersion) -> ResourceVersion {
        let own = self.progress.position();
        match &self.phase {
            Phase::Live(_) => own.max(said),
            Phase::Away | Phase::Opening(_) | Phase::Filling { .. } | Phase::Leaving { .. } => own,
        }
    }

    /// Whether it should be registered now: it is not, and at most half of the credit is buffered.
    pub(super) fn wants_registration(&self, credit: Credit) -> bool {
        matches!(self.phase, Phase::Away) && self.buffered * 2 <= credit.0 as usize
    }

    pub(super) fn opening(&mut self, open: OpenId) {
        self.phase = Phase::Opening(open);
        self.free = 0;
    }

    /// The registration begins at `at`.
    pub(super) fn on_live(&mut self, at: ResourceVersion) {
        if let Phase::Opening(open) = self.phase {
            let is_here = self.progress.position() >= at;
            self.phase =
                if is_here { Phase::Live(open) } else { Phase::Filling { open, at, waiting: Vec::new() } };
        }
    }

    /// The node has ended the registration; everything up to `until` was said.
    pub(super) fn on_left(&mut self, until: ResourceVersion) {
        match std::mem::replace(&mut self.phase, Phase::Away) {
            Phase::Live(_) => drop(self.take(self.progress.position(), until, Vec::new())),
            Phase::Filling { at, waiting, .. } => {
                self.phase = Phase::Leaving { at, until: until.max(at), waiting };
            }
            Phase::Away | Phase::Opening(_) | Phase::Leaving { .. } => {}
        }
    }

    /// The registration ended, and may begin anew at the same node: the range is ahead of all that this node has `said`. False
    /// when it is not, and nothing has changed.
    pub(super) fn on_ended(&mut self, said: ResourceVersion) -> bool {
        let is_ahead = self.progress.position() > said;
        if is_ahead {
            self.phase = Phase::Away;
        }
        is_ahead
    }

    /// The range leaves its node, which had `said` so much. The position stays, and with it everything that is buffered; what
    /// waited is fetched again.
    pub(super) fn on_lost(&mut self, said: ResourceVersion) {
        let reached = self.position(said);
        self.phase = Phase::Away;
        self.node = None;
        self.asking = None;
        self.take(self.progress.position(), reached, Vec::new());
    }

    /// An event of the registration. It is fresh at once when the range is live; else it waits.
    pub(super) fn on_event(&mut self, from: OpenId, event: InterestEvent) -> Option<InterestEvent> {
        match &mut self.phase {
            Phase::Live(open) if *open == from => {
                let (after, to) = (self.progress.position(), event.rv);
                let fresh = self.take(after, to, vec![event]).pop();
                self.free += u32::from(fresh.is_none());
                fresh
            }
            Phase::Filling { open, waiting, .. } if *open == from => {
                waiting.push(event);
                None
            }
            Phase::Live(_)
            | Phase::Filling { .. }
            | Phase::Away
            | Phase::Opening(_)
            | Phase::Leaving { .. } => None,
        }
    }

    /// A part of the log before `at`. A late or repeated one brings nothing new.
    pub(super) fn on_log(
        &mut self,
        from: NodeIndex,
        statement: Statement<InterestEvent>,
    ) -> Vec<InterestEvent> {
        self.answered(from);
        self.progress.take(statement).map(Iterator::collect).unwrap_or_default()
    }

    /// Once the position has reached `at`, what waited is applied as one interval.
    pub(super) fn settle(&mut self) -> Vec<InterestEvent> {
        let position = self.progress.position();
        match std::mem::replace(&mut self.phase, Phase::Away) {
            Phase::Filling { open, at, waiting } if position >= at => {
                self.phase = Phase::Live(open);
                let to = waiting.last().map_or(at, |event| event.rv);
                let came = waiting.len();
                let fresh = self.take(at, to, waiting);
                self.free += (came - fresh.len()) as u32;
                fresh
            }
            Phase::Leaving { at, until, waiting } if position >= at => self.take(at, until, waiting),
            phase => {
                self.phase = phase;
                Vec::new()
            }
        }
    }

    /// Whether a log that begins after `floor` cannot lead on: one from before the position, or one that is no longer asked
    /// for, says nothing.
    pub(super) fn is_behind(&self, floor: ResourceVersion) -> bool {
        floor > self.progress.position() && self.missing().is_some()
    }

    /// A question came back; it may be asked again. False when it was not the present one.
    pub(super) fn answered(&mut self, from: NodeIndex) -> bool {
        let is_present = self.asking == Some(from);
        if is_present {
            self.asking = None;
        }
        is_present
    }

    /// The interval to ask the log for, if one is missing, none is being asked for, and there is room. What waits takes no
    /// part in the room: only the log can free it.
    pub(super) fn next_log(&mut self, credit: Credit) -> Option<(ResourceVersion, ResourceVersion)> {
        let missing =
            self.missing().filter(|_| self.asking.is_none() && self.buffered < credit.0 as usize)?;
        self.asking = self.node;
        Some(missing)
    }

    /// Events of this range went into the merge's buffer.
    pub(super) fn on_buffered(&mut self, events: usize) {
        self.buffered += events;
    }

    /// An event left the merge's buffer. Only what the present registration sent gives its credit back: other events, of
    /// the log or of an earlier registration, never used it.
    pub(super) fn on_released(&mut self, sent_by: Option<OpenId>) {
        self.buffered -= 1;
        self.free += u32::from(sent_by.is_some() && sent_by == self.registration());
    }

    /// Credit to give back, once it is worth a message: half of what there is.
    pub(super) fn take_free(&mut self, credit: Credit) -> Option<(OpenId, Credit)> {
        let open = self.registration().filter(|_| self.free > 0 && self.free * 2 >= credit.0)?;
        Some((open, Credit(std::mem::take(&mut self.free))))
    }

    /// Events in the merge's buffer.
    pub(super) fn buffered(&self) -> usize {
        self.buffered
    }

    /// Events that wait for the position to reach where the registration began.
    pub(super) fn waiting(&self) -> usize {
        match &self.phase {
            Phase::Filling { waiting, .. } | Phase::Leaving { waiting, .. } => waiting.len(),
            Phase::Away | Phase::Opening(_) | Phase::Live(_) => 0,
        }
    }

    fn missing(&self) -> Option<(ResourceVersion, ResourceVersion)> {
        let at = match &self.phase {
            Phase::Filling { at, .. } | Phase::Leaving { at, .. } => *at,
            Phase::Away | Phase::Opening(_) | Phase::Live(_) => return None,
        };
        let after = self.progress.position();
        (after < at).then_some((after, at))
    }

    fn take(
        &mut self,
        after: ResourceVersion,
        to: ResourceVersion,
        events: Vec<InterestEvent>,
    ) -> Vec<InterestEvent> {
        if to <= after {
            return Vec::new();
        }
        let Ok(statement) = Statement::new(WAITED, after, to, events) else { return Vec::new() };
        self.progress.take(statement).map(Iterator::collect).unwrap_or_default()
    }
}
