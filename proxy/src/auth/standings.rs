//! Answers that go on only for as long as their callers may have them: what was asked of upstream when they began, whom it was
//! asked for, and when it is to be asked again. A synchronous type that is told the time; [`recheck`](super::recheck) carries.
//!
//! One question stands for all streams that it let through, whatever their number, and costs upstream one review a round.
//! Those whose rights may just have changed come first, and then who somebody is that came new, so that a change can name them;
//! but one turn of four is the round's, however much there is of either.

mod named;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use self::state::{Asked, Due, Known, State};
use super::caller::{Caller, CallerKey};
use super::decisions::{Question, Reviewed};
use super::identity::Identity;
pub(super) use named::{Named, Subject};

/// By when upstream's authorizer has learned of a change, whose answers before that may not count.
const SETTLED: Duration = Duration::from_secs(3);

/// When questions are asked again.
#[derive(Clone, Copy, Debug)]
pub struct StandingLimits {
    /// No question of the round is asked again sooner.
    pub soonest: Duration,
    /// For how long an answer goes on that upstream says nothing about.
    pub unanswered: Duration,
}

/// All answers that stand.
#[derive(Debug)]
pub(super) struct Standings {
    state: Mutex<State>,
    /// Something is to be asked sooner than it was.
    sooner: Notify,
    limits: StandingLimits,
}

/// What has to be asked again, and for whom.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) question: Question,
    pub(super) key: CallerKey,
    pub(super) caller: Caller,
    /// The review as it is sent.
    pub(super) review: Bytes,
    /// Whether it is not known yet who the caller is.
    pub(super) is_nameless: bool,
}

/// What is to be done now.
#[derive(Debug)]
pub(super) enum Step {
    /// Ask this; it is not given out again until it is answered.
    Ask(Asking),
    /// Ask who this is.
    Name(CallerKey, Caller),
    /// Nothing until then.
    Wait(Instant),
    /// Nothing until something is registered.
    Idle,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) streams: usize,
    pub(super) questions: usize,
    pub(super) callers: usize,
    /// Questions whose answers may just have changed.
    pub(super) urgent: usize,
}

/// Why answers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lost {
    /// Upstream said no.
    Denied,
    /// Upstream said nothing for too long.
    Unanswered,
}

/// One answer that stands. It is over when this says so, or gone when this is.
#[derive(Debug)]
pub struct Standing {
    standings: Arc<Standings>,
    question: Question,
    number: u64,
    lost: oneshot::Receiver<()>,
    is_lost: bool,
}

// === impl StandingLimits ===

impl Default for StandingLimits {
    fn default() -> Self {
        Self { soonest: Duration::from_secs(5), unanswered: Duration::from_secs(3_600) }
    }
}

// === impl Standings ===

impl Standings {
    /// None yet.
    pub(super) fn new(limits: StandingLimits) -> Self {
        Self { state: Mutex::default(), sooner: Notify::new(), limits }
    }

    /// One more, of a question that upstream answered with yes then.
    pub(super) fn add(
        self: &Arc<Self>,
        (question, answered): (Question, Instant),
        (key, caller): (CallerKey, &Caller),
        (review, namespace): (impl FnOnce() -> Bytes, &str),
    ) -> Standing {
        let (sender, lost) = oneshot::channel();
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.streams += 1;
        if let Some(asked) = state.asked.get_mut(&question) {
            asked.streams.insert(number, sender);
            asked.answered = asked.answered.max(answered);
        } else {
            let due = answered + self.limits.soonest;
            let streams = HashMap::from([(number, sender)]);
            let (review, namespace) = (review(), namespace.into());
            // A yes from before a change may not be one any more, and the change was told already.
            let due = match state.changed {
                Some(changed) if answered < changed + SETTLED => Due::Urgent(answered, 0),
                _ => Due::Round(due),
            };
            let asked = Asked { key, review, namespace, answered, due, streams };
            state.asked.insert(question, asked);
            match due {
                Due::Urgent(at, _) => state.urgent.insert((at, question)),
                Due::Round(at) => state.round.insert((at, question)),
                Due::Asking(_) => false,
            };
            let State { callers, nameless, .. } = &mut *state;
            let first = || {
                nameless.insert(key);
                Known { caller: caller.kept(), identity: None, questions: HashSet::new() }
            };
            callers.entry(key).or_insert_with(first).questions.insert(question);
            drop(state);
            self.sooner.notify_one();
        }
        Standing { standings: self.clone(), question, number, lost, is_lost: false }
    }

