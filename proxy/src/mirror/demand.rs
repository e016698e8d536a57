//! When a mirror saves something. Reading a collection for one list, and watching it for a while after, costs upstream more
//! than the list; so a lone list is upstream's, and the second one within a minute begins a mirror. So does whatever else
//! will be followed by more: a watch, and a page behind the first one.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_core::GroupVersionResource;

/// How far two lists may be apart.
const APART: Duration = Duration::from_secs(60);

/// Kinds of which the last list is remembered: some times as many as a cluster has, 200 bytes each. Beyond, all are forgotten
/// and every list is a lone one again.
const MAX_KINDS: usize = 4_096;

/// The last lone list of each kind.
#[derive(Debug, Default)]
pub(super) struct Demand(Mutex<HashMap<GroupVersionResource, Instant>>);

// === impl Demand ===

impl Demand {
    /// Takes note of a list. Whether it is one of several.
    pub(super) fn list(&self, resource: &GroupVersionResource) -> bool {
        let now = Instant::now();
        let mut last = self.0.lock();
        let is_known = last.contains_key(resource);
        if !is_known && last.len() >= MAX_KINDS {
            last.retain(|_, at| now.duration_since(*at) <= APART);
            if last.len() >= MAX_KINDS {
                last.clear();
            }
        }
        let before = last.insert(resource.clone(), now);
        before.is_some_and(|before| now.duration_since(before) <= APART)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(number: usize) -> GroupVersionResource {
        GroupVersionResource::new("", "v1", &format!("kind{number}"))
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_list_of_a_kind_within_a_minute_is_one_of_several() {
        let demand = Demand::default();
        assert!(!demand.list(&kind(1)) && !demand.list(&kind(2)));
        tokio::time::advance(APART).await;
        assert!(demand.list(&kind(1)));
        tokio::time::advance(APART + Duration::from_secs(1)).await;
        assert!(!demand.list(&kind(1)), "lone again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let demand = Demand::default();
        for number in 0..3 * MAX_KINDS {
            demand.list(&kind(number));
            assert!(demand.0.lock().len() <= MAX_KINDS);
        }
        assert!(demand.list(&kind(3 * MAX_KINDS - 1)), "the last ones are known");
    }
}
