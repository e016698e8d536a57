//! A bounded number of places, and those who found none: whoever is refused is told when to come again, behind all who were
//! refused before, at the pace at which places become free. Nobody keeps a place for them; who comes too early is refused again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The soonest and the latest that somebody is told to come again.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

/// Places of one kind, and those who wait for them.
#[derive(Debug)]
pub(super) struct Line {
    places: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    held: u32,
    /// How long a place is held: a mean in which the last one counts for an eighth.
    hold: Duration,
    /// When the last of those who were refused will have had a place.
    served: Instant,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    line: Arc<Line>,
    since: Instant,
}

// === impl Line ===

impl Line {
    /// So many places, and how long one is held before that is known.
    pub(super) fn new(places: u32, hold: Duration) -> Self {
        Self { places, state: Mutex::new(State { held: 0, hold, served: Instant::now() }) }
    }

    /// A place, or after how many seconds to come again.
    pub(super) fn enter(self: &Arc<Self>) -> Result<Held, u32> {
        let mut state = self.state.lock();
        if state.held < self.places {
            state.held += 1;
            return Ok(Held { line: self.clone(), since: Instant::now() });
        }
        Err(self.later(&mut state))
    }

    /// After how many seconds somebody is to come again who is refused for another reason.
    pub(super) fn refuse(&self) -> u32 {
        self.later(&mut self.state.lock())
    }

    /// How many places are held.
    pub(super) fn held(&self) -> u32 {
        self.state.lock().held
    }

    fn later(&self, state: &mut State) -> u32 {
        let now = Instant::now();
        // Nobody is behind more of them than anybody is told to wait for.
        let behind = state.served.max(now) + state.hold / self.places;
        state.served = behind.min(now + LATEST);
        let wait = state.served.duration_since(now).clamp(SOONEST, LATEST);
        u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(1)
    }

    fn leave(&self, held_for: Duration) {
        let mut state = self.state.lock();
        state.held -= 1;
        state.hold = (state.hold * 7 + held_for) / 8;
    }
}

// === impl Held ===

impl Drop for Held {
    fn drop(&mut self) {
        self.line.leave(self.since.elapsed());
    }
}
