//! The rows that the measurements print. A bound in bytes or counts must hold on any machine; a bound in time is said to
//! be missed, which fails nothing, since it also tells of the machine.

use std::io::Write as _;

use anyhow::Result;

/// The table of one measurement.
#[derive(Debug, Default)]
pub struct Table {
    broken: usize,
}

/// How a figure stands to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within it.
    Holds,
    /// Beyond a bound that does not depend on the machine.
    Broken,
    /// Beyond a bound in time.
    Missed,
}

/// Sorted durations or counts, asked for by rank.
#[derive(Clone, Debug)]
pub struct Ranks(Vec<u64>);

// === impl Table ===

impl Table {
    /// Prints the head.
    pub fn new(title: &str) -> Result<Self> {
        print(&format!("\n**{title}**\n\n| figure | measured | bound | |\n|---|---|---|---|"))?;
        Ok(Self::default())
    }

    /// A figure without a bound.
    pub fn figure(&mut self, what: &str, measured: &str) -> Result<()> {
        print(&format!("| {what} | {measured} | | |"))
    }

    /// A figure beside its bound.
    pub fn bound(&mut self, what: &str, (measured, bound): (&str, &str), verdict: Verdict) -> Result<()> {
        let word = match verdict {
            Verdict::Holds => "holds",
            Verdict::Broken => "**broken**",
            Verdict::Missed => "missed",
        };
        self.broken += usize::from(verdict == Verdict::Broken);
        print(&format!("| {what} | {measured} | {bound} | {word} |"))
    }

    /// Whether no bound was broken.
    pub fn holds(&self) -> bool {
        self.broken == 0
    }
}

// === impl Verdict ===

impl Verdict {
    /// Of a bound in bytes or counts.
    pub fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Broken }
    }

    /// Of a bound in time.
    pub fn of_timing(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Missed }
    }
}

// === impl Ranks ===

impl Ranks {
    /// Of these values.
    pub fn new(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        Self(values)
    }

    /// The value that so many percent do not exceed; 0 without any.
    pub fn percentile(&self, percent: usize) -> u64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((self.0.len() * percent / 100).min(last)).copied().unwrap_or_default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The answer of the program to its caller.
fn print(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_of_the_sorted_values() {
        let ranks = Ranks::new((0..1_000).rev().collect());
        assert_eq!((ranks.percentile(50), ranks.percentile(99), ranks.percentile(100)), (500, 990, 999));
        assert_eq!(Ranks::new(Vec::new()).percentile(99), 0);
    }
}
