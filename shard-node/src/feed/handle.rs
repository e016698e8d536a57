//! What a feed's reader and its subscribers share: the ring, and the wake-ups between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior};
use weir_core::interest::Scope;
use weir_core::message::{FeedMessage, ListChunk};
use weir_core::mirror::MirrorFacts;
use weir_core::{History, ResourceVersion, SourceId};

use super::metrics::FeedCounters;
use super::prove::Questions;
use super::ring::{self, Next, Ring, RingBounds, Standing, SubscriberId, Wanted};
use super::scope::{Detail, ScopeContent};
use super::subscription::Subscription;

/// What the ring of a feed holds.
const BOUNDS: RingBounds = RingBounds {
    // At 1,000 changes a second of 4 KiB each, 16 seconds for a subscriber that lags.
    log_bytes: 64 << 20,
    // 70,000 pods of 7 KiB: up to here a list is kept whole for those that come a little later. Of a larger one no more
    // than this is read ahead of its slowest reader.
    list_bytes: 512 << 20,
};

/// How often what was kept long enough is looked for.
const TICK: Duration = Duration::from_secs(1);

/// Names of subscribers that the feed gives begin here; below are those that its own process chooses.
const FIRST_GIVEN_ID: u64 = 1 << 32;

/// A feed, shared between its reader and its subscribers.
#[derive(Debug)]
pub struct FeedHandle {
    ring: Mutex<Ring>,
    /// Counts changes of the ring, so that a subscriber can wait for more.
    changed: watch::Sender<u64>,
    /// A subscriber has read, or is gone.
    read: Notify,
    /// A subscriber began to lack something.
    wants_more: Notify,
    source: watch::Sender<Option<SourceId>>,
    facts: watch::Sender<Option<Arc<MirrorFacts>>>,
    questions: Questions,
    counters: FeedCounters,
    next_id: AtomicU64,
}

// === impl FeedHandle ===

impl FeedHandle {
    /// A feed that has read nothing; its reader answers the questions.
    pub fn new(questions: Questions) -> Self {
        Self::bounded(questions, BOUNDS)
    }

    /// The same with other bounds.
    pub fn bounded(questions: Questions, bounds: RingBounds) -> Self {
        Self {
            questions,
            ring: Mutex::new(Ring::new(bounds)),
            changed: watch::Sender::new(0),
            read: Notify::new(),
            wants_more: Notify::new(),
            source: watch::Sender::new(None),
            facts: watch::Sender::new(None),
            counters: FeedCounters::default(),
            next_id: AtomicU64::new(FIRST_GIVEN_ID),
        }
    }

    /// Counts where the mirror's earlier feeds counted.
    #[must_use]
    pub fn counted_by(self, counters: FeedCounters) -> Self {
        Self { counters, ..self }
    }

    /// What the feed counts.
    pub fn counters(&self) -> &FeedCounters {
        &self.counters
    }

    // --- what a subscriber is told before the first message

    /// The upstream watch that is read; `None` while there is none.
    pub fn source(&self) -> Option<SourceId> {
        *self.source.borrow()
    }

    /// How far the feed has come; `None` where it has read nothing.
    pub fn position(&self) -> Option<ResourceVersion> {
        self.ring.lock().position()
    }

    /// Which of upstream's histories is read, as far as the feed knows.
    pub fn history(&self) -> History {
        self.ring.lock().history()
    }

    /// What answers repeat, once known.
    pub fn facts(&self) -> watch::Receiver<Option<Arc<MirrorFacts>>> {
        self.facts.subscribe()
    }

    // --- subscribers

    /// A subscriber that is gone when the value is dropped.
    pub fn open(self: &Arc<Self>, standing: Standing) -> Subscription {
        let id = SubscriberId(self.next_id.fetch_add(1, Ordering::Relaxed));
        Subscription::new(self.clone(), id, standing)
    }

    /// How many subscribers there are.
    pub fn subscribers(&self) -> usize {
        self.ring.lock().subscribers()
    }

    /// A subscriber comes, or comes again, with what it has; what the ring cannot lead on from there, the reader is asked
    /// to read again.
    pub fn subscribe(&self, id: SubscriberId, standing: Standing) {
        self.change(|ring| ring.subscribe(id, standing));
        // It may have left what it was reading.
        self.read.notify_waiters();
    }

    /// A subscriber is gone; nothing waits for it any more.
    pub fn unsubscribe(&self, id: SubscriberId) {
        self.change(|ring| ring.unsubscribe(id));
        self.read.notify_waiters();
    }

