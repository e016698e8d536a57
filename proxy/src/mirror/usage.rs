//! Who uses a mirror, and how long nobody has. A request uses it from its beginning to the end of its answer, so an open watch
//! or a list that is read slowly does for hours.
//!
//! A mirror that nobody uses is over in the same step in which that is found out: a request comes before it and keeps the
//! mirror, or after it and starts another.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Who uses a mirror.
#[derive(Debug)]
pub struct Usage {
    state: Mutex<State>,
    over: CancellationToken,
}

#[derive(Debug)]
struct State {
    users: usize,
    /// When the last one came or went.
    changed: Instant,
    is_over: bool,
}

/// One user; the mirror is not idle as long as it lives.
#[derive(Debug)]
pub struct InUse(Arc<Usage>);

// === impl Usage ===

impl Usage {
    /// Of a mirror that begins.
    pub fn new() -> Self {
        let state = State { users: 0, changed: Instant::now(), is_over: false };
        Self { state: Mutex::new(state), over: CancellationToken::new() }
    }

    /// Another user; `None` if the mirror is over.
    pub fn begin(self: &Arc<Self>) -> Option<InUse> {
        let mut state = self.state.lock();
        if state.is_over {
            return None;
        }
        state.users += 1;
        state.changed = Instant::now();
        Some(InUse(self.clone()))
    }

    /// Since when nobody uses it; `None` while somebody does.
    pub fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.users == 0).then_some(state.changed)
    }

    /// Resolves when the mirror is over, also because nobody has used it for so long.
    pub async fn idle_for(&self, limit: Option<Duration>) {
        let Some(limit) = limit else { return self.over.cancelled().await };
        while let Some(left) = self.left(limit) {
            tokio::select! {
                () = self.over.cancelled() => return,
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// Ends it, whoever uses it.
    pub fn end(&self) {
        self.state.lock().is_over = true;
        self.over.cancel();
    }

    /// Ends it if nobody uses it. Whether it did.
    pub fn end_if_unused(&self) -> bool {
        let mut state = self.state.lock();
        if state.users > 0 || state.is_over {
            return false;
        }
        state.is_over = true;
        drop(state);
        self.over.cancel();
        true
    }

    /// How long it cannot come to the limit; `None` when it has, which ends it.
    fn left(&self, limit: Duration) -> Option<Duration> {
        let mut state = self.state.lock();
        if state.users > 0 {
            return Some(limit.max(Duration::from_millis(1)));
        }
        let left = limit.saturating_sub(state.changed.elapsed());
        if left.is_zero() {
            state.is_over = true;
            self.over.cancel();
        }
        (!left.is_zero()).then_some(left)
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self::new()
    }
}

// === impl InUse ===

impl Clone for InUse {
    fn clone(&self) -> Self {
        // Whoever holds one may have another, also of a mirror that is over.
        self.0.state.lock().users += 1;
        Self(self.0.clone())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.users -= 1;
        state.changed = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(900);

    #[tokio::test(start_paused = true)]
    async fn a_mirror_is_over_when_nobody_has_used_it_for_so_long() {
        let (usage, began) = (Arc::new(Usage::new()), Instant::now());
        let first = usage.begin().unwrap();
        let used = async {
            tokio::time::sleep(2 * LIMIT).await;
            let second = first.clone();
            drop(first);
            tokio::time::sleep(LIMIT / 2).await;
            assert!(usage.idle_since().is_none() && !usage.over.is_cancelled(), "the second uses it");
            drop(second);
            tokio::time::sleep(LIMIT / 2).await;
            drop(usage.begin().unwrap());
        };
        tokio::join!(usage.idle_for(Some(LIMIT)), used);
        assert_eq!(began.elapsed(), 2 * LIMIT + LIMIT / 2 + LIMIT / 2 + LIMIT);
        assert!(usage.begin().is_none(), "nobody begins to use what is over");
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_in_use_ends_when_it_is_told_to_and_not_for_being_unused() {
        let usage = Arc::new(Usage::new());
        let user = usage.begin().unwrap();
        assert!(!usage.end_if_unused());
        drop(user);
        assert!(usage.end_if_unused() && usage.begin().is_none());
        let usage = Arc::new(Usage::new());
        let user = usage.begin().unwrap();
        usage.end();
        assert!(usage.begin().is_none());
        drop(user);
    }
}
