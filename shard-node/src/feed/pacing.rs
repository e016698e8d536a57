//! How often one scope is asked for. One question at a time is not enough of a bound: callers of one namespace may come by the
//! hundred each second, and those who come soon one after the other are to share a question.
//!
//! It costs them nothing. Upstream asks its storage how far it is ten times a second while somebody waits for that, and at once
//! when nobody has for a while. So a question right behind another one is answered after 100 ms, and one that comes 100 ms later
//! is answered at once: at the same moment, and for everyone who came meanwhile.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// How long a scope is left alone behind an answer: as far as upstream's questions to its storage are apart.
const APART: Duration = Duration::from_millis(100);
/// Scopes that may be asked for again are forgotten when there are more than so many.
const KEPT: usize = 1_024;

/// When each scope may be asked for again.
#[derive(Debug)]
pub(super) struct Pacing<K>(HashMap<K, Instant>);

// === impl Pacing ===

impl<K> Default for Pacing<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Pacing<K> {
    /// When it may be asked for; `None` where it has not been for long.
    pub(super) fn not_before(&self, scope: &K) -> Option<Instant> {
        self.0.get(scope).copied()
    }

    /// It has just been answered.
    pub(super) fn answered(&mut self, scope: K) {
        let now = Instant::now();
        if self.0.len() >= KEPT {
            self.0.retain(|_, not_before| *not_before > now);
        }
        self.0.insert(scope, now + APART);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_scope_is_left_alone_behind_an_answer_and_others_are_not() {
        let mut pacing = Pacing::default();
        assert_eq!(pacing.not_before(&"a"), None);
        pacing.answered("a");
        assert_eq!(pacing.not_before(&"a"), Some(Instant::now() + APART));
        assert_eq!(pacing.not_before(&"b"), None);
        advance(APART).await;
        assert!(pacing.not_before(&"a").is_none_or(|at| at <= Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn scopes_that_nobody_asks_for_are_forgotten() {
        let mut pacing = Pacing::default();
        (0..KEPT).for_each(|scope| pacing.answered(scope));
        advance(Duration::from_secs(1)).await;
        pacing.answered(KEPT);
        assert_eq!(pacing.0.len(), 1);
    }
}
