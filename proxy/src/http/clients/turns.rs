//! Turns in which pieces of lists are made and written. While several clients ask, each has as many turns as half of the cores: so
//! one that lists on a thousand connections leaves the other half. A turn that is not given back for a while is that of
//! a client that does not read; whoever waits takes it over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// A piece is made and written within a few milliseconds, unless nobody reads it.
const STALLED: Duration = Duration::from_millis(10);

/// The turns of one client.
#[derive(Debug)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The turns that are held and since when, the oldest first. As many as there are turns.
    held: VecDeque<(u64, Instant)>,
    /// As many as the client has lists open, and those that gave up since.
    waiting: VecDeque<oneshot::Sender<u64>>,
    next: u64,
}

/// A turn, until it is dropped or taken over.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

// === impl Turns ===

impl Turns {
    pub(super) fn new(count: usize) -> Self {
        let (held, waiting) = (VecDeque::new(), VecDeque::new());
        Self(Mutex::new(State { free: count, held, waiting, next: 0 }))
    }

    /// A turn, one after the other. One that comes when nobody waits for it any more is taken over by the next.
    pub(super) async fn take(self: Arc<Self>) -> Turn {
        let mut comes = match self.0.lock().enter(Instant::now()) {
            Ok(number) => return Turn { turns: self.clone(), number },
            Err(comes) => comes,
        };
        loop {
            let stalled = self.0.lock().oldest_stalls();
            let number = tokio::select! {
                biased;
                number = &mut comes => number.ok(),
                () = sleep_until(stalled) => self.0.lock().take_over(Instant::now()),
            };
            if let Some(number) = number {
                return Turn { turns: self, number };
            }
        }
    }
}

// === impl State ===

impl State {
    /// A turn that is free, or where it comes.
    fn enter(&mut self, now: Instant) -> Result<u64, oneshot::Receiver<u64>> {
        if self.free > 0 {
            self.free -= 1;
            return Ok(self.hold(now));
        }
        let (told, comes) = oneshot::channel();
        self.waiting.push_back(told);
        Err(comes)
    }

    fn hold(&mut self, now: Instant) -> u64 {
        let number = self.next;
        self.next += 1;
        self.held.push_back((number, now));
        number
    }

    fn oldest_stalls(&self) -> Instant {
        self.held.front().map_or_else(Instant::now, |(_, since)| *since) + STALLED
    }

    /// The turn that is held for longest, if that is too long.
    fn take_over(&mut self, now: Instant) -> Option<u64> {
        if now < self.oldest_stalls() {
            return None;
        }
        self.held.pop_front();
        Some(self.hold(now))
    }

    /// Gives a turn to the next who waits, unless it was taken over.
    fn leave(&mut self, number: u64, now: Instant) {
        let Some(at) = self.held.iter().position(|(held, _)| *held == number) else { return };
        self.held.remove(at);
        while let Some(told) = self.waiting.pop_front() {
            let number = self.hold(now);
            if told.send(number).is_ok() {
                return;
            }
            self.held.pop_back();
        }
        self.free += 1;
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.lock().leave(self.number, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_given_back_goes_to_the_next_and_one_that_is_not_is_taken_over() {
        let turns = Arc::new(Turns::new(1));
        let take = || turns.clone().take().boxed();
        let one = take().now_or_never().expect("nobody has it");
        let (mut two, mut three) = (take(), take());
        assert!((&mut two).now_or_never().is_none() && (&mut three).now_or_never().is_none());
        drop(one);
        let two = (&mut two).now_or_never().expect("the turn that was given back");
        assert!((&mut three).now_or_never().is_none());
        let began = Instant::now();
        let three = three.await;
        assert_eq!(began.elapsed(), STALLED, "that of one who does not read");
        drop(two);
        assert!(take().now_or_never().is_none(), "it was no longer his to give");
        drop(three);
        assert!(take().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn each_waits_for_those_before_it_and_no_longer_whatever_they_do() {
        let turns = Arc::new(Turns::new(1));
        let _stalled = turns.clone().take().await;
        let began = Instant::now();
        let waiters: Vec<_> = (0..50).map(|_| turns.clone().take()).collect();
        // None of them gives anything back.
        futures_util::future::join_all(waiters.into_iter().map(async |turn| std::mem::forget(turn.await)))
            .await;
        assert!(began.elapsed() <= STALLED * 51, "{:?}", began.elapsed());
    }
}
