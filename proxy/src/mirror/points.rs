//! How many single objects of a namespace upstream is asked for. To look one object up costs upstream less than anything else;
//! but a namespace whose objects are asked for by the hundred is better listed once for all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How far apart they are in the long run, and how many may come sooner.
const APART: Duration = Duration::from_millis(200);
const AT_ONCE: u32 = 5;
/// Namespaces that cost nothing now are forgotten when there are more than so many.
const KEPT: usize = 1_024;

/// What was asked for of late, by namespace.
#[derive(Debug, Default)]
pub struct Points(Mutex<HashMap<Option<Arc<str>>, Instant>>);

// === impl Points ===

impl Points {
    /// Whether one more may be asked for now, which counts if it may.
    pub fn take(&self, namespace: Option<&Arc<str>>) -> bool {
        let now = Instant::now();
        let mut paid = self.0.lock();
        if paid.len() >= KEPT {
            paid.retain(|_, until| *until > now);
        }
        let until = paid.entry(namespace.cloned()).or_insert(now);
        if *until > now + APART * (AT_ONCE - 1) {
            return false;
        }
        *until = (*until).max(now) + APART;
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn five_at_once_and_five_a_second_of_each_namespace() {
        let points = Points::default();
        let (one, two) = (Arc::from("one"), Arc::from("two"));
        let taken = |namespace| (0..20).filter(|_| points.take(Some(namespace))).count();
        assert_eq!((taken(&one), taken(&two)), (5, 5));
        let mut more = 0;
        for _ in 0..100 {
            advance(Duration::from_millis(100)).await;
            more += taken(&one);
        }
        assert_eq!(more, 50);
    }
}
