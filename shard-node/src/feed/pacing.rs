//! When upstream is asked. One question of a kind at a time is not enough of a bound: callers of one namespace may come by the
//! hundred each second, and those who come soon one after the other are to share a question. A scope whose answers take long is left
//! alone for as long, so at most half of the time is spent on it however much there is to do; and where many scopes are asked for at
//! once, they take turns.
//!
//! Where other kinds are written meanwhile, upstream cannot answer before its storage has said how far it is. It asks that ten
//! times a second while somebody waits, and at once when nobody has for that long. So a question right behind an answer is
//! answered after 100 ms, and one that comes 100 ms later is answered at once: at the same moment, and for everyone who came
//! meanwhile. Questions that wait for that do so here, together.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;
use weir_core::ResourceVersion;

/// How far upstream's questions to its storage are apart.
const APART: Duration = Duration::from_millis(100);
/// An answer that takes so much longer than the fastest has waited for one of them.
const SLOW: Duration = Duration::from_millis(25);
/// One that takes so much longer although it was asked at the right time shows that this time was not the right one.
const IN_VAIN: Duration = Duration::from_millis(80);
/// For how long the next ones will too, if anything is written, or it is known that waiting does not help. Those that are asked at
/// the right time are fast and tell nothing.
const LASTS: Duration = Duration::from_secs(60);
/// Writes that are expected since upstream asked its storage, from which on it would have to ask again. An answer is as old as
/// `OLD` when it is here.
const TOO_MANY: f64 = 0.3;
const OLD: Duration = Duration::from_millis(5);
/// Scopes that are asked for within that time. Those that are left over come next, in their order.
const AT_ONCE: usize = 24;
/// Scopes that may be asked for again are forgotten when there are more than so many.
const KEPT: usize = 1_024;

/// When questions were answered.
#[derive(Debug)]
pub(super) struct Pacing<K> {
    /// From when on each scope may be asked for again.
    scopes: HashMap<K, Instant>,
    /// When upstream asked its storage last, as far as answers show.
    storage_asked: Option<Instant>,
    /// When the scopes whose turn it is began to be asked for, and how many were.
    turn: Option<(Instant, usize)>,
    last_slow: Option<Instant>,
    /// When waiting was last in vain.
    last_vain: Option<Instant>,
    /// What the fastest answer took: the way to upstream and back.
    fastest: Option<Duration>,
    writes: Writes,
}

/// How fast upstream's revision grows.
#[derive(Debug, Default)]
struct Writes {
    last: Option<(ResourceVersion, Instant)>,
    a_second: f64,
}

// === impl Pacing ===

impl<K> Default for Pacing<K> {
    fn default() -> Self {
        let (scopes, writes, last_vain, fastest) = Default::default();
        Self { scopes, storage_asked: None, turn: None, last_slow: None, last_vain, fastest, writes }
    }
}

impl<K: Eq + Hash> Pacing<K> {
    /// When a scope may be asked for. It may be past; `None` for at any time.
    pub(super) fn of_scope(&self, scope: &K) -> Option<Instant> {
        self.of_same(scope).max(self.of_any()).max(self.next_turn())
    }

    /// A scope is asked for now.
    pub(super) fn asked_for_scope(&mut self) {
        self.turn = Some(match self.turn {
            Some((began, asked)) if began.elapsed() < APART => (began, asked + 1),
            _ => (Instant::now(), 1),
        });
    }

    /// When it is the turn of other scopes, if as many were asked for as may be at once.
    fn next_turn(&self) -> Option<Instant> {
        let (began, _) = self.turn.filter(|(_, asked)| *asked >= AT_ONCE)?;
        Some(began + APART)
    }

    /// The same for who waits for nobody but those who ask the same.
    pub(super) fn of_same(&self, scope: &K) -> Option<Instant> {
        self.scopes.get(scope).copied()
    }

    /// When anything may be asked. Where nothing was written since upstream asked its storage, it need not ask again.
    pub(super) fn of_any(&self) -> Option<Instant> {
        self.last_slow.filter(|slow| slow.elapsed() < LASTS)?;
        if self.last_vain.is_some_and(|vain| vain.elapsed() < LASTS) {
            return None;
        }
        let asked = self.storage_asked?;
        (self.writes.expected_in(asked.elapsed() + OLD) >= TOO_MANY).then(|| asked + APART)
    }

    /// A question was answered that was asked at `since`, of a scope or of none.
    pub(super) fn answered(&mut self, scope: Option<K>, (since, revision): (Instant, ResourceVersion)) {
        let now = Instant::now();
        let took = now - since;
        let fastest = *self.fastest.insert(self.fastest.unwrap_or(took).min(took));
        let is_slow = took >= fastest + SLOW;
        // At the right time and slow all the same: upstream has other reasons, and waiting here does not help.
        let was_in_vain =
            took >= fastest + IN_VAIN && self.of_any().is_some_and(|right_time| since >= right_time);
        if was_in_vain {
            self.last_vain = Some(now);
        } else if is_slow {
            self.last_slow = Some(now);
        }
        // A slow one waited for this, a fast one made upstream do it.
        self.storage_asked = Some(if is_slow { now } else { since });
        self.writes.seen(revision, now);
        if let Some(scope) = scope {
            self.left(scope, since);
        }
    }

