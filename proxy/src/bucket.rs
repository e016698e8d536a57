//! A token bucket: so much at once, so much a second, and a debt that is bounded, so that nobody is shut out for long by what
//! was let through before its price was known.

use std::time::Duration;

use tokio::time::Instant;

/// How many seconds' worth may be owed.
const DEBT_SECONDS: u64 = 30;

/// How much there may be of something.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// What comes back a second.
    pub a_second: u64,
    /// What may be used at once.
    pub at_once: u64,
}

/// What is left of an allowance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    allowance: Allowance,
    left: f64,
    at: Instant,
}

// === impl Bucket ===

impl Bucket {
    /// A full one.
    pub(crate) fn full(allowance: Allowance, now: Instant) -> Self {
        Self { allowance, left: allowance.at_once as f64, at: now }
    }

    /// Takes so much, whether or not it is there.
    pub(crate) fn take(&mut self, amount: u64, now: Instant) {
        self.refill(now);
        let debt = -((self.allowance.a_second * DEBT_SECONDS) as f64);
        self.left = (self.left - amount as f64).max(debt);
    }

    /// Gives back what was taken for nothing.
    pub(crate) fn give(&mut self, amount: u64, now: Instant) {
        self.refill(now);
        self.left = (self.left + amount as f64).min(self.allowance.at_once as f64);
    }

    /// How long it takes until there is one; `None` if there is.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.refill(now);
        let missing = 1.0 - self.left;
        (missing > 0.0).then(|| Duration::from_secs_f64(missing / self.allowance.a_second as f64))
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + elapsed * self.allowance.a_second as f64).min(self.allowance.at_once as f64);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_taken_comes_back_at_its_pace_and_no_more_than_there_was() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut bucket = Bucket::full(Allowance { a_second: 10, at_once: 50 }, start);
        (0..50).for_each(|_| {
            assert_eq!(bucket.wait(start), None);
            bucket.take(1, start);
        });
        assert_eq!(bucket.wait(start), Some(Duration::from_millis(100)));
        assert_eq!(bucket.wait(at(1)), None);
        bucket.take(10, at(1));
        assert!(bucket.wait(at(1)).is_some());
        bucket.take(50, at(100));
        assert!(bucket.wait(at(100)).is_some(), "no more than at once is saved up");
        bucket.give(1, at(100));
        assert_eq!(bucket.wait(at(100)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_debt_is_paid_off_in_bounded_time_whatever_its_size() {
        let now = Instant::now();
        let mut bucket = Bucket::full(Allowance { a_second: 10, at_once: 50 }, now);
        bucket.take(1_000_000, now);
        assert_eq!(bucket.wait(now), Some(Duration::from_millis(30_100)));
        assert_eq!(bucket.wait(now + Duration::from_millis(30_100)), None);
    }
}
