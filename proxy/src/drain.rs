//! The way out for clients when the process is told to stop: who is to leave, and when. Every watch draws a moment of its own,
//! so that clients do not come back all at once.
//!
//! A watch that is sent looks here for every event, so a look costs one atomic load: each has a channel of its own, whose
//! closing is the call. One channel for all of them would be a lock that all of them share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The share of the time during which new connections are accepted, until whoever sends them has noticed.
const ACCEPTING: f64 = 0.1;
/// The share of the time by which the last watch is told to end; what is left is for bytes on their way.
const ENDING: f64 = 0.9;
/// The share of the time that a watch gets which has not shown its client the state yet.
const SHOWING: f64 = 0.95;

/// The drain of a process. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Drain(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    begun: CancellationToken,
    clients: TaskTracker,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    period: Option<Period>,
    /// The watches that are to be called. As many as there are watches.
    waiting: HashMap<u64, oneshot::Sender<()>>,
    next: u64,
}

/// When clients leave.
#[derive(Clone, Copy, Debug)]
struct Period {
    begin: Instant,
    length: Duration,
}

/// A client that is waited for while this is kept.
#[derive(Debug)]
pub struct Client {
    _counted: TaskTrackerToken,
}

/// A watch's part in the drain.
#[derive(Debug)]
pub struct Turn {
    drain: Drain,
    number: u64,
    call: oneshot::Receiver<()>,
    moment: Option<Moment>,
}

/// When one watch is to end.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    /// If it has not shown the state by then.
    latest: Instant,
}

// === impl Drain ===

impl Drain {
    /// Nobody is to leave yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells all clients to leave within this time. Said again it can only become shorter.
    pub fn begin(&self, length: Duration) {
        let mut state = self.0.state.lock();
        let now = Instant::now();
        let period = Period { begin: now, length };
        let is_shorter = |known: &Period| period.at(1.0) < known.at(1.0);
        if !state.period.as_ref().is_none_or(is_shorter) {
            return;
        }
        state.period = Some(period);
        let called = std::mem::take(&mut state.waiting);
        drop(state);
        self.0.begun.cancel();
        drop(called);
    }

    /// Waits until clients are to leave.
    pub async fn begun(&self) {
        self.0.begun.cancelled().await;
    }

    /// Whether clients are to leave.
    pub fn has_begun(&self) -> bool {
        self.0.begun.is_cancelled()
    }

    /// Waits until nobody is to be let in any more.
    pub async fn closed(&self) {
        self.reached(ACCEPTING).await;
    }

    /// Waits until nobody is let in and all clients have left, for the time of the drain at most.
    pub async fn out(&self) {
        let all = async {
            self.closed().await;
            self.0.clients.close();
            self.0.clients.wait().await;
        };
        tokio::select! {
            () = all => {}
            () = self.reached(1.0) => {}
        }
    }

    /// Counts a client.
    pub fn client(&self) -> Client {
        Client { _counted: self.0.clients.token() }
    }

    /// A part in the drain for a watch.
    pub fn turn(&self) -> Turn {
        let (call, number, period) = self.enter();
        Turn { drain: self.clone(), number, call, moment: period.map(Period::draw) }
    }

    fn enter(&self) -> (oneshot::Receiver<()>, u64, Option<Period>) {
        let (sender, call) = oneshot::channel();
        let mut state = self.0.state.lock();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, sender);
        (call, number, state.period)
    }

    /// Waits until this share of the time is over, however often the time is made shorter.
    async fn reached(&self, share: f64) {
        let mut turn = self.turn();
        loop {
            let period = self.0.state.lock().period;
            let Some(period) = period else {
                turn.called().await;
                continue;
            };
            tokio::select! {
                () = turn.called() => {}
                () = tokio::time::sleep_until(period.at(share)) => return,
            }
        }
    }
}

// === impl Period ===

impl Period {
    fn at(&self, share: f64) -> Instant {
        self.begin + self.length.mul_f64(share)
    }

    /// A moment for one watch, of what is left.
    fn draw(self) -> Moment {
        let (from, to) = (Instant::now().max(self.begin), self.at(ENDING));
        let left = to.saturating_duration_since(from);
        Moment { at: from + left.mul_f64(rand::rng().random()), latest: self.at(SHOWING) }
    }
}

// === impl Turn ===

impl Turn {
    /// Whether the watch is to end now.
    pub fn has_come(&mut self) -> bool {
        self.look();
        self.moment.is_some_and(|moment| Instant::now() >= moment.at)
    }

    /// Waits until the watch is to end.
    pub async fn come(&mut self) {
        self.until(|moment| moment.at).await;
    }

    /// Waits until a watch has to end that has not yet shown the state.
    pub async fn latest(&mut self) {
        self.until(|moment| moment.latest).await;
    }

    async fn until(&mut self, when: impl Fn(&Moment) -> Instant) {
        loop {
            self.look();
            let Some(moment) = &self.moment else {
                self.called().await;
                continue;
            };
            let at = when(moment);
            tokio::select! {
                () = self.called() => {}
                () = tokio::time::sleep_until(at) => return,
            }
        }
    }

    /// Waits until the time is set or made shorter.
    async fn called(&mut self) {
        // The sender is never used: that it is gone is the call.
        let _ = (&mut self.call).await;
        self.draw();
    }

    fn look(&mut self) {
        if self.call.try_recv() == Err(oneshot::error::TryRecvError::Closed) {
            self.draw();
        }
    }

    /// Draws a moment of the time as it is now, and waits for the next call.
    fn draw(&mut self) {
        let (call, number, period) = self.drain.enter();
        self.call = call;
        self.number = number;
        self.moment = period.map(Period::draw);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.drain.0.state.lock().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
