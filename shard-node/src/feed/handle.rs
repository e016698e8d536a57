//! What a feed's reader and its subscribers share: the ring, and the wake-ups between them.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use weir_core::ResourceVersion;
use weir_core::message::FeedMessage;
use weir_core::mirror::MirrorFacts;

use super::prove::Questions;
use super::ring::{Lack, Next, Ring, SubscriberId};
use super::scope::ScopeContent;

/// Object bytes that a ring holds: at 1,000 changes a second of 4 KiB each, 16 seconds for a subscriber that lags.
const RING_BYTES: usize = 64 << 20;

/// A feed, shared between its reader and its subscribers.
#[derive(Debug)]
pub struct FeedHandle {
    ring: Mutex<Ring>,
    /// Counts what was pushed, so that a subscriber can wait for more.
    pushed: watch::Sender<u64>,
    /// A subscriber has read.
    read: Notify,
    /// What subscribers lack.
    wanted: Mutex<Wanted>,
    wanted_changed: Notify,
    facts: watch::Sender<Option<Arc<MirrorFacts>>>,
    questions: Questions,
}

/// What subscribers lack, joined: one answer serves all.
#[derive(Debug, Default)]
struct Wanted {
    log: Option<ResourceVersion>,
    list: bool,
}

// === impl FeedHandle ===

impl FeedHandle {
    /// A feed that has read nothing; its reader answers the questions.
    pub fn new(questions: Questions) -> Self {
        Self {
            questions,
            ring: Mutex::new(Ring::new(RING_BYTES)),
            pushed: watch::Sender::new(0),
            read: Notify::new(),
            wanted: Mutex::default(),
            wanted_changed: Notify::new(),
            facts: watch::Sender::new(None),
        }
    }

    /// Adds what was read.
    pub fn push(&self, message: FeedMessage) {
        if matches!(&message, FeedMessage::List(chunk) if chunk.seq == 0) {
            // Who wants a list so far will read this one from its beginning.
            self.wanted.lock().list = false;
        }
        self.ring.lock().push(message);
        self.pushed.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Waits until a list chunk can be added without passing a subscriber.
    pub async fn room(&self) {
        loop {
            let read = self.read.notified();
            if self.ring.lock().has_room() {
                return;
            }
            read.await;
        }
    }

    /// Subscribes from a position; what the ring cannot lead on from there, the reader is asked to read again.
    pub fn subscribe(&self, id: SubscriberId, after: Option<ResourceVersion>) {
        let lack = self.ring.lock().subscribe(id, after);
        let mut wanted = self.wanted.lock();
        match lack {
            None => return,
            Some(Lack::Log(after)) => wanted.log = Some(wanted.log.map_or(after, |other| other.min(after))),
            Some(Lack::List) => wanted.list = true,
        }
        drop(wanted);
        self.wanted_changed.notify_one();
    }

    /// What comes next for a subscriber; waits for it.
    pub async fn next(&self, id: SubscriberId) -> Next {
        let mut pushed = self.pushed.subscribe();
        loop {
            pushed.mark_unchanged();
            let next = self.ring.lock().next(id);
            if let Next::Nothing = next {
                // The sender lives in self, so the channel cannot close.
                let _ = pushed.changed().await;
                continue;
            }
            self.read.notify_one();
            return next;
        }
    }

    /// Drops what every subscriber has read.
    pub fn shrink(&self) {
        self.ring.lock().shrink();
    }

    /// What a subscriber lacks; waits until one lacks something. A log comes first: a list ends what the log could lead on.
    pub async fn wanted(&self) -> Lack {
        loop {
            let changed = self.wanted_changed.notified();
            if let Some(lack) = self.wanted.lock().take() {
                return lack;
            }
            changed.await;
        }
    }

    /// Upstream's newest revision, as the feed's own instance answers it after this call began; see [`Questions::newest`].
    pub async fn newest(&self, catch_up: bool) -> Option<ResourceVersion> {
        self.questions.newest(catch_up).await
    }

    /// What a namespace, or the whole collection, holds at upstream now; see [`Questions::scope`].
    pub async fn scope(&self, namespace: Option<Arc<str>>) -> Option<Arc<ScopeContent>> {
        self.questions.scope(namespace).await
    }

    /// Publishes what answers repeat.
    pub fn set_facts(&self, facts: MirrorFacts) {
        self.facts.send_replace(Some(Arc::new(facts)));
    }

    /// What answers repeat, once known.
    pub fn facts(&self) -> watch::Receiver<Option<Arc<MirrorFacts>>> {
        self.facts.subscribe()
    }
}

// === impl Wanted ===

impl Wanted {
    fn take(&mut self) -> Option<Lack> {
        let log = self.log.take().map(Lack::Log);
        log.or_else(|| std::mem::take(&mut self.list).then_some(Lack::List))
    }
}
