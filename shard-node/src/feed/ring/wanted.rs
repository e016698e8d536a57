//! What is to be read next: worked out from where the subscribers stand and from what is being read for them already.

use weir_core::{History, ResourceVersion};

use super::Ring;
use super::lists::Place;
use super::subscriber::{Stage, Subscriber};

/// What subscribers lack, joined: one answer serves all. What is being read for them is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Another history began, and the feed has missed it; or what it told of its own is false.
    pub history: Option<History>,
    /// The log from here on, up to the main watch; without one, the main watch can begin here.
    pub log: Option<ResourceVersion>,
    /// A list.
    pub list: bool,
    /// A subscriber is ahead of the feed, and upstream is not known to have come so far.
    pub ahead: Option<ResourceVersion>,
}

// === impl Ring ===

impl Ring {
    /// What subscribers lack and nothing that is being read will bring.
    pub fn wanted(&self) -> Wanted {
        let after_doubts = self.doubted.map(History::next).filter(|next| *next > self.history);
        let mut wanted = Wanted { history: after_doubts, ..Wanted::default() };
        let known = self.vouched.max(self.position.unwrap_or(ResourceVersion::MAX));
        for subscriber in self.subscribers.values() {
            if subscriber.history != self.history {
                let newer = Some(subscriber.history).filter(|history| *history > self.history);
                wanted.history = wanted.history.max(newer);
                continue;
            }
            wanted.list |= subscriber.stage == Stage::NextList && !self.lists.is_reading();
            let Some(reached) = subscriber.reached else { continue };
            if subscriber.is_backfilled() && self.lacks_log_from(reached) {
                wanted.log = Some(wanted.log.map_or(reached, |lowest| lowest.min(reached)));
            }
            if reached > known {
                wanted.ahead = wanted.ahead.max(Some(reached));
            }
        }
        wanted
    }

    /// Whether a subscriber began to want something since this was asked last.
    pub fn take_wants_more(&mut self) -> bool {
        std::mem::take(&mut self.wants_more)
    }

    /// The subscribers of the history that is read.
    pub(super) fn present(&self) -> impl Iterator<Item = &Subscriber> {
        self.subscribers.values().filter(|subscriber| subscriber.history == self.history)
    }

    /// How far those have come whom the backfill that is being read leads on. Others may wait for one from further back.
    pub(super) fn backfill_readers(&self) -> impl Iterator<Item = ResourceVersion> {
        let backfilled = self.present().filter(|subscriber| subscriber.is_backfilled());
        let is_read_by = |reached: &ResourceVersion| {
            self.backfilled.is_some_and(|at| *reached >= at) || self.backfill.leads_from(*reached)
        };
        backfilled.filter_map(|subscriber| subscriber.reached).filter(is_read_by)
    }

    pub(super) fn list_readers(&self) -> Vec<Place> {
        let place = |subscriber: &Subscriber| match subscriber.stage {
            Stage::List(place) => Some(place),
            Stage::Log | Stage::Backfill | Stage::NextList | Stage::Passed => None,
        };
        self.present().filter_map(place).collect()
    }

    /// Whether the main watch is not past this position.
    pub(super) fn is_level(&self, position: ResourceVersion) -> bool {
        self.position.is_some_and(|main| position >= main)
    }

    pub(super) fn leads_from(&self, position: ResourceVersion) -> bool {
        self.log.leads_from(position) || self.backfill.leads_from(position)
    }

    pub(super) fn lacks_log_from(&self, position: ResourceVersion) -> bool {
        let is_coming = self.backfilled.is_some_and(|at| at <= position);
        !is_coming && !self.is_level(position) && !self.leads_from(position)
    }
}

// === impl Wanted ===

impl Wanted {
    /// Whether nobody lacks anything.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
