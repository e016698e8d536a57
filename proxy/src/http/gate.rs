//! How much is passed through for want of a mirror: of kinds that are mirrored but cannot answer now, a few lists and
//! watches at once, so that neither a cold start with many clients nor a feed that lags is a herd at upstream.
//!
//! A mirror that is there knows how much it would ask of upstream: a large list waits for the large one before it.

use std::sync::Arc;
use std::time::Duration;

use weir_core::Status;

use super::line::{Held, Line};

/// Lists and gets at once: each may be a whole collection that upstream holds in memory while it is sent.
const LISTS: u32 = 8;
/// Of them, those that are known to be large.
const LARGE: u32 = 1;
/// Lists of one object by its name, beside the others: upstream looks it up, as for a get, but may wait up to 100 ms before it
/// knows how far its storage is.
const OBJECTS: u32 = 256;
/// Watches at once.
const WATCHES: u32 = 50;

/// How long a list keeps its place, before it is known; and a watch.
const FIRST_LIST: Duration = Duration::from_secs(1);
const FIRST_WATCH: Duration = Duration::from_secs(10);

/// How much a list asks of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// One object at most.
    Object,
    /// A page, or as much; or nobody knows.
    Small,
    /// More than a page.
    Large,
}

/// What is let through.
#[derive(Clone, Debug)]
pub struct Gate {
    objects: Arc<Line>,
    lists: Arc<Line>,
    large: Arc<Line>,
    watches: Arc<Line>,
}

/// A place in the gate, held until the answer has ended.
#[derive(Debug)]
pub struct Place {
    _held: Held,
    /// That of a large list among the large ones.
    _large: Option<Held>,
}

// === impl Gate ===

impl Gate {
    /// An open gate.
    pub fn new() -> Self {
        let line = |places, hold| Arc::new(Line::new(places, hold));
        Self {
            objects: line(OBJECTS, FIRST_LIST),
            lists: line(LISTS, FIRST_LIST),
            large: line(LARGE, FIRST_LIST),
            watches: line(WATCHES, FIRST_WATCH),
        }
    }

    /// A place for a list or get.
    pub fn list(&self, size: Size) -> Result<Place, Status> {
        let (line, large) = match size {
            Size::Object => (&self.objects, None),
            Size::Small => (&self.lists, None),
            Size::Large => (&self.lists, Some(self.large.enter().map_err(refusal)?)),
        };
        Ok(Place { _held: line.enter().map_err(refusal)?, _large: large })
    }

    /// A place for a watch.
    pub fn watch(&self) -> Result<Place, Status> {
        Ok(Place { _held: self.watches.enter().map_err(refusal)?, _large: None })
    }

    /// The refusal of a watch that has waited for its mirror in vain: it comes again behind those who were refused before.
    pub fn later(&self) -> Status {
        refusal(self.watches.refuse())
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

fn refusal(seconds: u32) -> Status {
    Status::too_many_requests(
        "the mirror of this resource cannot answer now; too many requests wait for it",
        seconds,
    )
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
        let mut held: Vec<_> = (0..LISTS).map(|_| gate.list(Size::Small).unwrap()).collect();
        assert_eq!(refused(gate.list(Size::Small)), 1);
        held.pop();
        held.push(gate.list(Size::Small).unwrap());
        assert_eq!(
            (0..WATCHES).filter_map(|_| gate.watch().ok()).collect::<Vec<_>>().len(),
            WATCHES as usize
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_list_waits_for_the_one_before_it_and_for_no_small_one() {
        let gate = Gate::new();
        let large = gate.list(Size::Large).unwrap();
        assert_eq!(refused(gate.list(Size::Large)), 1);
        let small: Vec<_> = (1..LISTS).map(|_| gate.list(Size::Small).unwrap()).collect();
        assert_eq!(refused(gate.list(Size::Small)), 1, "it is one of them");
        let object = gate.list(Size::Object).unwrap();
        drop((large, small, object));
        let _small: Vec<_> = (0..LISTS).map(|_| gate.list(Size::Small).unwrap()).collect();
        refused(gate.list(Size::Large));
        assert_eq!(gate.large.held(), 0, "what found no place holds none");
    }

    #[tokio::test(start_paused = true)]
    async fn watches_that_waited_in_vain_do_not_come_again_together() {
        let gate = Gate::new();
        let told: Vec<_> = (0..200).filter_map(|_| gate.later().retry_after_seconds()).collect();
        assert!(told.is_sorted());
        // Five a second: fifty places, ten seconds each.
        assert_eq!((told[0], told[4], told[5], told[99], told[199]), (1, 1, 2, 20, 30));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_comes_behind_those_who_were_refused_before() {
        let gate = Gate::new();
        let _held: Vec<_> = (0..LISTS).map(|_| gate.list(Size::Small).unwrap()).collect();
        let told: Vec<_> = (0..400).map(|_| refused(gate.list(Size::Small))).collect();
        assert!(told.is_sorted());
        // Eight a second go on.
        assert_eq!((told[0], told[7], told[8], told[79], told[80]), (1, 1, 2, 10, 11));
        assert_eq!(told[399], 30, "nobody is told to wait for longer");
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(refused(gate.list(Size::Small)), 11, "those before have come on meanwhile");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(refused(gate.list(Size::Small)), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn places_that_are_held_for_long_make_for_longer_waits() {
        let gate = Gate::new();
        for _ in 0..40 {
            let place = gate.list(Size::Small).unwrap();
            tokio::time::advance(Duration::from_secs(16)).await;
            drop(place);
        }
        let _held: Vec<_> = (0..LISTS).map(|_| gate.list(Size::Small).unwrap()).collect();
        let told: Vec<_> = (0..4).map(|_| refused(gate.list(Size::Small))).collect();
        assert_eq!(told, [2, 4, 6, 8], "two seconds for each of eight places");
    }
}
