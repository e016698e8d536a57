//! Lengths of time on the command line: a number and its unit. A number alone is refused, since nobody agrees on what it
//! would mean.

use std::time::Duration;

/// The longest: a day. Whoever wants more has mistaken the unit.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Reads `500ms`, `30s`, `5m` or `1h`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let milliseconds = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let length = milliseconds.and_then(|unit: u64| number.parse::<u64>().ok()?.checked_mul(unit));
    let length = length.ok_or("a length of time is a number with ms, s, m or h behind it, like 30s")?;
    let length = Duration::from_millis(length);
    if length > LONGEST { Err("more than a day".to_owned()) } else { Ok(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_unit_is_a_length() {
        for (text, seconds) in [("30s", 30.0), ("0s", 0.0), ("250ms", 0.25), ("5m", 300.0), ("24h", 86_400.0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "30", "s", "1.5s", "-1s", " 1s", "1s ", "1d", "25h", "99999999999999999999s"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
