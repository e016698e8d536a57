//! When upstream is asked. One question of a kind at a time is not enough of a bound: callers of one namespace may come by the
//! hundred each second, and those who come soon one after the other are to share a question.
//!
//! Where other kinds are written meanwhile, upstream cannot answer before its storage has said how far it is. It asks that ten
//! times a second while somebody waits, and at once when nobody has for that long. So a question right behind an answer is
//! answered after 100 ms, and one that comes 100 ms later is answered at once: at the same moment, and for everyone who came
//! meanwhile. Questions that wait for that do so here, together.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// How far upstream's questions to its storage are apart.
const APART: Duration = Duration::from_millis(100);
/// An answer that takes as long has waited for one of them.
const SLOW: Duration = Duration::from_millis(25);
/// For how long the next ones will too. Those that are asked at the right time are fast and tell nothing.
const LASTS: Duration = Duration::from_secs(5);
/// Scopes that may be asked for again are forgotten when there are more than so many.
const KEPT: usize = 1_024;

/// When questions were answered.
#[derive(Debug)]
pub(super) struct Pacing<K> {
    /// When each scope was, of late.
    scopes: HashMap<K, Instant>,
    last: Option<Instant>,
    last_slow: Option<Instant>,
}

// === impl Pacing ===

impl<K> Default for Pacing<K> {
    fn default() -> Self {
        Self { scopes: HashMap::new(), last: None, last_slow: None }
    }
}

impl<K: Eq + Hash> Pacing<K> {
    /// When a scope may be asked for. It may be past; `None` for at any time.
    pub(super) fn of_scope(&self, scope: &K) -> Option<Instant> {
        self.of_same(scope).max(self.of_any())
    }

    /// The same for who waits for nobody but those who ask the same.
    pub(super) fn of_same(&self, scope: &K) -> Option<Instant> {
        self.scopes.get(scope).map(|answered| *answered + APART)
    }

    /// When anything may be asked.
    pub(super) fn of_any(&self) -> Option<Instant> {
        self.last_slow.filter(|slow| slow.elapsed() < LASTS)?;
        self.last.map(|last| last + APART)
    }

    /// A question was answered that was asked at `since`, of a scope or of none.
    pub(super) fn answered(&mut self, scope: Option<K>, since: Instant) {
        let now = Instant::now();
        // At the right time and slow all the same: upstream has other reasons, and waiting here does not help.
        let was_in_vain = self.of_any().is_some_and(|right_time| since >= right_time);
        if now - since >= SLOW {
            self.last_slow = (!was_in_vain).then_some(now);
        }
        self.last = Some(now);
        if let Some(scope) = scope {
            self.left(scope);
        }
    }

    /// A scope was answered; how soon tells nothing of others.
    pub(super) fn left(&mut self, scope: K) {
        if self.scopes.len() >= KEPT {
            self.scopes.retain(|_, answered| answered.elapsed() < APART);
        }
        self.scopes.insert(scope, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const FAST: Duration = Duration::from_millis(3);

    /// A question that takes so long.
    async fn ask(pacing: &mut Pacing<&'static str>, scope: Option<&'static str>, takes: Duration) {
        let since = Instant::now();
        advance(takes).await;
        pacing.answered(scope, since);
    }

    #[tokio::test(start_paused = true)]
    async fn a_scope_is_left_alone_behind_an_answer_and_others_are_not() {
        let mut pacing = Pacing::default();
        assert_eq!(pacing.of_scope(&"a"), None);
        ask(&mut pacing, Some("a"), FAST).await;
        assert_eq!(pacing.of_scope(&"a"), Some(Instant::now() + APART));
        assert_eq!((pacing.of_scope(&"b"), pacing.of_any()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn while_upstream_waits_itself_all_wait_for_the_moment_at_which_it_does_not() {
        let mut pacing = Pacing::default();
        ask(&mut pacing, None, Duration::from_millis(90)).await;
        let slow = Instant::now();
        assert_eq!((pacing.of_any(), pacing.of_scope(&"a")), (Some(slow + APART), Some(slow + APART)));
        // What is asked then is fast; what is behind it would not be.
        advance(APART).await;
        ask(&mut pacing, Some("a"), FAST).await;
        assert_eq!(pacing.of_any(), Some(Instant::now() + APART));
        advance(LASTS).await;
        assert_eq!(pacing.of_any(), None, "it is looked at again whether upstream waits");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_an_upstream_that_is_slow_whenever_it_is_asked() {
        let mut pacing = Pacing::default();
        ask(&mut pacing, None, Duration::from_millis(60)).await;
        advance(APART).await;
        ask(&mut pacing, None, Duration::from_millis(60)).await;
        assert_eq!(pacing.of_any(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn scopes_that_nobody_asks_for_are_forgotten() {
        let mut pacing = Pacing::default();
        (0..KEPT).for_each(|scope| pacing.answered(Some(scope), Instant::now()));
        advance(APART).await;
        pacing.answered(Some(KEPT), Instant::now());
        assert_eq!(pacing.scopes.len(), 1);
    }
}
