//! The life of the process: every task has a name and is counted; stopping is two steps, tell and then wait. A token
//! alone would tell but never know when all are out, and a detached task that dies would be missed by nobody.
//!
//! Telling ends no task: each one watches [`Lifecycle::token`] and finishes what it owes first.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tokio::task::AbortHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, debug_span, error, info, warn};

use crate::signals::{Signal, Signals};

/// Spawns the tasks of the process and stops them. Clones are the same life.
#[derive(Clone, Debug, Default)]
pub struct Lifecycle(Arc<Life>);

#[derive(Debug, Default)]
struct Life {
    stop: CancellationToken,
    tasks: TaskTracker,
    cause: OnceLock<StopCause>,
    roll: Mutex<Roll>,
}

/// Who is in. The order of the numbers is the order of spawning.
#[derive(Debug, Default)]
struct Roll {
    next: u64,
    entries: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    name: Cow<'static, str>,
    /// None for the moment between being entered and being spawned.
    abort: Option<AbortHandle>,
}

/// Why the process stops; the first cause wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// Somebody called [`Lifecycle::stop`].
    Asked,
    /// A signal came.
    Signal(Signal),
    /// A critical task ended though nobody had told it to.
    Ended {
        /// The name of the task.
        task: Cow<'static, str>,
    },
    /// A task, critical or not, panicked.
    Panicked {
        /// The name of the task.
        task: Cow<'static, str>,
    },
}

/// How the process stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Why.
    pub cause: StopCause,
    /// The names of the tasks that were still in when waiting ended, oldest first; they were aborted.
    pub left: Vec<Cow<'static, str>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    Plain,
    Critical,
}

/// Lives inside a task and notices every way it can end: normally, by a panic, by an abort.
struct Presence {
    life: Arc<Life>,
    number: u64,
    weight: Weight,
    state: PresenceState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PresenceState {
    Running,
    Finished,
}

// === impl Lifecycle ===

impl Lifecycle {
    /// A life without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Spawns a task whose end is no news. A panic in it stops the process all the same.
    pub fn spawn<F>(&self, name: impl Into<Cow<'static, str>>, future: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.enter(name.into(), Weight::Plain, future)
    }

    /// Spawns a task without which the process is of no use: when it ends before the process was told to stop, the
    /// process stops.
    pub fn spawn_critical<F>(&self, name: impl Into<Cow<'static, str>>, future: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.enter(name.into(), Weight::Critical, future)
    }

