//! How much of the processors the process has used: what the system counts for it, in user mode and in the kernel, over all
//! its threads. It does not grow while the process waits for a busy machine, so it says more than a clock does.

use std::fmt;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A part of one core.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Share(f64);

/// What the process has used so far.
pub fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}

// === impl Share ===

impl Share {
    /// So much processor time in so much time.
    pub fn of(used: Duration, within: Duration) -> Self {
        Self(used.as_secs_f64() / within.as_secs_f64())
    }

    /// What this is more than another.
    #[must_use]
    pub fn beyond(self, other: Self) -> Self {
        Self((self.0 - other.0).max(0.0))
    }

    /// Whether it is less than so many percent of a core.
    pub fn is_below(self, percent: f64) -> bool {
        self.0 * 100.0 < percent
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} %", self.0 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_counts() {
        let (before, mut sum) = (used(), 0_u64);
        while used() - before < Duration::from_millis(20) {
            sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
        }
        assert!(used() > before);
    }

    #[test]
    fn a_share_is_of_one_core() {
        let share = Share::of(Duration::from_millis(300), Duration::from_secs(2));
        assert_eq!(share.to_string(), "15.0 %");
        assert!(share.is_below(15.1) && !share.is_below(15.0));
        assert_eq!(share.beyond(Share::of(Duration::from_secs(1), Duration::from_secs(1))), Share(0.0));
    }
}
