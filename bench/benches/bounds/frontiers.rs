//! What it costs to say how far everybody is: 1,500 revisions a second that nobody asked for but one object's, which every
//! node must tell every proxy so that each knows what it has not missed. Counted is the processor time of one shard node
//! with 10 proxies, and that of one proxy with 16 nodes; all in one would not fit a small machine.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::time::{Instant, MissedTickBehavior, sleep};
use weir_bench::cpu::Share;
use weir_bench::processes::{Common, Place, ShardNode};
use weir_bench::report::{Ranks, Table, Verdict};
use weir_bench::simulated::{Collection, Simulated};
use weir_daemon::Lifecycle;

use crate::roles::now;
use crate::workers::Worker;

const COLLECTION: Collection = Collection { objects: 1_000, data_bytes: 500 };
const SHARDS: usize = 16;
const PROXIES: usize = 10;
const REVISIONS_A_SECOND: f64 = 1_500.0;
/// One of so many revisions is of the object that is followed.
const FOLLOWED: u64 = 50;
const LOOK: Duration = Duration::from_secs(10);
/// After a start, until it has settled.
const SETTLE: Duration = Duration::from_secs(2);
const MOST_PERCENT: f64 = 5.0;

/// Upstream, and how many revisions it was given so far.
struct Writer {
    upstream: Simulated,
    written: u64,
    /// When the followed object was written.
    followed: Vec<u64>,
}

/// What happens at upstream while somebody is looked at.
#[derive(Clone, Copy)]
enum Load {
    Quiet,
    Writes,
}

/// What a process used in a look.
struct Used {
    share: Share,
    messages: f64,
    revisions: f64,
}

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table =
        Table::new("1,500 revisions/s of which nobody wants but one object's, 16 shards, 10 proxies")?;
    let upstream = Simulated::start(COLLECTION).await?;
    let common = Common::new(upstream.origin.clone(), &upstream.files, &[1, SHARDS])?;
    let mut writer = Writer { upstream, written: 0, followed: Vec::new() };
    of_node(&mut table, &common, &mut writer).await?;
    of_proxy(&mut table, &common, &mut writer).await?;
    Ok(table.holds())
}

/// A node serves one session a proxy, whatever the number of shards.
async fn of_node(table: &mut Table, common: &Common, writer: &mut Writer) -> Result<()> {
    let (lifecycle, place) = (Lifecycle::new(), Place { index: 0, count: 1 });
    let port = place.bind(common)?;
    let feed = port.local_address();
    let _feed = ShardNode::start(common, (place, port), &[feed], &lifecycle).await?;
    let mut arguments = common.arguments();
    arguments.extend(["0".to_owned(), "1".to_owned(), feed.to_string()]);
    let mut node = Worker::of_role("node", &arguments)?;
    let address: SocketAddr = node.said("listens").await?.parse()?;
    let alone = writer.look(&mut node, Load::Writes).await?;
    table.figure("node without proxies: subscription, store, log", &alone.share.to_string())?;
    let mut proxies = started(common, (PROXIES, 1), &[address]).await?;
    let quiet = writer.look(&mut node, Load::Quiet).await?;
    table.figure("node with 10 proxies, nothing written", &quiet.share.to_string())?;
    let (begun, before) = (Instant::now(), heard(&mut proxies).await?);
    let loaded = writer.look(&mut node, Load::Writes).await?;
    let (took, after) = (begun.elapsed(), heard(&mut proxies).await?);
    let flushes = (after - before) as f64 / took.as_secs_f64() / PROXIES as f64;
    let more = loaded.share.beyond(alone.share);
    table.figure("revisions a second that were written", &format!("{:.0}", loaded.revisions))?;
    table.figure("node with 10 proxies, in all", &loaded.share.to_string())?;
    table.figure("messages a second on each of its sessions", &format!("{flushes:.0}"))?;
    let verdict = Verdict::of_timing(more.is_below(MOST_PERCENT));
    table.bound("node: what 10 proxies add", (&more.to_string(), "5 % of a core"), verdict)?;
    proxies.end().await?;
    node.end().await
}

