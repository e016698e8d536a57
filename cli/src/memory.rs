//! The memory limit on the command line, and the task that keeps it. A limit that is not given is taken from the control group
//! of the process, with room for what is not counted: connections, and what the allocator keeps.

use std::sync::Arc;

use tokio::time::Instant;
use weir_daemon::{Lifecycle, limits};
use weir_shard_node::memory::{Admission, CHECK_EVERY, Holder, Keeper, MemoryMetrics};

use crate::process::Process;

/// The part of the control group's limit that mirrors may hold, in percent.
const PART: u64 = 80;

/// Reads `2Gi`, `512Mi`, `1G` or a number of bytes.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit: Option<u64> = match unit {
        "" => Some(1),
        "Ki" => Some(1 << 10),
        "Mi" => Some(1 << 20),
        "Gi" => Some(1 << 30),
        "Ti" => Some(1 << 40),
        "k" => Some(1_000),
        "M" => Some(1_000_000),
        "G" => Some(1_000_000_000),
        _ => None,
    };
    let bytes =
        unit.and_then(|unit| number.parse::<u64>().ok()?.checked_mul(unit)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| {
        "memory is a number of bytes, or one with Ki, Mi, Gi, k, M or G behind it, like 2Gi".to_owned()
    })
}

/// The limit that holds: what is given, or a part of what the process may take.
fn limit(given: Option<u64>, group: Option<u64>) -> Option<u64> {
    given.or_else(|| group.map(|bytes| bytes / 100 * PART))
}

/// Keeps what a process holds below its limit, if it has one. `started` is the zero of its shards' clock.
pub(crate) fn keep<H: Holder + Send + Sync + 'static>(
    process: &Process,
    (holder, started): (Arc<H>, Instant),
    given: Option<u64>,
    admission: &Admission,
) {
    let Some(limit) = limit(given, limits::memory()) else { return };
    let metrics = MemoryMetrics::default();
    process.metrics.with_registry(|registry| metrics.register(registry));
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    tracing::info!(limit, "memory limit");
    let keeper = Keeper::new(limit, (holder, started), admission.clone(), metrics);
    spawn(&process.lifecycle, keeper);
}

fn spawn<H: Holder + Send + Sync + 'static>(lifecycle: &Lifecycle, keeper: Keeper<H>) {
    let stop = lifecycle.token().clone();
    lifecycle.spawn_critical("memory limit", async move {
        // Whether it was told or ended by itself, the lifecycle knows.
        let _ = stop.run_until_cancelled(keeper.run(CHECK_EVERY)).await;
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_number_with_a_unit_or_without() {
        for (text, bytes) in
            [("1", 1), ("2Gi", 2 << 30), ("512Mi", 512 << 20), ("3G", 3_000_000_000), ("4k", 4_000)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "0Gi", "Gi", "1.5Gi", "-1", "1 Gi", "1gi", "99999999999Ti"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_limit_that_is_not_given_is_a_part_of_the_groups() {
        assert_eq!(limit(Some(7), Some(1_000)), Some(7));
        assert_eq!(limit(None, Some(1_000)), Some(800));
        assert_eq!(limit(None, None), None);
    }
}
