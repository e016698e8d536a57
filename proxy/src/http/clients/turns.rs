//! Turns in which pieces of lists are made and written. While several clients ask, each has as many turns as half of the cores: so
//! one that lists on a thousand connections leaves the other half. A turn that is not given back for a while is that of
//! a client that does not read; whoever waits takes it over.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// A piece is made and written within a few milliseconds, unless nobody reads it.
const STALLED: Duration = Duration::from_millis(10);

/// When even one who is not the first takes a turn over: the first has not come to it, whatever keeps him.
const LOST: Duration = Duration::from_secs(1);

/// The turns of one client.
#[derive(Debug)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    free: usize,
    /// The turns that are held and since when, the oldest first. As many as there are turns.
    held: VecDeque<(u64, Instant)>,
    /// When one was given back last.
    left: Instant,
    /// Who waits, and what wakes him. As many as the client has lists open.
    waiting: VecDeque<(u64, Arc<Notify>)>,
    next: u64,
}

/// A turn, until it is dropped or taken over.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    number: u64,
}

/// A place among those who wait.
struct Place {
    turns: Arc<Turns>,
    number: u64,
    called: Arc<Notify>,
}

/// What somebody who waits finds.
enum Found {
    Turn(u64),
    /// Then the oldest turn is taken over.
    Until(Instant),
}

// === impl Turns ===

impl Turns {
    pub(super) fn new(count: usize) -> Self {
        let (held, waiting) = (VecDeque::new(), VecDeque::new());
        Self(Mutex::new(State { free: count, held, left: Instant::now(), waiting, next: 0 }))
    }

    /// A turn, one after the other. Only the first who waits looks at the clock.
    pub(super) async fn take(self: Arc<Self>) -> Turn {
        let entered = self.0.lock().enter(Instant::now());
        let place = match entered {
            Ok(number) => return Turn { turns: self, number },
            Err((number, called)) => Place { turns: self.clone(), number, called },
        };
        loop {
            let found = self.0.lock().look(place.number, Instant::now());
            match found {
                Found::Turn(number) => return Turn { turns: self.clone(), number },
                Found::Until(stalled) => tokio::select! {
                    () = place.called.notified() => {}
                    () = sleep_until(stalled) => {}
                },
            }
        }
    }
}

// === impl State ===

impl State {
    /// A turn that is free, or a place among those who wait.
    fn enter(&mut self, now: Instant) -> Result<u64, (u64, Arc<Notify>)> {
        if self.free > 0 && self.waiting.is_empty() {
            self.free -= 1;
            return Ok(self.hold(now));
        }
        let (number, called) = (self.number(), Arc::new(Notify::new()));
        self.waiting.push_back((number, called.clone()));
        Err((number, called))
    }

    fn look(&mut self, number: u64, now: Instant) -> Found {
        let is_first = self.waiting.front().is_some_and(|(first, _)| *first == number);
        let patience = if is_first { STALLED } else { LOST };
        let stalled = self.held.front().map_or(self.left, |(_, since)| *since) + patience;
        if is_first && self.free > 0 {
            self.free -= 1;
        } else if now < stalled {
            return Found::Until(stalled);
        } else if self.held.pop_front().is_none() {
            self.free -= 1;
        }
        self.give_up(number);
        Found::Turn(self.hold(now))
    }

    fn hold(&mut self, now: Instant) -> u64 {
        let number = self.number();
        self.held.push_back((number, now));
        number
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Wakes the first who waits.
    fn call(&self) {
        if let Some((_, called)) = self.waiting.front() {
            called.notify_one();
        }
    }

    /// Gives a turn back, unless it was taken over.
    fn leave(&mut self, number: u64, now: Instant) {
        let Some(at) = self.held.iter().position(|(held, _)| *held == number) else { return };
        self.held.remove(at);
        (self.free, self.left) = (self.free + 1, now);
        self.call();
    }

    /// Gives up a place among those who wait.
    fn give_up(&mut self, number: u64) {
        let Some(at) = self.waiting.iter().position(|(waits, _)| *waits == number) else { return };
        self.waiting.remove(at);
        if at == 0 {
            self.call();
        }
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.lock().leave(self.number, Instant::now());
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        self.turns.0.lock().give_up(self.number);
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
    async fn who_gives_up_leaves_the_turn_to_those_behind_him() {
        let turns = Arc::new(Turns::new(1));
        let take = || turns.clone().take().boxed();
        let one = take().now_or_never().expect("nobody has it");
        let (mut two, mut three) = (take(), take());
        assert!((&mut two).now_or_never().is_none() && (&mut three).now_or_never().is_none());
        drop(one);
        drop(two);
        assert!((&mut three).now_or_never().is_some(), "the one who was called has gone");
        let one = take().now_or_never().expect("nobody has it");
        let (mut lost, mut four) = (take(), take());
        assert!((&mut lost).now_or_never().is_none() && (&mut four).now_or_never().is_none());
        drop(one);
        let began = Instant::now();
        drop(four.await);
        assert!(began.elapsed() <= LOST, "the one who was called does not come");
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