    /// What comes next for a subscriber; waits for it. Dropping the future loses nothing.
    pub async fn next(&self, id: SubscriberId) -> Next {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let next = self.take(id);
            if let Next::Nothing = next {
                // The sender lives in self, so the channel cannot close.
                let _ = changed.changed().await;
                continue;
            }
            self.read.notify_waiters();
            return next;
        }
    }

    // --- questions

    /// Upstream's newest revision, as the feed's own instance answers it after this call began; see [`Questions::newest`].
    pub async fn newest(&self, catch_up: bool) -> Option<ResourceVersion> {
        self.questions.newest(catch_up).await
    }

    /// What a scope holds at upstream now; see [`Questions::scope`].
    pub async fn scope(&self, scope: Scope, detail: Detail) -> Option<Arc<ScopeContent>> {
        self.questions.scope(scope, detail).await
    }

    /// The revision of a tick that was sent after this call began; see [`Questions::tick`].
    pub async fn tick(&self) -> Option<ResourceVersion> {
        self.questions.tick().await
    }

    /// Whether a tick is worth asking for; see [`Questions::can_tick`].
    pub fn can_tick(&self) -> bool {
        self.questions.can_tick()
    }

    /// What was told of this history is false: the reader drops it and begins the next one, unless it has.
    pub fn doubt(&self, history: History) {
        self.change(|ring| ring.doubt(history));
    }

    // --- the end

    /// Passes all subscribers: nothing is read any more.
    pub fn end(&self) {
        self.change(Ring::end);
    }

    // --- the reader

    /// Changes the ring and wakes whom it concerns.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Ring) -> T) -> T {
        let mut ring = self.ring.lock();
        let result = change(&mut ring);
        let wants_more = ring.take_wants_more();
        drop(ring);
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
        if wants_more {
            self.wants_more.notify_one();
        }
        result
    }

    /// Looks at the ring.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Ring) -> T) -> T {
        look(&self.ring.lock())
    }

    /// What subscribers lack, once `can_start` takes something of it.
    pub(super) async fn wanted(&self, can_start: impl Fn(&Wanted) -> bool) -> Wanted {
        loop {
            let more = self.wants_more.notified();
            let wanted = self.look(Ring::wanted);
            if can_start(&wanted) {
                return wanted;
            }
            more.await;
        }
    }

    /// Adds a chunk of the list that is being read once its readers have made room.
    pub(super) async fn push_list(&self, chunk: ListChunk) {
        let message = FeedMessage::List(chunk);
        let bytes = ring::bytes_of(&message);
        let FeedMessage::List(chunk) = message else { return };
        self.until(|ring| ring.has_list_room(bytes)).await;
        self.change(|ring| ring.push_list(chunk));
    }

    /// Waits until so many bytes of a backfill can be added.
    pub(super) async fn backfill_room(&self, bytes: usize) {
        self.until(|ring| ring.has_backfill_room(bytes)).await;
    }

    pub(super) fn set_source(&self, source: Option<SourceId>) {
        self.source.send_replace(source);
    }

    /// Publishes what answers repeat.
    pub(super) fn set_facts(&self, facts: MirrorFacts) {
        self.facts.send_replace(Some(Arc::new(facts)));
    }

    /// Has a frontier that stands still moved on; runs until dropped. Upstream tells an open watch how far it is once a minute,
    /// and what clients can go on from is as old as what they were told last.
    pub(super) async fn keep_young(&self, look_every: Duration) {
        let mut before = None;
        loop {
            tokio::time::sleep(look_every.mul_f64(rand::random_range(0.9..1.1))).await;
            let position = self.position();
            if position.is_some() && position == before {
                // Whatever comes of it: it is looked at again.
                let _ = self.newest(true).await;
            }
            before = position;
        }
    }

    /// Lets time pass in the ring; runs until dropped.
    pub(super) async fn keep_house(&self) {
        let started = Instant::now();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.change(|ring| ring.pass_time(started.elapsed()));
            self.read.notify_waiters();
        }
    }

    fn take(&self, id: SubscriberId) -> Next {
        let mut ring = self.ring.lock();
        let next = ring.next(id);
        let wants_more = ring.take_wants_more();
        drop(ring);
        if wants_more {
            self.wants_more.notify_one();
            // It may have left what it was reading.
            self.read.notify_waiters();
        }
        next
    }

    async fn until(&self, is_so: impl Fn(&mut Ring) -> bool) {
        loop {
            let read = self.read.notified();
            if is_so(&mut self.ring.lock()) {
                return;
            }
            read.await;
        }
    }
}
