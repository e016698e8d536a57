//! One range of one interest: where it stands, and how it comes to follow its node live. Live first: the node says where
//! the registration begins (`at`), what lies before comes as statements of its log, and what it says meanwhile waits as
//! one interval.
//!
//! The frontier that a node says for the whole mirror counts for a range only while it is live and its own position has
//! reached `at`; counting it earlier promises events that were never fetched.

use weir_core::message::{Credit, InterestEvent, OpenId};
use weir_core::statement::{Progress, SourceId, Statement};
use weir_core::{ResourceVersion, SlotSet};

/// Statements that the proxy makes of what waited carry no source of their own.
const WAITED: SourceId = SourceId(0);

/// One range.
#[derive(Debug)]
pub(super) struct Range {
    slots: SlotSet,
    progress: Progress,
    phase: Phase,
    is_asking: bool,
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
        Self { slots, progress: Progress::starting_at(after), phase: Phase::Away, is_asking: false }
    }

    pub(super) fn slots(&self) -> SlotSet {
        self.slots
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

    /// Whether it should be registered as soon as there is room.
    pub(super) fn is_away(&self) -> bool {
        matches!(self.phase, Phase::Away)
    }

    pub(super) fn opening(&mut self, open: OpenId) {
        self.phase = Phase::Opening(open);
    }

    /// The registration begins at `at`.
    pub(super) fn on_live(&mut self, at: ResourceVersion) -> Vec<InterestEvent> {
        if let Phase::Opening(open) = self.phase {
            self.phase = Phase::Filling { open, at, waiting: Vec::new() };
        }
        self.settle()
    }

    /// The node has ended the registration; everything up to `until` was said.
    pub(super) fn on_left(&mut self, until: ResourceVersion) -> Vec<InterestEvent> {
        match std::mem::replace(&mut self.phase, Phase::Away) {
            Phase::Live(_) => self.take(self.progress.position(), until, Vec::new()),
            Phase::Filling { at, waiting, .. } => {
                self.phase = Phase::Leaving { at, until: until.max(at), waiting };
                self.settle()
            }
            Phase::Away | Phase::Opening(_) | Phase::Leaving { .. } => Vec::new(),
        }
    }

    /// An event of the registration. It is fresh at once when the range is live; else it waits.
    pub(super) fn on_event(&mut self, from: OpenId, event: InterestEvent) -> Option<InterestEvent> {
        match &mut self.phase {
            Phase::Live(open) if *open == from => {
                let (after, to) = (self.progress.position(), event.rv);
                self.take(after, to, vec![event]).pop()
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

    /// A part of the log before `at`.
    pub(super) fn on_log(&mut self, statement: Statement<InterestEvent>) -> Vec<InterestEvent> {
        self.is_asking = false;
        let mut events: Vec<InterestEvent> =
            self.progress.take(statement).map(Iterator::collect).unwrap_or_default();
        events.extend(self.settle());
        events
    }

    /// The question came back without an answer; it may be asked again.
    pub(super) fn log_failed(&mut self) {
        self.is_asking = false;
    }

    /// The interval to ask the log for, if one is missing, none is being asked for, and there is room.
    pub(super) fn next_log(
        &mut self,
        buffered: usize,
        credit: Credit,
    ) -> Option<(ResourceVersion, ResourceVersion)> {
        let at = match &self.phase {
            Phase::Filling { at, .. } | Phase::Leaving { at, .. } => *at,
            Phase::Away | Phase::Opening(_) | Phase::Live(_) => return None,
        };
        let after = self.progress.position();
        if self.is_asking || after >= at || buffered >= credit.0 as usize {
            return None;
        }
        self.is_asking = true;
        Some((after, at))
    }

    /// Once the position has reached `at`, what waited is applied as one interval.
    fn settle(&mut self) -> Vec<InterestEvent> {
        let position = self.progress.position();
        match std::mem::replace(&mut self.phase, Phase::Away) {
            Phase::Filling { open, at, waiting } if position >= at => {
                self.phase = Phase::Live(open);
                let to = waiting.last().map_or(at, |event| event.rv);
                self.take(at, to, waiting)
            }
            Phase::Leaving { at, until, waiting } if position >= at => self.take(at, until, waiting),
            phase => {
                self.phase = phase;
                Vec::new()
            }
        }
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
