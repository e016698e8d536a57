//! How often one scope is asked for. One question at a time is not enough of a bound: upstream answers in milliseconds, and
//! callers of one namespace may come by the hundred each second. So those who come soon one after the other wait for each other.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// The least time between two questions for one scope, in the long run.
const APART: Duration = Duration::from_millis(100);
/// How many of them may come sooner: who asks for the first time in a while does not wait.
const AT_ONCE: u32 = 10;
/// Scopes are forgotten that may be asked for at once again when there are more than so many.
const KEPT: usize = 1_024;

/// When each scope was asked for.
#[derive(Debug)]
pub(super) struct Pacing<K>(HashMap<K, Instant>);

// === impl Pacing ===

impl<K> Default for Pacing<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Pacing<K> {
    /// When it may be asked for; `None` where nothing is remembered that it would have to wait for.
    pub(super) fn not_before(&self, scope: &K) -> Option<Instant> {
        self.0.get(scope)?.checked_sub(APART * (AT_ONCE - 1))
    }

    /// It is asked for now.
    pub(super) fn note(&mut self, scope: K) {
        let now = Instant::now();
        if self.0.len() >= KEPT {
            self.0.retain(|_, paid| *paid > now);
        }
        let paid = self.0.entry(scope).or_insert(now);
        *paid = (*paid).max(now) + APART;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep_until};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_scope_is_asked_for_ten_times_a_second_in_the_long_run_and_at_once_after_a_while() {
        let mut pacing = Pacing::default();
        let (began, mut asked) = (Instant::now(), Vec::new());
        for _ in 0..110 {
            if let Some(at) = pacing.not_before(&"a") {
                sleep_until(at).await;
            }
            pacing.note("a");
            asked.push(began.elapsed().as_millis());
        }
        assert_eq!((asked[9], asked[10], asked[109]), (0, 100, 10_000));
        assert_eq!(pacing.not_before(&"b"), None, "another scope");
        let is_due = |pacing: &Pacing<_>| pacing.not_before(&"a").is_none_or(|at| at <= Instant::now());
        assert!(!is_due(&pacing));
        advance(Duration::from_secs(1)).await;
        for _ in 0..10 {
            assert!(is_due(&pacing));
            pacing.note("a");
        }
        assert!(!is_due(&pacing));
    }

    #[tokio::test(start_paused = true)]
    async fn scopes_that_nobody_asks_for_are_forgotten() {
        let mut pacing = Pacing::default();
        (0..KEPT).for_each(|scope| pacing.note(scope));
        advance(Duration::from_secs(1)).await;
        pacing.note(KEPT);
        assert_eq!(pacing.0.len(), 1);
    }
}
