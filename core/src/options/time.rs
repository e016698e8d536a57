//! How long a request may last: `timeout` ends lists and gets, `timeoutSeconds` ends watches, and neither looks at the
//! other's requests. Negative values do not mean the same: a negative `timeout` is none, a negative `timeoutSeconds` is
//! over at once.

use std::time::Duration;

use crate::go_text::quote_in_time;
use crate::query::Query;
use crate::status::Status;

/// Why a text is not a duration in Go's notation; the text is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not numbers with units, or more than 64 bits of nanoseconds.
    #[error("time: invalid duration {}", quote_in_time(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quote_in_time(.0))]
    MissingUnit(String),
    /// A number with another unit than Go knows.
    #[error("time: unknown unit {} in duration {}", quote_in_time(unit), quote_in_time(text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// When a watch is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchTimeout {
    /// When the server likes: a random time from the shortest it is configured for to twice that.
    Unset,
    /// At once, before any event.
    Over,
    /// After this time, without a cap.
    After(Duration),
}

/// How long a request that is no watch may take: its `timeout`, or `most` where that is shorter or nothing is asked.
/// 400 for a `timeout` that cannot be read.
pub fn request_timeout(query: &Query, most: Duration) -> Result<Duration, Status> {
    let text = query.get("timeout").unwrap_or_default();
    if text.is_empty() {
        return Ok(most);
    }
    let nanoseconds = parse_nanoseconds(text).map_err(|error| {
        Status::bad_request(format!("invalid timeout specified in the request URL - {error}"))
    })?;
    let asked = u64::try_from(nanoseconds).unwrap_or_default();
    Ok(if asked == 0 { most } else { most.min(Duration::from_nanos(asked)) })
}

// === impl WatchTimeout ===

impl WatchTimeout {
    /// Reads `timeoutSeconds`. Upstream turns it into 64 bits of nanoseconds and lets it overflow.
    pub fn of(timeout_seconds: Option<i64>) -> Self {
        let nanoseconds = timeout_seconds.unwrap_or_default().wrapping_mul(1_000_000_000);
        match u64::try_from(nanoseconds) {
            Ok(0) => Self::Unset,
            Ok(nanoseconds) => Self::After(Duration::from_nanos(nanoseconds)),
            Err(_) => Self::Over,
        }
    }
}

/// Go's `time.ParseDuration`: an optional sign, then numbers with units, or a bare `0`.
fn parse_nanoseconds(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (part, after) = parse_part(rest, text)?;
        total = total.checked_add(part).filter(|total| *total <= 1 << 63).ok_or_else(invalid)?;
        rest = after;
    }
    if is_negative {
        Ok(0i64.wrapping_sub_unsigned(total))
    } else {
        i64::try_from(total).map_err(|_| invalid())
    }
}

/// The nanoseconds of one number with its unit, and what follows it.
fn parse_part<'a>(part: &'a str, text: &str) -> Result<(u64, &'a str), DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (whole, rest) = split_digits(part);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), split_digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    if whole > 1 << 63 {
        return Err(invalid());
    }
    let (unit, after) =
        rest.split_at(rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len()));
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(text.to_owned()));
    }
    let scale = nanoseconds_of(unit)
        .ok_or_else(|| DurationError::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() })?;
    let nanoseconds = whole.checked_mul(scale).and_then(|n| n.checked_add(fraction_of(fraction, scale)));
    nanoseconds.filter(|n| *n <= 1 << 63).map(|n| (n, after)).ok_or_else(invalid)
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// The nanoseconds of the digits behind a point. The 19th digit and those after it are too small to count.
fn fraction_of(digits: &str, scale: u64) -> u64 {
    let (mut sum, mut divisor) = (0, 1);
    for digit in digits.bytes().take(18) {
        sum = sum * 10 + u128::from(digit - b'0');
        divisor *= 10;
    }
    u64::try_from(sum * u128::from(scale) / divisor).expect("a fraction of an hour is less than an hour")
}

fn nanoseconds_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}
