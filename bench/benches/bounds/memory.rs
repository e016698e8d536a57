//! What 100,000 mirrored pods of 2-6 KB cost, and what is given back when nearly all of them shrink. A second process
//! mirrors the small ones from the beginning: what the first one holds more than that is memory not given back.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weir_bench::memory::{Mega, Memory};
use weir_bench::mirrored::{Mirrored, puts};
use weir_bench::pods::{PodBytes, PodMirror, PodNumber};
use weir_bench::report::{Table, Verdict};
use weir_core::message::FeedMessage;
use weir_core::{ResourceVersion, WindowBounds};
use weir_shard_node::store::Holdings;

const OBJECTS: usize = 100_000;
const SHARDS: usize = 4;
const LARGE: PodBytes = PodBytes { least: 2_000, most: 6_000 };
/// One of so many objects stays large.
const KEPT: usize = 100;
/// Changes of one statement.
const BATCH: usize = 500;
const LISTED_AT: ResourceVersion = ResourceVersion::new(1_000);
/// What must be given back, of what the replaced objects took.
const LEAST_BACK: usize = 85;
/// Beyond every bound in time of the window.
const LATER: Duration = Duration::from_secs(3_600);

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table =
        Table::new("100,000 pods of 2-6 KB in 4 shards, then 99 % of them replaced by small ones")?;
    let start = Memory::settled().await?;
    let (pods, mirror) = (PodMirror::new(), Mirrored::new(SHARDS, WindowBounds::default()));
    let mut raw = 0;
    mirror.fill(
        LISTED_AT,
        (0..OBJECTS).map(|number| {
            let object = pods.object(PodNumber(number), LISTED_AT, LARGE);
            raw += object.bytes().len();
            object
        }),
    );
    let (full, held) = (Memory::settled().await?, holdings(&mirror));
    ensure!(held.live_objects == OBJECTS, "{} objects are mirrored", held.live_objects);
    content(&mut table, raw, (held, full.since(start), full))?;
    replace(&pods, &mirror)?;
    let (window, in_window) = (Memory::now()?, holdings(&mirror));
    table.figure("replaced, window still holds the old: RSS", &Mega(window.rss).to_string())?;
    table.figure("of which the log keeps, accounted", &Mega(in_window.log_bytes).to_string())?;
    mirror.nodes.iter().for_each(|node| node.trim(LATER));
    let (after, left) = (Memory::settled().await?, holdings(&mirror));
    ensure!(left.live_objects == OBJECTS && left.log_events == 0, "the window has passed: {left:?}");
    given_back(&mut table, (full, held), (after, left))?;
    Ok(table.holds())
}

/// Mirrors what the other process ends with, and says what that costs.
pub(crate) async fn fresh() -> Result<bool> {
    let (pods, mirror) = (PodMirror::new(), Mirrored::new(SHARDS, WindowBounds::default()));
    let objects = (0..OBJECTS).map(|number| pods.object(PodNumber(number), LISTED_AT, size_after(number)));
    mirror.fill(LISTED_AT, objects);
    let memory = Memory::settled().await?;
    ensure!(holdings(&mirror).live_objects == OBJECTS, "all objects are mirrored");
    crate::workers::say(&format!("{} {}", memory.rss, memory.heap))?;
    Ok(true)
}

fn content(table: &mut Table, raw: usize, (held, added, full): (Holdings, Memory, Memory)) -> Result<()> {
    let target = raw + raw / 10 + 200 * OBJECTS;
    table.figure("raw bytes of the objects", &Mega(raw).to_string())?;
    let bound = format!("raw + 10 % + 200 B an object = {}", Mega(target));
    let measured = per_object(held.live_bytes, raw);
    table.bound("accounted bytes", (&measured, &bound), Verdict::of(held.live_bytes <= target))?;
    table.figure("heap: with maps and the allocator's rounding", &per_object(added.heap, raw))?;
    let most = raw + raw * 3 / 10;
    let bound = format!("raw + 30 % = {}", Mega(most));
    let measured = format!("{} (raw + {} %)", Mega(full.rss), percent_above(full.rss, raw));
    table.bound("RSS of the process", (&measured, &bound), Verdict::of(full.rss <= most))
}

/// What is given back: the pages of what was replaced, but for those that something which stayed shares.
fn given_back(
    table: &mut Table,
    (full, held): (Memory, Holdings),
    (after, left): (Memory, Holdings),
) -> Result<()> {
    table.figure("99 % replaced, window passed: accounted bytes", &Mega(left.live_bytes).to_string())?;
    table.figure("heap; RSS", &format!("{}; {}", Mega(after.heap), Mega(after.rss)))?;
    let (fall, accounted) = (full.rss.saturating_sub(after.rss), held.live_bytes - left.live_bytes);
    let bound = format!("{LEAST_BACK} % of what accounted bytes fell by, {}", Mega(accounted));
    let measured = format!("{} ({} %)", Mega(fall), fall * 100 / accounted);
    table.bound("RSS fell by", (&measured, &bound), Verdict::of(fall * 100 >= accounted * LEAST_BACK))?;
    let fresh =
        Command::new(crate::this_program()?).arg("memory-fresh").output().context("run the fresh one")?;
    let said = String::from_utf8(fresh.stdout)?;
    let numbers: Vec<usize> = said.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [rss, heap] = numbers[..] else { anyhow::bail!("the fresh one said {said:?}") };
    table.figure("a fresh mirror of the same: heap; RSS", &format!("{}; {}", Mega(heap), Mega(rss)))
}

/// Replaces all but one in [`KEPT`] by small ones.
fn replace(pods: &PodMirror, mirror: &Mirrored) -> Result<()> {
    let numbers: Vec<usize> = (0..OBJECTS).filter(|number| number % KEPT != 0).collect();
    let mut after = LISTED_AT;
    for batch in numbers.chunks(BATCH) {
        let mut at = after;
        let objects = batch.iter().map(|number| {
            at = at.next();
            pods.object(PodNumber(*number), at, PodBytes::SMALL)
        });
        let message = FeedMessage::Statement(puts(after, objects));
        for node in &mirror.nodes {
            node.on_feed(message.narrowed(&node.slots()), Duration::ZERO)?;
        }
        after = at;
    }
    Ok(())
}

fn size_after(number: usize) -> PodBytes {
    if number.is_multiple_of(KEPT) { LARGE } else { PodBytes::SMALL }
}

fn holdings(mirror: &Mirrored) -> Holdings {
    mirror.nodes.iter().map(|node| node.holdings()).fold(Holdings::default(), |sum, held| Holdings {
        live_objects: sum.live_objects + held.live_objects,
        live_bytes: sum.live_bytes + held.live_bytes,
        log_events: sum.log_events + held.log_events,
        log_bytes: sum.log_bytes + held.log_bytes,
    })
}

fn per_object(bytes: usize, raw: usize) -> String {
    format!("{} ({} B an object over raw)", Mega(bytes), bytes.saturating_sub(raw) / OBJECTS)
}

fn percent_above(value: usize, of: usize) -> usize {
    value.saturating_sub(of) * 100 / of
}