    /// Waits until something may have to be asked sooner than the last step said.
    pub(super) async fn sooner(&self) {
        self.sooner.notified().await;
    }

    /// What to ask now.
    pub(super) fn step(&self, now: Instant) -> Step {
        self.state.lock().step(now)
    }

    /// What upstream has said to a question. How many answers ended by it, and why.
    pub(super) fn answered(&self, question: Question, reviewed: Reviewed, now: Instant) -> (usize, Lost) {
        let mut state = self.state.lock();
        let Some(asked) = state.asked.get_mut(&question) else { return (0, Lost::Denied) };
        let lost = match reviewed {
            Reviewed::Allowed => {
                asked.answered = now;
                None
            }
            Reviewed::Denied | Reviewed::DeniedNow => Some(Lost::Denied),
            Reviewed::Undecided | Reviewed::Unreachable => {
                (now.duration_since(asked.answered) >= self.limits.unanswered).then_some(Lost::Unanswered)
            }
        };
        let Some(lost) = lost else {
            state.schedule(question, now + self.limits.soonest, now);
            return (0, Lost::Denied);
        };
        let ended = state.remove(question);
        drop(state);
        (ended.map_or(0, |ended| ended.streams.len()), lost)
    }

    /// Upstream does not know a caller any more: nothing of theirs goes on. How many answers ended.
    pub(super) fn unknown(&self, key: CallerKey) -> usize {
        self.state.lock().forget(key)
    }

    /// Who a caller is.
    pub(super) fn identified(&self, key: CallerKey, identity: Arc<Identity>) {
        if let Some(known) = self.state.lock().callers.get_mut(&key) {
            known.identity = Some(identity);
        }
    }

    /// Asks about those first whom a change names, and about those of whom nobody knows whether it does. How many questions.
    pub(super) fn changed(&self, named: &Named, now: Instant) -> usize {
        let count = self.state.lock().hurry(named, now);
        self.sooner.notify_one();
        count
    }

    /// Ends what upstream has said nothing about for too long, also where it was never its turn. How many answers.
    pub(super) fn expire(&self, now: Instant) -> usize {
        let mut state = self.state.lock();
        let is_over = |asked: &Asked| now.saturating_duration_since(asked.answered) >= self.limits.unanswered;
        let over = state.asked.iter().filter(|(_, asked)| is_over(asked)).map(|(question, _)| *question);
        let over: Vec<_> = over.collect();
        let ended: Vec<_> = over.into_iter().filter_map(|question| state.remove(question)).collect();
        drop(state);
        ended.iter().map(|asked| asked.streams.len()).sum()
    }

    /// How many there are.
    pub(super) fn counts(&self) -> Counts {
        let state = self.state.lock();
        Counts {
            streams: state.streams,
            questions: state.asked.len(),
            callers: state.callers.len(),
            urgent: state.urgent.len(),
        }
    }

    /// How long ago upstream last said yes to the question that it has been longest for.
    pub(super) fn oldest(&self, now: Instant) -> Duration {
        let state = self.state.lock();
        let ages = state.asked.values().map(|asked| now.saturating_duration_since(asked.answered));
        ages.max().unwrap_or_default()
    }

    /// The limits.
    pub(super) fn limits(&self) -> StandingLimits {
        self.limits
    }

    fn leave(&self, question: Question, number: u64) {
        let mut state = self.state.lock();
        let Some(asked) = state.asked.get_mut(&question) else { return };
        if asked.streams.remove(&number).is_none() {
            return;
        }
        let is_last = asked.streams.is_empty();
        state.streams -= 1;
        if is_last {
            state.remove(question);
        }
    }
}

// === impl Standing ===

impl Standing {
    /// Ready when its caller may not have any more of it, and from then on.
    pub fn poll_lost(&mut self, context: &mut Context<'_>) -> Poll<()> {
        // The sender is never used: that it is gone is the word.
        if !self.is_lost {
            let _ = ready!(Pin::new(&mut self.lost).poll(context));
            self.is_lost = true;
        }
        Poll::Ready(())
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.standings.leave(self.question, self.number);
    }
}