    /// A scope was answered that was asked for at `since`; how soon tells nothing of others.
    pub(super) fn left(&mut self, scope: K, since: Instant) {
        let now = Instant::now();
        if self.scopes.len() >= KEPT {
            self.scopes.retain(|_, due| *due > now);
        }
        let took = now - since;
        let due = if took < SLOW { since + APART } else { now + APART.max(took) };
        self.scopes.insert(scope, due);
    }
}

// === impl Writes ===

impl Writes {
    fn seen(&mut self, revision: ResourceVersion, now: Instant) {
        let Some((before, at)) = self.last else {
            self.last = Some((revision, now));
            return;
        };
        let elapsed = now - at;
        // Answers that come together say nothing of a rate.
        if elapsed >= APART / 2 {
            self.a_second = revision.get().saturating_sub(before.get()) as f64 / elapsed.as_secs_f64();
            self.last = Some((revision, now));
        }
    }

    fn expected_in(&self, time: Duration) -> f64 {
        self.a_second * time.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const FAST: Duration = Duration::from_millis(3);

    /// An upstream that is written to so many times a second.
    struct Upstream {
        pacing: Pacing<&'static str>,
        began: Instant,
        writes_a_second: u64,
    }

    // === impl Upstream ===

    impl Upstream {
        fn new(writes_a_second: u64) -> Self {
            Self { pacing: Pacing::default(), began: Instant::now(), writes_a_second }
        }

        /// A question that takes so long.
        async fn ask(&mut self, scope: Option<&'static str>, takes: Duration) {
            let since = Instant::now();
            advance(takes).await;
            let written = self.began.elapsed().as_millis() as u64 * self.writes_a_second / 1_000;
            self.pacing.answered(scope, (since, ResourceVersion::new(1 + written)));
        }

        /// One that was kept waiting, after another one a second ago.
        async fn shown_to_wait(writes_a_second: u64) -> Self {
            let mut upstream = Self::new(writes_a_second);
            upstream.ask(None, FAST).await;
            advance(Duration::from_secs(1)).await;
            upstream.ask(None, Duration::from_millis(90)).await;
            upstream
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_scope_is_left_alone_behind_a_question_and_others_are_not() {
        let mut upstream = Upstream::new(0);
        assert_eq!(upstream.pacing.of_scope(&"a"), None);
        let asked = Instant::now();
        upstream.ask(Some("a"), FAST).await;
        assert_eq!(upstream.pacing.of_scope(&"a"), Some(asked + APART));
        assert_eq!((upstream.pacing.of_scope(&"b"), upstream.pacing.of_any()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_scope_that_takes_long_is_left_alone_as_long() {
        let mut upstream = Upstream::new(0);
        let long = Duration::from_millis(700);
        upstream.ask(Some("a"), long).await;
        assert_eq!(upstream.pacing.of_same(&"a"), Some(Instant::now() + long));
    }

    #[tokio::test(start_paused = true)]
    async fn while_upstream_waits_itself_all_wait_for_the_moment_at_which_it_does_not() {
        let mut upstream = Upstream::shown_to_wait(100).await;
        let right_time = Some(Instant::now() + APART);
        assert_eq!((upstream.pacing.of_any(), upstream.pacing.of_scope(&"a")), (right_time, right_time));
        // What is asked then is fast; what is behind it would not be.
        advance(APART).await;
        let asked = Instant::now();
        upstream.ask(Some("a"), FAST).await;
        assert_eq!(upstream.pacing.of_any(), Some(asked + APART));
        advance(LASTS).await;
        assert_eq!(upstream.pacing.of_any(), None, "it is looked at again whether upstream waits");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_where_nothing_is_written_meanwhile() {
        let upstream = Upstream::shown_to_wait(2).await;
        advance(Duration::from_millis(25)).await;
        assert_eq!(upstream.pacing.of_any(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_an_upstream_that_is_slow_whenever_it_is_asked() {
        let mut upstream = Upstream::shown_to_wait(100).await;
        advance(APART).await;
        for _ in 0..5 {
            upstream.ask(None, Duration::from_millis(90)).await;
            assert_eq!(upstream.pacing.of_any(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_an_upstream_that_is_far_away() {
        let mut upstream = Upstream::new(100);
        for _ in 0..5 {
            upstream.ask(None, Duration::from_millis(60)).await;
            assert_eq!(upstream.pacing.of_any(), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_scopes_take_turns() {
        let mut pacing = Pacing::default();
        let began = Instant::now();
        for scope in 0..AT_ONCE {
            assert!(pacing.of_scope(&scope).is_none_or(|due| due <= Instant::now()), "{scope}");
            pacing.asked_for_scope();
        }
        assert_eq!(pacing.of_scope(&AT_ONCE), Some(began + APART));
        advance(APART).await;
        assert!(pacing.of_scope(&AT_ONCE).is_none_or(|due| due <= Instant::now()));
        pacing.asked_for_scope();
        assert!(pacing.of_scope(&0).is_none_or(|due| due <= Instant::now()), "a new turn");
    }

    #[tokio::test(start_paused = true)]
    async fn scopes_that_nobody_asks_for_are_forgotten() {
        let mut pacing = Pacing::default();
        let now = || (Instant::now(), ResourceVersion::new(1));
        (0..KEPT).for_each(|scope| pacing.answered(Some(scope), now()));
        advance(APART).await;
        pacing.answered(Some(KEPT), now());
        assert_eq!(pacing.scopes.len(), 1);
    }
}
