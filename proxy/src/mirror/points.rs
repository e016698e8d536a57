//! How many single objects of a namespace upstream is asked for. To look one object up costs upstream less than anything else;
//! but a namespace whose objects are asked for by the hundred is better listed once for all of them, and then not one of them is
//! asked for by its name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How far apart callers are at least of whom each is asked for by its own, in the long run, and how many may come sooner.
const APART: Duration = Duration::from_millis(200);
const AT_ONCE: u32 = 5;
/// Namespaces that cost nothing now are forgotten when there are more than so many.
const KEPT: usize = 1_024;

/// What was asked for of late, by namespace.
#[derive(Debug, Default)]
pub struct Points(Mutex<HashMap<Option<Arc<str>>, Instant>>);

// === impl Points ===

impl Points {
    /// Whether the object of one more caller is to be asked for by its name. Every caller counts, so a namespace that has more of
    /// them has none.
    pub fn take(&self, namespace: Option<&Arc<str>>) -> bool {
        let now = Instant::now();
        let mut paid = self.0.lock();
        if paid.len() >= KEPT {
            paid.retain(|_, until| *until > now);
        }
        let until = paid.entry(namespace.cloned()).or_insert(now);
        let may_take = *until <= now + APART * (AT_ONCE - 1);
        *until = ((*until).max(now) + APART).min(now + APART * AT_ONCE);
        may_take
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn five_at_once_and_five_a_second_of_a_namespace_that_has_no_more_callers() {
        let points = Points::default();
        let (one, two) = (Arc::from("one"), Arc::from("two"));
        let taken = async |namespace, callers, apart| {
            let mut taken = 0;
            for _ in 0..callers {
                taken += usize::from(points.take(Some(namespace)));
                advance(apart).await;
            }
            taken
        };
        assert_eq!((taken(&one, 20, Duration::ZERO).await, taken(&two, 20, Duration::ZERO).await), (5, 5));
        assert_eq!(taken(&one, 100, Duration::from_millis(50)).await, 0, "more callers than that");
        assert_eq!(taken(&one, 100, APART).await, 99, "as many as that");
    }
}
