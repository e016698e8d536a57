//! When a session speaks: at once when it was quiet, otherwise after a short wait that gathers what comes meanwhile, and
//! now and then without having anything to say. It reads no clock.

use std::time::Duration;

use tokio::time::Instant;

/// Flushes are so far apart at least. Under load each carries what came in the meantime; the first after a quiet time waits
/// for nothing.
const GATHER: Duration = Duration::from_millis(2);

/// After so long without a word one is said all the same. Proxies judge a node that hangs by the words of the others.
const BEAT: Duration = Duration::from_millis(250);

/// How often floors are looked at: they choose whom to ask, and move with every event of a full window.
const FLOORS: Duration = Duration::from_millis(200);

/// When a session spoke.
#[derive(Debug)]
pub(super) struct Pace {
    flushed: Instant,
    looked: Option<Instant>,
    has_news: bool,
}

/// What a flush looks at besides the outboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// Whether it is time for floors again.
    pub(super) at_floors: bool,
}

// === impl Pace ===

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { flushed: now, looked: None, has_news: false }
    }

    /// A node has said something.
    pub(super) fn news(&mut self) {
        self.has_news = true;
    }

    pub(super) fn has_news(&self) -> bool {
        self.has_news
    }

    /// When to speak next.
    pub(super) fn due(&self) -> Instant {
        self.flushed + if self.has_news { GATHER } else { BEAT }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due() <= now
    }

    /// A flush begins: it takes all the news.
    pub(super) fn begin(&mut self, now: Instant) -> Looks {
        self.flushed = now;
        self.has_news = false;
        let at_floors = self.looked.is_none_or(|looked| now.duration_since(looked) >= FLOORS);
        if at_floors {
            self.looked = Some(now);
        }
        Looks { at_floors }
    }
}
