//! Which feeds failed lately: they are left alone for a little while, and those that stood still come last.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use weir_daemon::members::NodeAddress;

const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// What came of trying nodes as feeds.
#[derive(Debug, Default)]
pub(super) struct Trials(HashMap<NodeAddress, Trial>);

#[derive(Debug, Default)]
struct Trial {
    wait: Duration,
    not_before: Option<Instant>,
    last_until: Option<Instant>,
}

// === impl Trials ===

impl Trials {
    /// It could not be reached, or refused, or its stream came to nothing. Returns how long it is left alone.
    pub(super) fn failed(&mut self, address: &NodeAddress) -> Duration {
        let trial = self.0.entry(address.clone()).or_default();
        trial.wait = (trial.wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
        trial.not_before = Some(Instant::now() + trial.wait);
        trial.wait
    }

    /// It led on.
    pub(super) fn succeeded(&mut self, address: &NodeAddress) {
        if let Some(trial) = self.0.get_mut(address) {
            (trial.wait, trial.not_before) = (Duration::ZERO, None);
        }
    }

    /// It stood still while others went on.
    pub(super) fn suspend(&mut self, address: &NodeAddress, how_long: Duration) {
        self.0.entry(address.clone()).or_default().last_until = Some(Instant::now() + how_long);
    }

    /// Whether it may be tried now.
    pub(super) fn is_due(&self, address: &NodeAddress) -> bool {
        let not_before = self.0.get(address).and_then(|trial| trial.not_before);
        not_before.is_none_or(|not_before| Instant::now() >= not_before)
    }

    /// Whether it comes last.
    pub(super) fn is_suspended(&self, address: &NodeAddress) -> bool {
        let until = self.0.get(address).and_then(|trial| trial.last_until);
        until.is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_double_up_to_a_bound_and_end_with_success() {
        let address: NodeAddress = "127.0.0.1:1".parse().unwrap();
        let mut trials = Trials::default();
        assert!(trials.is_due(&address));
        let waits: Vec<_> = (0..8).map(|_| trials.failed(&address).as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
        assert!(!trials.is_due(&address));
        tokio::time::advance(LONGEST_WAIT).await;
        assert!(trials.is_due(&address));
        trials.succeeded(&address);
        assert_eq!(trials.failed(&address), FIRST_WAIT);
    }

    #[tokio::test(start_paused = true)]
    async fn who_stood_still_may_be_tried_but_comes_last() {
        let address: NodeAddress = "127.0.0.1:1".parse().unwrap();
        let mut trials = Trials::default();
        trials.suspend(&address, Duration::from_secs(60));
        assert!(trials.is_due(&address) && trials.is_suspended(&address));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!trials.is_suspended(&address));
    }
}
