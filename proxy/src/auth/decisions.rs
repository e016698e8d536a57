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

use super::caller::CallerKey;
use super::metrics::{DecisionMetrics, How};

/// Decisions that are remembered. 100,000 × 334 bytes, measured, are 33.5 MB.
pub const DECISIONS: u64 = 100_000;

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
pub enum Reviewed {
    /// A plain yes.
    Allowed,
    /// Anything else that is an answer.
    Denied,
    /// The same to somebody whose rights change from one moment to the next: it counts for those who asked together.
    DeniedNow,
    /// Upstream is there and did not say.
    Undecided,
    /// Upstream is not there.
    Unreachable,
}

/// Whose request for what, as a keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question([u64; 2]);

/// What upstream says to a question, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it says.
    pub reviewed: Reviewed,
    /// When it said so.
    pub at: Instant,
}

/// Decisions of the last minutes. Clones share them.
#[derive(Clone, Debug)]
pub struct Decisions {
    cache: Cache<Question, Known>,
    keys: [RandomState; 2],
    limits: DecisionLimits,
    metrics: DecisionMetrics,
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
    pub fn new(limits: DecisionLimits, metrics: DecisionMetrics) -> Self {
        let cache = Cache::builder().max_capacity(DECISIONS).time_to_live(limits.outage).build();
        Self { cache, keys: [RandomState::new(), RandomState::new()], limits, metrics }
    }

    /// The question whether the caller may do something.
    pub fn question(&self, asked: &impl Hash) -> Question {
        Question(self.hash(asked))
    }

    /// The name here of whoever shows this.
    pub(super) fn caller(&self, shown: &impl Hash) -> CallerKey {
        CallerKey(self.hash(shown))
    }

    fn hash(&self, hashed: &impl Hash) -> [u64; 2] {
        [0, 1].map(|key: usize| self.keys[key].hash_one(hashed))
    }

    /// What is known of a question, or else what comes of asking it. [`Reviewed::Unreachable`] only where nothing is known.
    pub async fn decide<'a>(
        &self,
        question: Question,
        review: impl FnOnce() -> BoxFuture<'a, Reviewed> + Send,
    ) -> Verdict {
        let known = self.cache.get(&question).await;
        match known.and_then(|known| known.counts(&self.limits)) {
            Some(verdict) => {
                self.metrics.count(known.map_or(How::Remembered, |known| known.how(verdict)));
                verdict
            }
            // Rare, and large: kept out of the future of every request.
            None => Box::pin(self.ask(question, review())).await,
        }
    }

    /// Remembers what upstream has said to a question that nobody waits for.
    pub(super) async fn learn(&self, question: Question, reviewed: Reviewed) {
        let learnt = self.cache.entry(question).and_compute_with(async |entry| {
            Op::Put(Known::after(entry.map(moka::Entry::into_value), reviewed))
        });
        learnt.await;
    }

    /// Asks, unless somebody else has by the time it is this caller's turn.
    async fn ask(&self, question: Question, review: BoxFuture<'_, Reviewed>) -> Verdict {
        let came = Instant::now();
        let asked = self.cache.entry(question).and_compute_with(async |entry| {
            let before = entry.map(moka::Entry::into_value);
            let is_answered = |known: Known| known.asked.1 > came || known.counts(&self.limits).is_some();
            match before.is_some_and(is_answered) {
                true => Op::Nop,
                false => Op::Put(Known::after(before, review.await)),
            }
        });
        let (known, is_shared) = match asked.await {
            CompResult::Inserted(entry) | CompResult::ReplacedWith(entry) => (entry.into_value(), false),
            CompResult::Unchanged(entry) | CompResult::Removed(entry) => (entry.into_value(), true),
            // Nothing is taken out here.
            CompResult::StillNone(_) => return Verdict { reviewed: Reviewed::Undecided, at: came },
        };
        let (reviewed, at) = known.asked;
        let verdict = known.counts(&self.limits).unwrap_or(Verdict { reviewed, at });
        self.metrics.count(if is_shared { How::Shared } else { How::Asked });
        match known.how(verdict) {
            How::Remembered => {}
            // Beside how it was asked, since nobody answered.
            how => self.metrics.count(how),
        }
        verdict
    }
}

// === impl Known ===

impl Known {
    fn after(before: Option<Self>, reviewed: Reviewed) -> Self {
        let now = Instant::now();
        let decided = match reviewed {
            Reviewed::Allowed => Some((true, now)),
            Reviewed::Denied | Reviewed::DeniedNow => Some((false, now)),
            Reviewed::Undecided | Reviewed::Unreachable => before.and_then(|known| known.decided),
        };
        Self { decided, asked: (reviewed, now) }
    }

    /// What it means now; `None` where upstream has to be asked.
    fn counts(&self, limits: &DecisionLimits) -> Option<Verdict> {
        let decision = |(is_allowed, at): (bool, Instant), within: [Duration; 2]| {
            let (reviewed, within) = match is_allowed {
                true => (Reviewed::Allowed, within[0]),
                false => (Reviewed::Denied, within[1]),
            };
            (at.elapsed() < within).then_some(Verdict { reviewed, at })
        };
        let (last, at) = self.asked;
        match last {
            Reviewed::Allowed | Reviewed::Denied => {
                self.decided.and_then(|decided| decision(decided, [limits.allowed, limits.denied]))
            }
            Reviewed::DeniedNow => None,
            _ if at.elapsed() >= limits.unanswered => None,
            Reviewed::Undecided => Some(Verdict { reviewed: Reviewed::Undecided, at }),
            Reviewed::Unreachable => {
                let old = self.decided.and_then(|decided| decision(decided, [limits.outage; 2]));
                Some(old.unwrap_or(Verdict { reviewed: Reviewed::Unreachable, at }))
            }
        }
    }

    /// How a verdict of this comes about without a question.
    fn how(&self, verdict: Verdict) -> How {
        match (self.asked.0, verdict.reviewed) {
            (Reviewed::Unreachable, Reviewed::Unreachable) => How::Unreachable,
            (Reviewed::Unreachable, _) => How::Grace,
            (Reviewed::Undecided, _) => How::Undecided,
            (Reviewed::Allowed | Reviewed::Denied | Reviewed::DeniedNow, _) => How::Remembered,
        }
    }
}

#[cfg(test)]
mod tests;
