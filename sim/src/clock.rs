//! The simulated time: a function of the revision, so that timestamps repeat under a seed.
//!
//! It has nothing to do with the time of day; nothing waits for it.

use weir_core::ResourceVersion;

/// 2026-01-01T00:00:00Z in seconds since 1970.
const START: u64 = 1_767_225_600;

/// A fast but plausible cluster: 20 writes a second.
const REVISIONS_PER_SECOND: u64 = 20;

/// The time at which a revision was written, as RFC 3339 text in seconds.
pub(crate) fn timestamp(rv: ResourceVersion) -> String {
    let seconds = START.saturating_add(rv.get() / REVISIONS_PER_SECOND);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z", second % 60)
}

/// Year, month and day of a day since 1970.
fn date(mut day: u64) -> (u64, u64, u64) {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(timestamp(ResourceVersion::ZERO), "2026-01-01T00:00:00Z");
        assert_eq!(timestamp(ResourceVersion::new(20 * (59 * 86_400 + 3_661))), "2026-03-01T01:01:01Z");
        assert_eq!(date(19_782), (2024, 2, 29));
        assert_eq!(date(20_819), (2027, 1, 1));
    }
}
