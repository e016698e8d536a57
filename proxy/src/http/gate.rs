//! How much is passed through for want of a mirror: of kinds that are mirrored but cannot answer now, a few lists and
//! watches at once, so that a cold start with many clients is no herd at upstream.
//!
//! Whoever is refused is told when to come again: behind all who were refused before, at the pace at which places become
//! free. Nobody keeps a place for them; who comes too early is refused again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_core::Status;

/// Lists and gets at once: each may be a whole collection that upstream holds in memory while it is sent.
const LISTS: u32 = 8;
/// Watches at once.
const WATCHES: u32 = 50;

/// How long a list keeps its place, before it is known; and a watch.
const FIRST_LIST: Duration = Duration::from_secs(1);
const FIRST_WATCH: Duration = Duration::from_secs(10);

/// The soonest and the latest that somebody is told to come again.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

/// What is let through.
#[derive(Clone, Debug)]
pub struct Gate {
    lists: Arc<Line>,
    watches: Arc<Line>,
}

/// Places of one kind, and those who wait for them.
#[derive(Debug)]
struct Line {
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

/// A place in the gate, held until the answer has ended.
#[derive(Debug)]
pub struct Place {
    line: Arc<Line>,
    since: Instant,
}

// === impl Gate ===

impl Gate {
    /// An open gate.
    pub fn new() -> Self {
        let line = |places, hold| Arc::new(Line::new(places, hold));
        Self { lists: line(LISTS, FIRST_LIST), watches: line(WATCHES, FIRST_WATCH) }
    }

    /// A place for a list or get.
    pub fn list(&self) -> Result<Place, Status> {
        Line::enter(&self.lists)
    }

    /// A place for a watch.
    pub fn watch(&self) -> Result<Place, Status> {
        Line::enter(&self.watches)
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Line ===

impl Line {
    fn new(places: u32, hold: Duration) -> Self {
        Self { places, state: Mutex::new(State { held: 0, hold, served: Instant::now() }) }
    }

    fn enter(self: &Arc<Self>) -> Result<Place, Status> {
        let since = Instant::now();
        let mut state = self.state.lock();
        if state.held < self.places {
            state.held += 1;
            return Ok(Place { line: self.clone(), since });
        }
        // Nobody is behind more of them than anybody is told to wait for.
        let behind = state.served.max(since) + state.hold / self.places;
        state.served = behind.min(since + LATEST);
        let wait = state.served.duration_since(since).clamp(SOONEST, LATEST);
        let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(1);
        Err(Status::too_many_requests(
            "the mirror of this resource is loading; too many requests wait for it",
            seconds,
        ))
    }

    fn leave(&self, held_for: Duration) {
        let mut state = self.state.lock();
        state.held -= 1;
        state.hold = (state.hold * 7 + held_for) / 8;
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        self.line.leave(self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(entered: Result<Place, Status>) -> u32 {
        entered.expect_err("no place is free").retry_after_seconds().expect("it says when to come again")
    }

    #[tokio::test(start_paused = true)]
    async fn as_many_as_there_are_places_come_in_and_a_place_that_is_left_is_free() {
        let gate = Gate::new();
        let mut held: Vec<_> = (0..LISTS).map(|_| gate.list().unwrap()).collect();
        assert_eq!(refused(gate.list()), 1);
        held.pop();
        held.push(gate.list().unwrap());
        assert_eq!(
            (0..WATCHES).filter_map(|_| gate.watch().ok()).collect::<Vec<_>>().len(),
            WATCHES as usize
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_comes_behind_those_who_were_refused_before() {
        let gate = Gate::new();
        let _held: Vec<_> = (0..LISTS).map(|_| gate.list().unwrap()).collect();
        let told: Vec<_> = (0..400).map(|_| refused(gate.list())).collect();
        assert!(told.is_sorted());
        // Eight a second go on.
        assert_eq!((told[0], told[7], told[8], told[79], told[80]), (1, 1, 2, 10, 11));
        assert_eq!(told[399], 30, "nobody is told to wait for longer");
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(refused(gate.list()), 11, "those before have come on meanwhile");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(refused(gate.list()), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn places_that_are_held_for_long_make_for_longer_waits() {
        let gate = Gate::new();
        for _ in 0..40 {
            let place = gate.list().unwrap();
            tokio::time::advance(Duration::from_secs(16)).await;
            drop(place);
        }
        let _held: Vec<_> = (0..LISTS).map(|_| gate.list().unwrap()).collect();
        let told: Vec<_> = (0..4).map(|_| refused(gate.list())).collect();
        assert_eq!(told, [2, 4, 6, 8], "two seconds for each of eight places");
    }
}
