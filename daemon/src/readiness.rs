//! Whether the process can do its work, as the sum of named conditions that its parts set. A condition that is made counts
//! as false until its part says otherwise, also in a process that was ready: make it where the work is taken on, not where
//! it is done.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// The conditions of the process. Clones are the same set.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<Shared>);

/// One condition; it leaves the set when this is dropped.
#[derive(Debug)]
#[must_use = "dropping it removes the condition"]
pub struct Condition {
    shared: Arc<Shared>,
    number: u64,
}

/// A condition as it stands, or the phase of the process as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What must hold.
    pub name: Cow<'static, str>,
    /// Whether it does.
    pub holds: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    ready: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// The order of the numbers is the order of making.
    conditions: BTreeMap<u64, Check>,
    next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Parts may still be missing from the set.
    Starting,
    Started,
    /// For good.
    Draining,
}

// === impl Readiness ===

impl Readiness {
    /// No conditions, and not started.
    pub fn new() -> Self {
        let state = State { phase: Phase::Starting, conditions: BTreeMap::new(), next: 0 };
        Self(Arc::new(Shared { state: Mutex::new(state), ready: watch::Sender::new(false) }))
    }

    /// Adds a condition, which does not hold yet. Names are for people and need not differ.
    pub fn condition(&self, name: impl Into<Cow<'static, str>>) -> Condition {
        let number = self.0.change(|state| {
            let number = state.next;
            state.next += 1;
            state.conditions.insert(number, Check { name: name.into(), holds: false });
            number
        });
        Condition { shared: Arc::clone(&self.0), number }
    }

    /// Says that all conditions that the process begins with are in the set. Before it, the process is never ready.
    pub fn started(&self) {
        self.0.change(|state| match state.phase {
            Phase::Starting => state.phase = Phase::Started,
            Phase::Started | Phase::Draining => {}
        });
    }

    /// Makes the process not ready for good: it is about to stop, and nobody should come any more.
    pub fn drain(&self) {
        self.0.change(|state| state.phase = Phase::Draining);
    }

    /// Whether the process is ready.
    pub fn is_ready(&self) -> bool {
        self.0.state().is_ready()
    }

    /// Follows whether the process is ready; only changes are published.
    pub fn changed(&self) -> watch::Receiver<bool> {
        self.0.ready.subscribe()
    }

    /// What keeps the process from being ready; empty if it is.
    pub fn why_not(&self) -> Vec<String> {
        let failing = self.checks().into_iter().filter(|check| !check.holds);
        failing.map(|check| check.name.into_owned()).collect()
    }

    /// Everything that must hold, the phase of the process first.
    pub fn checks(&self) -> Vec<Check> {
        let state = self.0.state();
        let phase = Check { name: state.phase.claim().into(), holds: state.phase == Phase::Started };
        std::iter::once(phase).chain(state.conditions.values().cloned()).collect()
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Condition ===

impl Condition {
    /// Says whether the condition holds.
    pub fn set(&self, holds: bool) {
        self.shared.change(|state| {
            if let Some(check) = state.conditions.get_mut(&self.number) {
                check.holds = holds;
            }
        });
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        self.shared.change(|state| state.conditions.remove(&self.number));
    }
}

// === impl Shared ===

impl Shared {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        // Two changes at once may come here in either order, so what is published is read anew under the watch's own lock.
        self.ready.send_if_modified(|ready| {
            let now = self.state().is_ready();
            std::mem::replace(ready, now) != now
        });
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock can leave the state half changed, so a poisoned lock is as good as a clean one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn is_ready(&self) -> bool {
        self.phase == Phase::Started && self.conditions.values().all(|check| check.holds)
    }
}

// === impl Phase ===

impl Phase {
    /// What is asked of the phase, in words that stand for its failing too.
    fn claim(self) -> &'static str {
        match self {
            Self::Starting | Self::Started => "started",
            Self::Draining => "not draining",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_started_with_all_conditions() {
        let readiness = Readiness::new();
        assert_eq!(readiness.why_not(), ["started"]);
        let pods = readiness.condition("mirror pods");
        let nodes = readiness.condition(format!("mirror {}", "nodes"));
        readiness.started();
        assert_eq!(readiness.why_not(), ["mirror pods", "mirror nodes"]);
        nodes.set(true);
        assert!(!readiness.is_ready());
        pods.set(true);
        assert!(readiness.is_ready() && readiness.why_not().is_empty());
        pods.set(false);
        assert_eq!(readiness.clone().why_not(), ["mirror pods"]);
    }

    #[test]
    fn conditions_alone_make_nothing_ready() {
        let readiness = Readiness::new();
        readiness.condition("a").set(true);
        assert!(!readiness.is_ready(), "not started");
        readiness.started();
        assert!(readiness.is_ready());
    }

    #[test]
    fn a_dropped_condition_counts_no_more() {
        let readiness = Readiness::new();
        let (kept, dropped) = (readiness.condition("same name"), readiness.condition("same name"));
        readiness.started();
        kept.set(true);
        assert_eq!(readiness.why_not(), ["same name"]);
        drop(dropped);
        assert!(readiness.is_ready());
        assert_eq!(readiness.checks().len(), 2, "the phase and the one that was kept");
    }

    #[test]
    fn a_new_condition_is_waited_for() {
        let readiness = Readiness::new();
        readiness.started();
        let late = readiness.condition("late");
        assert!(!readiness.is_ready());
        late.set(true);
        assert!(readiness.is_ready());
    }

    #[test]
    fn draining_is_for_good() {
        let readiness = Readiness::new();
        let condition = readiness.condition("a");
        readiness.drain();
        readiness.started();
        condition.set(true);
        assert_eq!(readiness.why_not(), ["not draining"]);
    }

    #[tokio::test]
    async fn only_changes_are_published() {
        let readiness = Readiness::new();
        let mut ready = readiness.changed();
        let condition = readiness.condition("a");
        readiness.started();
        assert!(!ready.has_changed().unwrap());
        condition.set(true);
        condition.set(true);
        assert!(*ready.wait_for(|ready| *ready).await.unwrap());
        condition.set(true);
        assert!(!ready.has_changed().unwrap());
        readiness.drain();
        assert!(!*ready.wait_for(|ready| !ready).await.unwrap());
    }

    /// Whoever changes last, what is published in the end is what holds in the end.
    #[test]
    fn changes_at_once_publish_the_last_state() {
        let readiness = Readiness::new();
        readiness.started();
        let conditions = [(); 4].map(|()| readiness.condition("racing"));
        for holds in [false, true] {
            std::thread::scope(|scope| {
                for condition in &conditions {
                    scope.spawn(move || {
                        for turn in 0..200 {
                            condition.set(turn % 2 == 0);
                        }
                        condition.set(holds);
                    });
                }
            });
            assert_eq!(*readiness.changed().borrow(), holds);
        }
    }
}
