//! How many single objects of a namespace upstream is asked for. To look one object up costs upstream less than anything else;
//! but a namespace whose objects are asked for by the hundred is better listed once for all of them, and then not one of them is
//! asked for by its name.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::bucket::{Allowance, Bucket};
use crate::known::Known;

/// How many callers in the long run, and how many at once.
const ALLOWED: Allowance = Allowance { a_second: 5, at_once: 5 };
/// Callers who find less than nothing left are not counted, so a namespace has callers again soon after a crowd.
const ONE: Duration = Duration::from_millis(200);
/// Namespaces of which it is known how many there were.
const KEPT: usize = 1_024;

/// Who asked of late, by namespace.
#[derive(Debug)]
pub struct Points(Mutex<Known<Option<Arc<str>>, Bucket>>);

// === impl Points ===

impl Points {
    /// Whether the object of one more caller is to be asked for by its name. Those who may not count too, so a namespace that has
    /// more of them has none.
    pub fn take(&self, namespace: Option<&Arc<str>>) -> bool {
        let now = Instant::now();
        let mut known = self.0.lock();
        let left = known.get_or_insert(namespace.cloned(), || Bucket::full(ALLOWED, now));
        let wait = left.wait(now);
        if wait.is_none_or(|wait| wait <= ONE) {
            left.take(1, now);
        }
        wait.is_none()
    }
}

impl Default for Points {
    fn default() -> Self {
        Self(Mutex::new(Known::new(KEPT)))
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
        let fewer = taken(&one, 100, Duration::from_millis(250)).await;
        assert!(fewer >= 90, "{fewer} of 100 when there are fewer again");
    }
}
