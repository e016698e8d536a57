//! How much memory the process has: what the system counts as resident, and what the allocator has handed out. The two
//! differ by what the allocator rounds up and holds back, which is why a bound looks at both.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tikv_jemalloc_ctl::{epoch, stats};

/// How often settling looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Looks without a fall that count as settled; the allocator gives back within a second.
const CALM_LOOKS: usize = 8;
/// Settling ends after so many looks, settled or not: 15 s.
const MAX_LOOKS: usize = 60;

/// The memory of the process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident bytes, as the system counts them.
    pub rss: usize,
    /// Bytes that the allocator has handed out, rounded up to its size classes.
    pub heap: usize,
}

/// Bytes, for a person.
#[derive(Clone, Copy, Debug)]
pub struct Mega(pub usize);

// === impl Memory ===

impl Memory {
    /// The present.
    pub fn now() -> Result<Self> {
        let rollup =
            std::fs::read_to_string("/proc/self/smaps_rollup").context("read /proc/self/smaps_rollup")?;
        epoch::advance().context("ask the allocator for new figures")?;
        let heap = stats::allocated::read().context("read the allocator's figures")?;
        Ok(Self { rss: rss_of(&rollup).context("Rss in /proc/self/smaps_rollup")?, heap })
    }

    /// The present, once the allocator has given back what it does not need.
    pub async fn settled() -> Result<Self> {
        let (mut lowest, mut calm) = (Self::now()?, 0);
        for _ in 0..MAX_LOOKS {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = Self::now()?;
            calm = if now.rss + (now.rss >> 8) < lowest.rss { 0 } else { calm + 1 };
            lowest = Self { rss: lowest.rss.min(now.rss), heap: now.heap };
            if calm == CALM_LOOKS {
                break;
            }
        }
        Ok(lowest)
    }

    /// What was added since.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { rss: self.rss.saturating_sub(before.rss), heap: self.heap.saturating_sub(before.heap) }
    }
}

fn rss_of(rollup: &str) -> Option<usize> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

impl fmt::Display for Mega {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB", self.0 as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_kernel_writes() {
        let rollup = "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:                1732 kB\nPss:  594 kB\n";
        assert_eq!(rss_of(rollup), Some(1_732 << 10));
        assert_eq!(rss_of("Pss: 594 kB\n"), None);
    }
}
