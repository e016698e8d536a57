//! What 100,000 remembered decisions hold, by the allocator's own count.

use anyhow::{Result, ensure};
use futures_util::FutureExt as _;
use weir_bench::memory::{Mega, Memory};
use weir_bench::report::{Table, Verdict};
use weir_proxy::auth::DecisionMetrics;
use weir_proxy::auth::decisions::{DECISIONS, DecisionLimits, Decisions, Reviewed};

const BOUND: usize = 40_000_000;

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table = Table::new("100,000 decisions about callers, each of another question")?;
    // The cache keeps house on this thread: no measurement of its own beside it.
    let before = Memory::now()?;
    let decisions = Decisions::new(DecisionLimits::default(), DecisionMetrics::default());
    for number in 0..DECISIONS {
        let question = decisions.question(&("token", number));
        let verdict = decisions.decide(question, || async { Reviewed::Allowed }.boxed()).await;
        ensure!(verdict.reviewed == Reviewed::Allowed, "{verdict:?}");
    }
    let held = Memory::now()?.since(before).heap;
    let bytes = held / usize::try_from(DECISIONS)?;
    table.figure("bytes each", &bytes.to_string())?;
    let verdict = Verdict::of(held <= BOUND);
    table.bound("together", (&Mega(held).to_string(), &Mega(BOUND).to_string()), verdict)?;
    Ok(table.holds())
}
