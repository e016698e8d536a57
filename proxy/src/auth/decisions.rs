//! What upstream has decided about callers and their requests, for a few seconds: a controller that lists every second is no
//! review every second. Who asks while the same is being asked waits for the answer.
//!
//! A caller is a keyed hash of a credential here, so that none can be read out of memory or made to collide. No answer is no
//! decision. While upstream cannot be reached at all, what it said a few minutes ago still counts: an outage of the
//! apiserver must not take the readers with it.

use std::hash::{BuildHasher, Hash, RandomState};
use std::time::Duration;

use futures_util::future::BoxFuture;
use moka::future::Cache;
use moka::ops::compute::{CompResult, Op};
use tokio::time::Instant;

/// Decisions that are remembered. 100,000 × ~350 bytes ≈ 35 MB.
const DECISIONS: u64 = 100_000;

/// How long decisions count.
#[derive(Clone, Copy, Debug)]
pub struct DecisionLimits {
    /// A yes.
    pub allowed: Duration,
    /// A no. The request is passed to upstream, which may have come to another decision meanwhile.
    pub denied: Duration,
    /// Either, while upstream cannot be reached.
    pub outage: Duration,
    /// That there was no answer.
    pub unanswered: Duration,
}

/// What came of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reviewed {
    /// A plain yes.
    Allowed,
    /// Anything else that is an answer.
    Denied,
    /// Upstream is there and did not say.
    Undecided,
    /// Upstream is not there.
    Unreachable,
}

/// Whose request for what, as a keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Question([u64; 2]);

/// Decisions of the last minutes. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Decisions {
    cache: Cache<Question, Known>,
    keys: [RandomState; 2],
    limits: DecisionLimits,
}

/// What is known about a question.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// What upstream last said, and when.
    decided: Option<(bool, Instant)>,
    /// What came of asking last, and when.
    asked: (Reviewed, Instant),
}

// === impl DecisionLimits ===

impl Default for DecisionLimits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { allowed: seconds(5), denied: seconds(1), outage: seconds(300), unanswered: seconds(1) }
    }
}

// === impl Decisions ===

impl Decisions {
    /// None yet.
    pub(super) fn new(limits: DecisionLimits) -> Self {
        let cache = Cache::builder().max_capacity(DECISIONS).time_to_live(limits.outage).build();
        Self { cache, keys: [RandomState::new(), RandomState::new()], limits }
    }

    /// The question whether the caller may do something.
    pub(super) fn question(&self, asked: &impl Hash) -> Question {
        Question([0, 1].map(|key: usize| self.keys[key].hash_one(asked)))
    }

    /// What is known of a question, or else what comes of asking it. [`Reviewed::Unreachable`] only where nothing is known.
    pub(super) async fn decide<'a>(
        &self,
        question: Question,
        review: impl FnOnce() -> BoxFuture<'a, Reviewed> + Send,
    ) -> Reviewed {
        let known = self.cache.get(&question).await;
        match known.and_then(|known| known.counts(&self.limits)) {
            Some(reviewed) => reviewed,
            // Rare, and large: kept out of the future of every request.
            None => Box::pin(self.ask(question, review())).await,
        }
    }

    /// Asks, unless somebody else has by the time it is this caller's turn.
    async fn ask(&self, question: Question, review: BoxFuture<'_, Reviewed>) -> Reviewed {
        let asked = self.cache.entry(question).and_compute_with(async |entry| {
            let before = entry.map(moka::Entry::into_value);
            match before.and_then(|known| known.counts(&self.limits)) {
                Some(_) => Op::Nop,
                None => Op::Put(Known::after(before, review.await)),
            }
        });
        let known = match asked.await {
            CompResult::Inserted(entry)
            | CompResult::ReplacedWith(entry)
            | CompResult::Unchanged(entry)
            | CompResult::Removed(entry) => entry.into_value(),
            // Nothing is taken out here.
            CompResult::StillNone(_) => return Reviewed::Undecided,
        };
        known.counts(&self.limits).unwrap_or(known.asked.0)
    }
}

// === impl Known ===

impl Known {
    fn after(before: Option<Self>, reviewed: Reviewed) -> Self {
        let now = Instant::now();
        let decided = match reviewed {
            Reviewed::Allowed => Some((true, now)),
            Reviewed::Denied => Some((false, now)),
            Reviewed::Undecided | Reviewed::Unreachable => before.and_then(|known| known.decided),
        };
        Self { decided, asked: (reviewed, now) }
    }