async fn of_proxy(table: &mut Table, common: &Common, writer: &mut Writer) -> Result<()> {
    let mut arguments = common.arguments();
    arguments.push(SHARDS.to_string());
    let mut nodes = Worker::of_role("nodes", &arguments)?;
    let said = nodes.said("listen").await?;
    let addresses: Vec<SocketAddr> = said.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    ensure!(addresses.len() == SHARDS, "{} nodes", addresses.len());
    let mut proxy = started(common, (1, SHARDS), &addresses).await?;
    let quiet = writer.look(&mut proxy, Load::Quiet).await?;
    table.figure("proxy with 16 nodes, nothing written", &quiet.share.to_string())?;
    writer.followed.clear();
    let came_before = proxy.ask("events").await?.len();
    let loaded = writer.look(&mut proxy, Load::Writes).await?;
    table.figure("revisions a second that were written", &format!("{:.0}", loaded.revisions))?;
    table.figure("messages a second from all nodes", &format!("{:.0}", loaded.messages))?;
    let verdict = Verdict::of_timing(loaded.share.is_below(MOST_PERCENT));
    table.bound("proxy with 16 nodes", (&loaded.share.to_string(), "5 % of a core"), verdict)?;
    sleep(SETTLE).await;
    let came = proxy.ask("events").await?.split_off(came_before);
    ensure!(came.len() == writer.followed.len(), "{} of {} came", came.len(), writer.followed.len());
    let took = came.iter().zip(&writer.followed).map(|(came, written)| came.saturating_sub(*written));
    let ranks = Ranks::new(took.collect());
    let [middle, high] = [50, 99].map(|percent| ranks.percentile(percent) as f64 / 1e3);
    table
        .figure("the followed object, write to release: p50 / p99", &format!("{middle:.1} / {high:.1} ms"))?;
    proxy.end().await?;
    nodes.end().await
}

/// How many messages proxies have got so far.
async fn heard(proxies: &mut Worker) -> Result<u64> {
    proxies.ask("cpu").await?.get(1).copied().context("two numbers")
}

async fn started(common: &Common, (proxies, shards): (usize, usize), nodes: &[SocketAddr]) -> Result<Worker> {
    let mut arguments = common.arguments();
    arguments.extend([proxies.to_string(), shards.to_string()]);
    arguments.extend(nodes.iter().map(SocketAddr::to_string));
    let mut worker = Worker::of_role("proxies", &arguments)?;
    worker.said("ready").await?;
    Ok(worker)
}

// === impl Writer ===

impl Writer {
    /// What a process uses under a load, once that has settled.
    async fn look(&mut self, worker: &mut Worker, load: Load) -> Result<Used> {
        self.load(load, SETTLE).await?;
        let (before, written, begun) = (worker.ask("cpu").await?, self.written, Instant::now());
        self.load(load, LOOK).await?;
        let (after, took) = (worker.ask("cpu").await?, begun.elapsed());
        let used = |index: usize| Some(after.get(index)?.saturating_sub(*before.get(index)?));
        let (used, messages) = used(0).zip(used(1)).context("two numbers")?;
        let a_second = |count: u64| count as f64 / took.as_secs_f64();
        let (messages, revisions) = (a_second(messages), a_second(self.written - written));
        Ok(Used { share: Share::of(Duration::from_micros(used), took), messages, revisions })
    }

    async fn load(&mut self, load: Load, within: Duration) -> Result<()> {
        match load {
            Load::Quiet => sleep(within).await,
            Load::Writes => self.write(within).await?,
        }
        Ok(())
    }

    /// Writes at the rate, millisecond by millisecond; more slowly where the machine is too busy.
    async fn write(&mut self, within: Duration) -> Result<()> {
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (begun, mut count) = (Instant::now(), 0.0);
        while begun.elapsed() < within {
            ticks.tick().await;
            while count < begun.elapsed().as_secs_f64() * REVISIONS_A_SECOND && begun.elapsed() < within {
                self.write_one()?;
                count += 1.0;
            }
        }
        Ok(())
    }

    fn write_one(&mut self) -> Result<()> {
        self.written += 1;
        let number = if self.written.is_multiple_of(FOLLOWED) {
            self.followed.push(now()?);
            0
        } else {
            1 + self.written as usize % (COLLECTION.objects - 1)
        };
        self.upstream.write(number, self.written)?;
        Ok(())
    }
}
