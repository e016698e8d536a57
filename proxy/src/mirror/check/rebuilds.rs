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
    apart: Duration,
}

// === impl Rebuilds ===

impl Rebuilds {
    pub(super) fn new() -> Self {
        Self { last: None, apart: FIRST_APART }
    }

    /// Whether it may be built anew now; if so, that counts as done.
    pub(super) fn take(&mut self) -> bool {
        let now = Instant::now();
        if let Some(last) = self.last {
            let since = now.duration_since(last);
            if since < self.apart {
                return false;
            }
            self.apart = if since >= LONGEST_APART { FIRST_APART } else { LONGEST_APART.min(self.apart * 2) };
        }
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_fails_again_and_again_is_repaired_ever_more_seldom() {
        let mut rebuilds = Rebuilds::new();
        let (mut minutes, minute) = (Vec::new(), Duration::from_secs(60));
        for passed in 0..300 {
            if rebuilds.take() {
                minutes.push(passed);
            }
            tokio::time::advance(minute).await;
        }
        assert_eq!(
            minutes,
            [
                0, 1, 3, 7, 15, 31, 91, 92, 94, 98, 106, 122, 182, 183, 185, 189, 197, 213, 273, 274, 276,
                280, 288
            ]
        );
    }
}
