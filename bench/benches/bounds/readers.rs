//! Clients that read a large list slowly: what weir holds for each, and whether the writers notice.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::time::Instant;
use weir_bench::client::{Dialer, Protocol};
use weir_bench::memory::{Mega, Memory};
use weir_bench::report::{Ranks, Table, Verdict};
use weir_bench::served::{Collection, Served};
use weir_daemon::Lifecycle;

use crate::workers::{Worker, say, told, told_to_end};

const READERS: usize = 8;
const COLLECTION: Collection = Collection { objects: 10_000, data_bytes: 3_800 };
const PATH: &str = "/api/v1/configmaps?resourceVersion=0";
/// What a slow reader takes.
const BYTES_A_SECOND: f64 = 1e6;
/// How long the readers are only looked at, before somebody writes: writes take memory of their own.
const QUIET: Duration = Duration::from_millis(2_500);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const WRITES: u64 = 500;
const WRITE_EVERY: Duration = Duration::from_millis(5);
/// What weir may hold for one of them.
const MOST_BYTES: usize = 4_000_000;
/// How much later a write may be there, at the 99th percentile: the noise of a machine, not the length of a list.
const MOST_LATER_MICROS: u64 = 5_000;

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table = Table::new("8 clients that read a list of 10,000 objects of 4 KB at 1 MB/s each")?;
    let served = Served::start(COLLECTION).await?;
    // The first list makes every object's bytes shareable, once; that is the mirror's memory and not a client's.
    let mut whole = Worker::start("readers", &served, &["http2".to_owned(), "fast".to_owned()])?;
    let read = whole.said("read").await?;
    table.figure("8 such lists at once, read at full speed", &read)?;
    whole.end().await?;
    let alone = ingest(&served, 0).await?;
    table.figure("ingest without readers, p50 / p99", &latency(&alone))?;
    for (round, protocol) in ["http1", "http2"].into_iter().enumerate() {
        slow(&mut table, &served, (protocol, round as u64 + 1, &alone)).await?;
    }
    Ok(table.holds())
}

/// One protocol.
async fn slow(
    table: &mut Table,
    served: &Served,
    (protocol, round, alone): (&str, u64, &Ranks),
) -> Result<()> {
    let before = Memory::settled().await?;
    let mut readers = Worker::start("readers", served, &[protocol.to_owned(), "slow".to_owned()])?;
    readers.said("begun").await?;
    let (mut heap, mut rss, mut queued) = (0, 0, 0);
    let begun = Instant::now();
    while begun.elapsed() < QUIET {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = Memory::now()?.since(before);
        (heap, rss) = (heap.max(now.heap), rss.max(now.rss));
        queued = queued.max(send_queues(served.address)?);
    }
    let during = ingest(served, round).await?;
    let read = begun.elapsed();
    let bytes: f64 = readers.said_bytes().await?;
    let speed = bytes / READERS as f64 / read.as_secs_f64() / 1e6;
    readers.end().await?;
    let held = (heap + queued) / READERS;
    let measured =
        format!("{} (heap {}, socket {})", Mega(held), Mega(heap / READERS), Mega(queued / READERS));
    let what = format!("{protocol}: held for one client");
    table.bound(&what, (&measured, "4 MB"), Verdict::of(held < MOST_BYTES))?;
    table.figure(
        &format!("{protocol}: RSS for one client, speed"),
        &format!("{}, {speed:.2} MB/s", Mega(rss / READERS)),
    )?;
    let later = during.percentile(99).saturating_sub(alone.percentile(99));
    let what = format!("{protocol}: ingest meanwhile, p50 / p99");
    table.bound(&what, (&latency(&during), "p99 + 5 ms"), Verdict::of_timing(later <= MOST_LATER_MICROS))
}

/// How long writes take to be in all shards.
async fn ingest(served: &Served, round: u64) -> Result<Ranks> {
    let mut due = tokio::time::interval(WRITE_EVERY);
    let mut took = Vec::new();
    for write in 0..WRITES {
        due.tick().await;
        let number = write as usize * 7 % COLLECTION.objects;
        took.push(served.ingest(number, round << 32 | write).await?);
    }
    Ok(Ranks::new(took))
}

fn latency(ranks: &Ranks) -> String {
    let [middle, high] = [50, 99].map(|percent| ranks.percentile(percent) as f64 / 1e3);
    format!("{middle:.2} / {high:.2} ms")
}

/// Bytes that wait in the sockets of a listener's connections.
fn send_queues(local: SocketAddr) -> Result<usize> {
    let table = std::fs::read_to_string("/proc/net/tcp").context("read /proc/net/tcp")?;
    let port = format!(":{:04X}", local.port());
    let waiting = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let is_ours = columns.next()?.ends_with(&port);
        let queues = columns.nth(2)?;
        let (send, _) = queues.split_once(':')?;
        is_ours.then(|| usize::from_str_radix(send, 16).ok())?
    });
    Ok(waiting.sum())
}

impl Worker {
    /// Asks how much was read so far.
    async fn said_bytes(&mut self) -> Result<f64> {
        self.tell("bytes")?;
        Ok(self.said("bytes").await?.parse()?)
    }
}

/// The client: begins to read, at a speed, and says how far it is when asked.
pub(crate) async fn readers(arguments: &[String]) -> Result<bool> {
    let [address, ca_file, protocol, speed] = arguments else {
        anyhow::bail!("readers ADDRESS CA PROTOCOL SPEED")
    };
    let lifecycle = Lifecycle::new();
    let dialer = Dialer::new(address.parse()?, Path::new(ca_file), lifecycle.clone())?;
    let protocol = if protocol == "http1" { Protocol::Http1 } else { Protocol::Http2 };
    let mut clients = try_join_all((0..READERS).map(|_| dialer.connect(protocol))).await?;
    let begun = Instant::now();
    let answers = clients.iter_mut().map(|client| client.get(PATH));
    let bodies = try_join_all(answers).await.context("begin the lists")?;
    if speed == "fast" {
        let read: Vec<u64> = try_join_all(bodies.into_iter().map(|answer| whole(answer.into_body()))).await?;
        let (bytes, took) = (read.iter().sum::<u64>(), begun.elapsed());
        ensure!(read.iter().all(|one| *one == read[0]), "equal lists: {read:?}");
        let speed = bytes as f64 / took.as_secs_f64() / 1e6;
        say(&format!("read {} in {} ms, {speed:.0} MB/s in all", Mega(bytes as usize), took.as_millis()))?;
    } else {
        let count = Arc::new(AtomicU64::new(0));
        for answer in bodies {
            lifecycle.spawn("slow reader", slowly(answer.into_body(), count.clone()));
        }
        say("begun")?;
        told("bytes").await?;
        say(&format!("bytes {}", count.load(Ordering::Relaxed)))?;
    }
    told_to_end().await?;
    Ok(true)
}

async fn whole(mut body: Incoming) -> Result<u64> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(bytes)
}

/// Reads no faster than the speed allows.
async fn slowly(mut body: Incoming, count: Arc<AtomicU64>) {
    let (begun, mut bytes) = (Instant::now(), 0);
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, |data| data.len() as u64);
        bytes += length;
        count.fetch_add(length, Ordering::Relaxed);
        tokio::time::sleep_until(begun + Duration::from_secs_f64(bytes as f64 / BYTES_A_SECOND)).await;
    }
}
