//! What a shard node holds that has one shard of four, against one that has the whole: each in a process of its own, which
//! reads the feed of a further node over its connection, as most nodes do.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::{Instant, sleep};
use weir_bench::memory::Mega;
use weir_bench::processes::{Common, Place, ShardNode};
use weir_bench::report::{Table, Verdict};
use weir_bench::simulated::{Collection, Simulated};
use weir_daemon::Lifecycle;

use crate::workers::Worker;

const COLLECTION: Collection = Collection { objects: 20_000, data_bytes: 4_000 };
const SHARDS: usize = 4;
/// Changes behind the list, which the logs keep.
const WRITES: usize = 10_000;
const WRITE_EVERY: Duration = Duration::from_millis(1);
/// How long a node may need for what was written.
const CATCH_UP: Duration = Duration::from_secs(5);
/// What a part may take beyond its share, in percent.
const MOST_BEYOND: usize = 10;

/// What a node said of itself: bytes that were added, and objects.
struct Held {
    heap: usize,
    rss: usize,
    objects: usize,
}

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table = Table::new("a node with 1 of 4 shards of 20,000 objects of 4 KB, against one with all")?;
    let (lifecycle, upstream) = (Lifecycle::new(), Simulated::start(COLLECTION).await?);
    let common = Common::new(upstream.origin.clone(), &upstream.files, &[1, SHARDS])?;
    let whole = Place { index: 0, count: 1 };
    let port = whole.bind(&common)?;
    let address = port.local_address();
    let _feed = ShardNode::start(&common, (whole, port), &[address], &lifecycle).await?;
    let mut whole = started(&common, whole, address).await?;
    let mut part = started(&common, Place { index: 0, count: SHARDS }, address).await?;
    compare(&mut table, "after the list", (&mut whole, &mut part)).await?;
    let begun = Instant::now();
    for write in 0..WRITES {
        upstream.write(write, write as u64)?;
        sleep(WRITE_EVERY).await;
    }
    sleep(CATCH_UP).await;
    let what = format!("{WRITES} changes later ({} s)", begun.elapsed().as_secs());
    compare(&mut table, &what, (&mut whole, &mut part)).await?;
    whole.end().await?;
    part.end().await?;
    Ok(table.holds())
}

async fn started(common: &Common, place: Place, feed: SocketAddr) -> Result<Worker> {
    let mut arguments = common.arguments();
    arguments.extend([place.index.to_string(), place.count.to_string(), feed.to_string()]);
    let mut worker = Worker::of_role("node", &arguments)?;
    worker.said("listens").await?;
    Ok(worker)
}

async fn held(worker: &mut Worker) -> Result<Held> {
    let said: Vec<u64> = worker.ask("memory").await?;
    let [heap, rss, objects] = said[..] else { anyhow::bail!("a node said {said:?}") };
    Ok(Held { heap: heap as usize, rss: rss as usize, objects: objects as usize })
}

async fn compare(table: &mut Table, when: &str, (whole, part): (&mut Worker, &mut Worker)) -> Result<()> {
    let (whole, part) = (held(whole).await?, held(part).await?);
    ensure!(whole.objects == COLLECTION.objects, "the whole has {} objects", whole.objects);
    let share = part.objects.checked_mul(SHARDS).context("a number of objects")?;
    table.figure(&format!("{when}: the whole, heap; RSS"), &text(&whole))?;
    table.figure(
        &format!("{when}: objects of the part"),
        &format!("{}, {:.1} % of a share", part.objects, share as f64 * 100.0 / whole.objects as f64),
    )?;
    let most = whole.heap * (100 + MOST_BEYOND) / 100 / SHARDS;
    let percent = part.heap as f64 * SHARDS as f64 * 100.0 / whole.heap as f64;
    table.bound(
        &format!("{when}: the part, heap; RSS"),
        (
            &format!("{}; {percent:.1} % of a share", text(&part)),
            &format!("a share + {MOST_BEYOND} % = {}", Mega(most)),
        ),
        Verdict::of(part.heap <= most),
    )
}

fn text(held: &Held) -> String {
    format!("{}; {}", Mega(held.heap), Mega(held.rss))
}