    /// What it means now; `None` where upstream has to be asked.
    fn counts(&self, limits: &DecisionLimits) -> Option<Reviewed> {
        let decision = |(is_allowed, at): (bool, Instant), within: [Duration; 2]| {
            let (reviewed, within) = match is_allowed {
                true => (Reviewed::Allowed, within[0]),
                false => (Reviewed::Denied, within[1]),
            };
            (at.elapsed() < within).then_some(reviewed)
        };
        let (last, at) = self.asked;
        let fresh = self.decided.and_then(|decided| decision(decided, [limits.allowed, limits.denied]));
        match last {
            Reviewed::Allowed | Reviewed::Denied => fresh,
            _ if at.elapsed() >= limits.unanswered => None,
            Reviewed::Undecided => Some(Reviewed::Undecided),
            Reviewed::Unreachable => {
                let old = self.decided.and_then(|decided| decision(decided, [limits.outage; 2]));
                Some(old.unwrap_or(Reviewed::Unreachable))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::join_all;
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Decisions about one question, and how often it was asked.
    struct Asking(Decisions, AtomicUsize);

    impl Asking {
        fn new() -> Self {
            Self(Decisions::new(DecisionLimits::default()), AtomicUsize::new(0))
        }

        async fn decide(&self, answer: Reviewed) -> Reviewed {
            let review = async move {
                self.1.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                answer
            };
            self.0.decide(self.0.question(&("token", "list", "pods")), || review.boxed()).await
        }

        fn times(&self) -> usize {
            self.1.load(Ordering::Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_counts_for_seconds_and_a_no_for_one() {
        let asking = Asking::new();
        assert_eq!(asking.decide(Reviewed::Allowed).await, Reviewed::Allowed);
        advance(4 * SECOND).await;
        assert_eq!(asking.decide(Reviewed::Denied).await, Reviewed::Allowed);
        advance(SECOND).await;
        assert_eq!(asking.decide(Reviewed::Denied).await, Reviewed::Denied);
        assert_eq!(asking.decide(Reviewed::Allowed).await, Reviewed::Denied);
        assert_eq!(asking.times(), 2);
        advance(SECOND).await;
        assert_eq!((asking.decide(Reviewed::Allowed).await, asking.times()), (Reviewed::Allowed, 3));
    }

    #[tokio::test]
    async fn many_who_ask_the_same_are_one_review() {
        let asking = Asking::new();
        let decided = join_all((0..100).map(|_| asking.decide(Reviewed::Allowed))).await;
        assert!(decided.iter().all(|decided| *decided == Reviewed::Allowed));
        assert_eq!(asking.times(), 1);
    }

    #[tokio::test]
    async fn a_caller_who_leaves_while_it_asks_leaves_the_question_to_the_next() {
        let asking = Asking::new();
        assert!(asking.decide(Reviewed::Allowed).now_or_never().is_none());
        assert_eq!((asking.decide(Reviewed::Denied).await, asking.times()), (Reviewed::Denied, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn while_upstream_is_gone_its_last_word_counts_for_minutes() {
        let asking = Asking::new();
        asking.decide(Reviewed::Allowed).await;
        advance(30 * SECOND).await;
        for _ in 0..3 {
            assert_eq!(asking.decide(Reviewed::Unreachable).await, Reviewed::Allowed);
        }
        assert_eq!(asking.times(), 2, "nor is it asked again at once");
        advance(270 * SECOND).await;
        assert_eq!(asking.decide(Reviewed::Unreachable).await, Reviewed::Unreachable);
        assert_eq!(asking.times(), 3);
        advance(SECOND).await;
        assert_eq!(asking.decide(Reviewed::Denied).await, Reviewed::Denied);
    }

    #[tokio::test(start_paused = true)]
    async fn an_upstream_that_is_there_and_does_not_say_has_not_said_yes() {
        let asking = Asking::new();
        asking.decide(Reviewed::Allowed).await;
        advance(5 * SECOND).await;
        assert_eq!(asking.decide(Reviewed::Undecided).await, Reviewed::Undecided);
        assert_eq!((asking.decide(Reviewed::Allowed).await, asking.times()), (Reviewed::Undecided, 2));
    }

    #[test]
    fn questions_that_differ_in_one_part_are_others() {
        let decisions = Decisions::new(DecisionLimits::default());
        let one = decisions.question(&("token", "list", "pods"));
        assert_eq!(one, decisions.question(&("token", "list", "pods")));
        for other in [("tokem", "list", "pods"), ("token", "watch", "pods"), ("token", "lis", "tpods")] {
            assert_ne!(one, decisions.question(&other), "{other:?}");
        }
        assert_ne!(one, Decisions::new(DecisionLimits::default()).question(&("token", "list", "pods")));
    }
}
