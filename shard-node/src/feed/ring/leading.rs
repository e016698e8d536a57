//! Leading subscribers: what comes next for each from where it is.

use std::sync::Arc;

use weir_core::message::FeedMessage;

use super::lists::Place;
use super::log::Lead;
use super::subscriber::{Stage, Standing, Subscriber, SubscriberId};
use super::{Next, PATIENCE, Ring};

// === impl Ring ===

impl Ring {
    /// A subscriber says what it has. What comes next for it is what leads on from there; what of that is not here is
    /// wanted of the reader.
    ///
    /// Numbers of two histories say nothing about each other: one that knows only of an older history is told first, and
    /// then counts as empty.
    pub fn subscribe(&mut self, id: SubscriberId, standing: Standing) {
        let Standing { history, after } = standing;
        let mut subscriber =
            Subscriber { history, reached: after, stage: Stage::Log, is_told: true, idle: None };
        self.place_anew(&mut subscriber);
        self.subscribers.insert(id, subscriber);
        self.wants_more = true;
    }

    /// A subscriber is gone.
    pub fn unsubscribe(&mut self, id: SubscriberId) {
        self.subscribers.remove(&id);
    }

    /// All subscribers are gone.
    pub fn end(&mut self) {
        self.subscribers.clear();
    }

    /// What comes next for a subscriber.
    pub fn next(&mut self, id: SubscriberId) -> Next {
        let Some(mut subscriber) = self.subscribers.get(&id).copied() else { return Next::Behind };
        let before = subscriber.stage;
        let next = self.step(&mut subscriber);
        if let Next::Message(_) = next {
            subscriber.idle = None;
        }
        self.wants_more |= subscriber.stage != before;
        self.subscribers.insert(id, subscriber);
        next
    }

    fn step(&self, subscriber: &mut Subscriber) -> Next {
        if subscriber.history > self.history {
            return Next::Nothing;
        }
        if !std::mem::replace(&mut subscriber.is_told, true) {
            return Next::Message(Arc::new(FeedMessage::Restored(self.history)));
        }
        if let Some(message) = self.step_in_log(subscriber) {
            return Next::Message(message);
        }
        match subscriber.stage {
            Stage::Passed => Next::Behind,
            Stage::Backfill | Stage::NextList => Next::Nothing,
            Stage::List(place) => self.step_in_list(subscriber, place),
            Stage::Log if subscriber.reached.is_some_and(|reached| self.is_level(reached)) => Next::Nothing,
            Stage::Log if subscriber.reached <= self.lost => {
                self.lead_to_list(subscriber);
                match subscriber.stage {
                    Stage::List(place) => self.step_in_list(subscriber, place),
                    Stage::Log | Stage::Backfill | Stage::NextList | Stage::Passed => Next::Nothing,
                }
            }
            Stage::Log => Next::Behind,
        }
    }

    /// The statement that leads on. Not in the middle of a list: its reader is behind the list's revision, or nowhere.
    fn step_in_log(&self, subscriber: &mut Subscriber) -> Option<Arc<FeedMessage>> {
        if matches!(subscriber.stage, Stage::List(Place { seq: 1.., .. }) | Stage::Passed) {
            return None;
        }
        let reached = subscriber.reached?;
        let from_main = self.log.lead_from(reached).map(|lead| (lead, Stage::Log));
        let lead = from_main.or_else(|| Some((self.backfill.lead_from(reached)?, Stage::Backfill)));
        let (Lead { message, to }, stage) = lead?;
        subscriber.reached = Some(to);
        let needs_list = matches!(subscriber.stage, Stage::List(_)) && Some(to) <= self.lost;
        if !needs_list {
            subscriber.stage = stage;
        }
        Some(message)
    }

    fn step_in_list(&self, subscriber: &mut Subscriber, place: Place) -> Next {
        let Some(message) = self.lists.chunk(place) else { return Next::Nothing };
        if place.seq == 0 && !self.lists.is_news(place.list, subscriber.reached) {
            self.place_in_log(subscriber);
            return Next::Nothing;
        }
        subscriber.stage = Stage::List(Place { seq: place.seq + 1, ..place });
        if let FeedMessage::List(chunk) = &**message
            && chunk.is_last
        {
            // From here it is led like everybody else; the main watch may be past what the ring still has.
            subscriber.reached = subscriber.reached.max(Some(chunk.at));
            self.place_in_log(subscriber);
        }
        Next::Message(message.clone())
    }

    /// Decides what a subscriber of this history reads or waits for.
    pub(super) fn place(&self, subscriber: &mut Subscriber) {
        let is_led = subscriber.reached.is_some_and(|reached| self.log.leads_from(reached));
        if !is_led && subscriber.reached <= self.lost {
            self.lead_to_list(subscriber);
        } else {
            self.place_in_log(subscriber);
        }
    }

    fn place_in_log(&self, subscriber: &mut Subscriber) {
        let is_led = |reached| self.is_level(reached) || self.log.leads_from(reached);
        let is_led = subscriber.reached.is_some_and(is_led);
        subscriber.stage = if is_led { Stage::Log } else { Stage::Backfill };
    }

    pub(super) fn lead_to_list(&self, subscriber: &mut Subscriber) {
        let beginning = self.lists.beginning(subscriber.reached);
        subscriber.stage = beginning.map_or(Stage::NextList, Stage::List);
        subscriber.idle = None;
    }

    /// Places the subscribers of the history that is read whom `step` is meant for.
    pub(super) fn place_where(
        &mut self,
        is_meant: impl Fn(&Self, &Subscriber) -> bool,
        place: impl Fn(&Self, &mut Subscriber),
    ) {
        let mut subscribers = std::mem::take(&mut self.subscribers);
        for subscriber in subscribers.values_mut() {
            if subscriber.history == self.history && is_meant(self, subscriber) {
                place(self, subscriber);
            }
        }
        self.subscribers = subscribers;
        self.wants_more = true;
    }

    /// Places a subscriber when it comes or the history changes. One that knows of a newer history waits until the feed
    /// has heard of it.
    pub(super) fn place_anew(&self, subscriber: &mut Subscriber) {
        if subscriber.history < self.history {
            let history = self.history;
            *subscriber =
                Subscriber { history, reached: None, stage: Stage::Log, is_told: false, idle: None };
        }
        if subscriber.history == self.history {
            self.place(subscriber);
        }
    }

    /// Passes the readers of lists and backfills that leave what is there unread for too long.
    pub(super) fn pass_idle(&mut self) {
        let (now, lists, backfill) = (self.now, &self.lists, &self.backfill);
        for subscriber in self.subscribers.values_mut() {
            let has_more = match subscriber.stage {
                Stage::List(place) => lists.chunk(place).is_some(),
                Stage::Backfill => subscriber.reached.is_some_and(|reached| backfill.leads_from(reached)),
                Stage::Log | Stage::NextList | Stage::Passed => false,
            };
            subscriber.idle = has_more.then(|| subscriber.idle.unwrap_or(now));
            if subscriber.idle.is_some_and(|since| now.saturating_sub(since) >= PATIENCE) {
                subscriber.stage = Stage::Passed;
                subscriber.idle = None;
            }
        }
    }
}
