//! So many questions a second, of which one second's may be asked at once: a change of rights that names a few watches is
//! looked at at once, and a constant stream of changes costs no more than the rate.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::time::Instant;

/// How much may be saved up.
const AHEAD: Duration = Duration::from_secs(1);

/// What may still be asked.
#[derive(Debug)]
pub(super) struct Budget {
    spacing: Duration,
    /// When all that was asked is paid for.
    paid: Instant,
}

// === impl Budget ===

impl Budget {
    /// So many a second.
    pub(super) fn new(rate: NonZeroU32, now: Instant) -> Self {
        Self { spacing: AHEAD / rate.get(), paid: now }
    }

    /// Until when nothing may be asked; `None` if something may now.
    pub(super) fn exhausted(&self, now: Instant) -> Option<Instant> {
        // Room for one more is as good as room for all of it.
        let earliest = self.paid + self.spacing;
        earliest.checked_sub(AHEAD).filter(|earliest| *earliest > now)
    }

    /// Pays for questions; more than there is room for is owed.
    pub(super) fn spend(&mut self, questions: u32, now: Instant) {
        self.paid = self.paid.max(now) + self.spacing * questions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many questions are asked by then, if as many as may be are.
    fn asked(budget: &mut Budget, (from, length): (Instant, Duration)) -> u32 {
        let (mut count, mut now) = (0, from);
        while now < from + length {
            match budget.exhausted(now) {
                Some(until) => now = until,
                None => {
                    budget.spend(1, now);
                    count += 1;
                }
            }
        }
        count
    }

    #[test]
    fn a_second_may_be_spent_at_once_and_the_rate_is_kept() {
        let start = Instant::now();
        let mut budget = Budget::new(NonZeroU32::new(20).unwrap(), start);
        assert_eq!(asked(&mut budget, (start, Duration::from_millis(1))), 20);
        let mut budget = Budget::new(NonZeroU32::new(20).unwrap(), start);
        assert_eq!(asked(&mut budget, (start, Duration::from_secs(10))), 20 + 200 - 1);
    }

    #[test]
    fn what_is_owed_is_paid_before_anything_else_is_asked() {
        let start = Instant::now();
        let mut budget = Budget::new(NonZeroU32::new(1).unwrap(), start);
        budget.spend(2, start);
        assert_eq!(budget.exhausted(start), Some(start + Duration::from_secs(2)));
    }
}
