//! How often a mirror may be built anew because a check has failed. It costs upstream a list and every client one, so what fails
//! again and again, which a list does not help, is repaired ever more seldom.

use std::time::Duration;

use tokio::time::Instant;

/// The least time between the first two.
const FIRST_APART: Duration = Duration::from_secs(60);
/// The longest; after so long without a failure it begins anew.
const LONGEST_APART: Duration = Duration::from_secs(3_600);

/// When a mirror was built anew last, and how long it has to be left after that.
#[derive(Debug)]
pub(super) struct Rebuilds {
    last: Option<Instant>,
    failed: Option<Instant>,
    apart: Duration,
}

// === impl Rebuilds ===

impl Rebuilds {
    pub(super) fn new() -> Self {
        Self { last: None, failed: None, apart: FIRST_APART }
    }

    /// A check has failed. Whether the mirror may be built anew now; if so, that counts as done.
    pub(super) fn take(&mut self) -> bool {
        let now = Instant::now();
        let since = |then: Option<Instant>| then.map(|then| now.duration_since(then));
        let failed_before = since(self.failed.replace(now));
        if failed_before.is_none_or(|before| before >= LONGEST_APART) {
            self.apart = FIRST_APART;
        } else if since(self.last).is_some_and(|rebuilt| rebuilt < self.apart) {
            return false;
        } else {
            self.apart = LONGEST_APART.min(self.apart * 2);
        }
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// The minutes in which a mirror is built anew that fails every minute.
    async fn rebuilt(rebuilds: &mut Rebuilds, minutes: u32) -> Vec<u32> {
        let mut rebuilt = Vec::new();
        for minute in 0..minutes {
            if rebuilds.take() {
                rebuilt.push(minute);
            }
            tokio::time::advance(MINUTE).await;
        }
        rebuilt
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_again_and_again_is_repaired_ever_more_seldom() {
        let mut rebuilds = Rebuilds::new();
        assert_eq!(rebuilt(&mut rebuilds, 250).await, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
        tokio::time::advance(LONGEST_APART).await;
        assert_eq!(rebuilt(&mut rebuilds, 6).await, [0, 1, 3], "an hour without a failure");
    }
}