    /// The token that is cancelled when the process is told to stop. Cancelling it directly gives no cause: call
    /// [`Lifecycle::stop`].
    pub fn token(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Whether the process was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// How many tasks are in.
    pub fn len(&self) -> usize {
        self.0.tasks.len()
    }

    /// Whether no task is in.
    pub fn is_empty(&self) -> bool {
        self.0.tasks.is_empty()
    }

    /// Tells everybody to stop. Only the first cause is kept.
    pub fn stop(&self, cause: StopCause) {
        self.0.stop(cause);
    }

    /// Resolves once the process was told to stop and everybody is out, or `grace` after the telling, whichever is
    /// first. Who is left then is aborted and named.
    pub async fn stopped(&self, grace: Duration) -> Stopped {
        self.0.stop.cancelled().await;
        self.0.tasks.close();
        let in_time = tokio::time::timeout(grace, self.0.tasks.wait()).await;
        if in_time.is_err() { self.leave_behind() } else { self.0.stopped(Vec::new()) }
    }

    /// Runs until a signal, [`Lifecycle::stop`] or the end of a critical task, then waits as [`Lifecycle::stopped`]
    /// does. After a signal everybody works on until `drain` is over, which has to have a limit of its own; whatever stops
    /// the process otherwise leaves nothing to drain. A second signal ends all waiting at once.
    pub async fn run(
        &self,
        mut signals: Signals,
        drain: impl Future<Output = ()>,
        grace: Duration,
    ) -> Stopped {
        tokio::select! {
            biased;
            () = self.0.stop.cancelled() => {}
            signal = signals.next() => {
                info!(%signal, "told to stop");
                if let Some(stopped) = self.drained(&mut signals, drain).await {
                    return stopped;
                }
                self.stop(StopCause::Signal(signal));
            }
        }
        tokio::select! {
            biased;
            stopped = self.stopped(grace) => stopped,
            signal = signals.next() => self.told_again(signal),
        }
    }

    /// Waits for the drain, unless something stops the process meanwhile.
    async fn drained(&self, signals: &mut Signals, drain: impl Future<Output = ()>) -> Option<Stopped> {
        tokio::select! {
            biased;
            () = self.0.stop.cancelled() => None,
            signal = signals.next() => {
                self.stop(StopCause::Signal(signal));
                Some(self.told_again(signal))
            }
            () = drain => None,
        }
    }

    fn told_again(&self, signal: Signal) -> Stopped {
        warn!(%signal, "told again, stopping at once");
        self.leave_behind()
    }

    fn enter<F>(&self, name: Cow<'static, str>, weight: Weight, future: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // A root: the feed that a request started is no part of that request, and must not keep its span.
        let span = debug_span!(parent: None, "task", name = &*name);
        let number = self.0.roll().enter(name);
        let presence = Presence { life: Arc::clone(&self.0), number, weight, state: PresenceState::Running };
        let task = async move {
            future.await;
            presence.finish();
        };
        let abort = self.0.tasks.spawn(task.instrument(span)).abort_handle();
        if let Some(entry) = self.0.roll().entries.get_mut(&number) {
            entry.abort = Some(abort.clone());
        }
        abort
    }

    fn leave_behind(&self) -> Stopped {
        let mut names = Vec::new();
        for entry in self.0.roll().entries.values() {
            names.push(entry.name.clone());
            if let Some(abort) = &entry.abort {
                abort.abort();
            }
        }
        if !names.is_empty() {
            warn!(tasks = ?names, "tasks did not stop in time");
        }
        self.0.stopped(names)
    }
}

// === impl Life ===

impl Life {
    fn stop(&self, cause: StopCause) {
        // The cause stands before the token moves, so whoever sees the token sees a cause.
        let _ = self.cause.set(cause);
        self.stop.cancel();
    }

    fn stopped(&self, left: Vec<Cow<'static, str>>) -> Stopped {
        Stopped { cause: self.cause.get().cloned().unwrap_or(StopCause::Asked), left }
    }

    fn roll(&self) -> MutexGuard<'_, Roll> {
        // Nothing under this lock can leave the roll half changed, so a poisoned lock is as good as a clean one.
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Roll ===

impl Roll {
    fn enter(&mut self, name: Cow<'static, str>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.entries.insert(number, Entry { name, abort: None });
        number
    }
}

// === impl Presence ===

impl Presence {
    fn finish(mut self) {
        self.state = PresenceState::Finished;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let Some(entry) = self.life.roll().entries.remove(&self.number) else { return };
        let task = entry.name;
        if self.state == PresenceState::Running && std::thread::panicking() {
            error!(%task, "task panicked, the process stops");
            self.life.stop(StopCause::Panicked { task });
        } else if self.weight == Weight::Critical && !self.life.stop.is_cancelled() {
            error!(%task, "critical task ended, the process stops");
            self.life.stop(StopCause::Ended { task });
        }
    }
}

// === impl StopCause ===

impl StopCause {
    /// Whether the process stops because of a fault of its own: its exit code should say so.
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Asked | Self::Signal(_) => false,
            Self::Ended { .. } | Self::Panicked { .. } => true,
        }
    }
}

impl fmt::Display for StopCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => f.write_str("asked to stop"),
            Self::Signal(signal) => write!(f, "{signal}"),
            Self::Ended { task } => write!(f, "the task {task:?} ended"),
            Self::Panicked { task } => write!(f, "the task {task:?} panicked"),
        }
    }
}

#[cfg(test)]
mod tests;
