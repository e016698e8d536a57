//! When a session speaks: at once when it was quiet, otherwise after a short wait that gathers what comes meanwhile, and
//! now and then without having anything to say. It reads no clock.

use std::time::Duration;

use tokio::time::Instant;

/// Flushes are so far apart at least. Under load each carries what came in the meantime; the first after a quiet time waits
/// for nothing.
const GATHER: Duration = Duration::from_millis(2);

/// The same for a frontier that nobody waits for. Whoever waits for one says so, and to all others it is some milliseconds of
/// age; every proxy has one of every node, so these are most of what is said.
const FRONTIERS: Duration = Duration::from_millis(25);

/// After so long without a word one is said all the same. Proxies judge a node that hangs by the words of the others.
const BEAT: Duration = Duration::from_millis(250);

/// How often floors are looked at: they choose whom to ask, and move with every event of a full window.
const FLOORS: Duration = Duration::from_millis(200);

/// When a session spoke, and what it has to say.
#[derive(Debug)]
pub(super) struct Pace {
    spoke: Instant,
    looked: Option<Instant>,
    news: News,
}

/// What a session has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum News {
    /// Nothing.
    None,
    /// A frontier that nobody waits for.
    Frontier,
    /// What somebody may wait for.
    Awaited,
}

/// What a flush looks at besides the outboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Looks {
    /// Whether it is time for floors again.
    pub(super) at_floors: bool,
    /// Whether it is time for a word, even if there is nothing to say.
    pub(super) is_beat: bool,
}

// === impl Pace ===

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { spoke: now, looked: None, news: News::None }
    }

    /// A node has said something.
    pub(super) fn hear(&mut self, news: News) {
        self.news = self.news.max(news);
    }

    pub(super) fn news(&self) -> News {
        self.news
    }

    /// When to speak next.
    pub(super) fn due(&self) -> Instant {
        self.spoke
            + match self.news {
                News::None => BEAT,
                News::Frontier => FRONTIERS,
                News::Awaited => GATHER,
            }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due() <= now
    }

    /// A flush begins: it takes all the news.
    pub(super) fn begin(&mut self, now: Instant) -> Looks {
        self.news = News::None;
        let at_floors = self.looked.is_none_or(|looked| now.duration_since(looked) >= FLOORS);
        if at_floors {
            self.looked = Some(now);
        }
        Looks { at_floors, is_beat: self.is_due(now) }
    }

    /// Something was said.
    pub(super) fn spoke(&mut self, now: Instant) {
        self.spoke = now;
    }
}
