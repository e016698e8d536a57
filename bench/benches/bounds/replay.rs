//! A proxy that reads everything, snapshot and log, at full speed, and another one that only wants to hear of changes. Three
//! things take turns, so that what the machine does meanwhile hits them alike: nobody reads; somebody reads from another
//! node, a process of its own; somebody reads from the node that tells of the changes. A reader and what it reads from keep
//! two cores busy, so on a small machine only the last two can be told apart from waiting for a core.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use weir_bench::cpu;
use weir_bench::memory::Mega;
use weir_bench::processes::{Common, ProxyNode};
use weir_bench::report::{Ranks, Table, Verdict};
use weir_bench::simulated::{Collection, Simulated, resource};
use weir_core::interest::Interest;
use weir_core::message::{LogRequest, SnapshotRequest};
use weir_core::selector::FieldTable;
use weir_core::window::Window;
use weir_core::{History, ResourceVersion, SlotSet};
use weir_daemon::Lifecycle;
use weir_proto::limits::MAX_MESSAGE_BYTES;
use weir_proto::read::{List, Log, WindowRequest, Windows};
use weir_proto::wire;
use weir_proto::wire::shard_client::ShardClient;
use weir_proxy::hub::follow::{Follower, Next};

use crate::workers::{Worker, next_told, say};

const COLLECTION: Collection = Collection { objects: 20_000, data_bytes: 5_000 };
const WRITE_EVERY: Duration = Duration::from_millis(2);
const TURNS: usize = 24;
/// Nobody reads, from another node, from the same one.
const KINDS: [&str; 3] =
    ["nobody reads", "1 GB is read from another node", "1 GB is read from the same node"];
/// A turn without the reader.
const QUIET: Duration = Duration::from_millis(500);
/// What is read in all.
const LEAST_BYTES: u64 = 1_000_000_000;
const MOST_LATER_MICROS: i64 = 2_000;
/// Between two turns, until everything has come.
const PAUSE: Duration = Duration::from_millis(200);

/// The proxy that hears of changes.
struct Listener {
    /// When each change that has not come yet was written.
    written: Arc<Mutex<VecDeque<Instant>>>,
    took: Arc<Mutex<Vec<u64>>>,
}

/// A node, and a proxy that reads everything from it.
struct Read {
    node: Worker,
    replayer: Worker,
    bytes: u64,
    reading: Duration,
}

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table = Table::new("1 GB of snapshots and logs to one proxy, 500 events/s to another")?;
    let (lifecycle, upstream) = (Lifecycle::new(), Simulated::start(COLLECTION).await?);
    let common = Common::new(upstream.origin.clone(), &upstream.files, &[1])?;
    let (mut other, far) = Read::start(&common).await?;
    let (mut same, address) = Read::start(&common).await?;
    ensure!(far != address, "two nodes");
    let proxy = ProxyNode::start(&common, (1, &[address.parse()?]), &lifecycle).await?;
    let listener = Listener::start(&proxy, &lifecycle);
    let mut took: [Vec<Vec<u64>>; 3] = Default::default();
    for _ in 0..TURNS {
        took[0].push(listener.turn(&upstream, sleep(QUIET)).await?);
        took[1].push(other.turn(&listener, &upstream).await?);
        took[2].push(same.turn(&listener, &upstream).await?);
    }
    same.report(&mut table)?;
    let mut high = Vec::new();
    for (when, turns) in KINDS.into_iter().zip(took) {
        let ranks = Ranks::new(turns.concat());
        high.push(ranks.percentile(99) as i64);
        let [p50, p99, most] = [50, 99, 100].map(|percent| ranks.percentile(percent) as f64 / 1e3);
        let usual = usual_p99(turns) as f64 / 1e3;
        let measured = format!(
            "{p50:.2} / {p99:.2} / {most:.2} ms, p99 of the middle turn {usual:.2} ms, {} events",
            ranks.len()
        );
        table.figure(&format!("write to release, {when}: p50 / p99 / most"), &measured)?;
    }
    table.figure("p99, read from the same node minus nobody reads", &format!("{} µs", high[2] - high[0]))?;
    let later = high[2] - high[1];
    let verdict = Verdict::of_timing(later < MOST_LATER_MICROS);
    table.bound(
        "p99, read from the same node minus read from another",
        (&format!("{later} µs"), "2,000 µs"),
        verdict,
    )?;
    other.end().await?;
    same.end().await?;
    Ok(table.holds())
}

/// The 99th percentile of the turn in the middle: one in which the machine stood still counts no more there than another.
fn usual_p99(turns: Vec<Vec<u64>>) -> u64 {
    Ranks::new(turns.into_iter().map(|turn| Ranks::new(turn).percentile(99)).collect()).percentile(50)
}

// === impl Read ===

impl Read {
    /// With the address of the node.
    async fn start(common: &Common) -> Result<(Self, String)> {
        let mut arguments = common.arguments();
        arguments.push("1".to_owned());
        let mut node = Worker::of_role("nodes", &arguments)?;
        let address = node.said("listen").await?;
        let mut arguments = common.arguments();
        arguments.push(address.clone());
        let mut replayer = Worker::of_role("replayer", &arguments)?;
        replayer.said("ready").await?;
        Ok((Self { node, replayer, bytes: 0, reading: Duration::ZERO }, address))
    }

    /// How long changes took while everything was read once.
    async fn turn(&mut self, listener: &Listener, upstream: &Simulated) -> Result<Vec<u64>> {
        let (begun, mut read) = (Instant::now(), Ok(Vec::new()));
        let took = listener.turn(upstream, async { read = self.replayer.ask("replayed").await }).await?;
        self.reading += begun.elapsed();
        self.bytes += read?.first().context("bytes that were read")?;
        Ok(took)
    }

    fn report(&self, table: &mut Table) -> Result<()> {
        ensure!(self.bytes >= LEAST_BYTES, "only {} bytes were read", self.bytes);
        let speed = Mega((self.bytes as f64 / self.reading.as_secs_f64()) as usize);
        table.figure("read from the same node", &format!("{} at {speed}/s", Mega(self.bytes as usize)))
    }

    async fn end(self) -> Result<()> {
        self.replayer.end().await?;
        self.node.end().await
    }
}

// === impl Listener ===

impl Listener {
    fn start(proxy: &ProxyNode, lifecycle: &Lifecycle) -> Self {
        let fanout = proxy.mirror.fanout();
        let lease = fanout.follow(&Arc::new(Interest::everything()));
        let mut follower = Follower::new(lease, *fanout.frontier().borrow(), fanout.shards().history());
        let listener = Self { written: Arc::default(), took: Arc::default() };
        let (written, took) = (listener.written.clone(), listener.took.clone());
        lifecycle.spawn("client", async move {
            loop {
                match follower.advance().await {
                    Next::Events(events) => {
                        let now = Instant::now();
                        let begun: Vec<_> = written.lock().drain(..events.len()).collect();
                        took.lock().extend(begun.into_iter().map(|at| (now - at).as_micros() as u64));
                    }
                    Next::Nothing(_) => follower.changed().await,
                    Next::Ended(_) => return,
                }
            }
        });
        listener
    }

    /// Writes until something has ended; how long each change took, in microseconds.
    async fn turn(&self, upstream: &Simulated, until: impl Future<Output = ()>) -> Result<Vec<u64>> {
        let mut due = interval(WRITE_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut until, begun) = (std::pin::pin!(until), Instant::now());
        let mut writes = 0_usize;
        loop {
            tokio::select! {
                biased;
                () = until.as_mut() => break,
                _ = due.tick() => {
                    self.written.lock().push_back(Instant::now());
                    upstream.write(writes * 7 % COLLECTION.objects, begun.elapsed().as_nanos() as u64)?;
                    writes += 1;
                }
            }
        }
        sleep(PAUSE).await;
        let took = std::mem::take(&mut *self.took.lock());
        ensure!(self.written.lock().is_empty() && took.len() == writes, "every change has come once");
        Ok(took)
    }
}

/// The proxy that reads everything: when it is told to, it says how many bytes of objects it has read.
pub(crate) async fn replayer(arguments: &[String]) -> Result<bool> {
    let (common, rest) = Common::read(arguments)?;
    let [address] = rest else { bail!("NODE is missing") };
    let lifecycle = Lifecycle::new();
    let address: SocketAddr = address.parse()?;
    let channel = common.proxy_dialer(&lifecycle)?.connect(&address.to_string()).await?;
    let mut client = ShardClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    say("ready")?;
    while let Some(word) = next_told().await? {
        ensure!(word == "replayed", "told {word:?}");
        let question = wire::WindowRequest::from(&WindowRequest(vec![resource()]));
        let windows = Windows::try_from(client.window(question).await?.into_inner())?;
        let mirror = windows.mirrors.first().context("the collection")?;
        let (history, window) = (mirror.history, mirror.window.context("content")?);
        let list = listed(&mut client, (history, window.frontier)).await?;
        let log = logged(&mut client, (history, window)).await?;
        say(&format!("replayed {} {}", list + log, cpu::used().as_micros()))?;
    }
    Ok(true)
}

type Client = ShardClient<tonic::transport::Channel>;

/// Reads the whole snapshot; its bytes.
async fn listed(client: &mut Client, (history, at): (History, ResourceVersion)) -> Result<u64> {
    let (interest, slots) = (Arc::new(Interest::everything()), SlotSet::ALL);
    let request = SnapshotRequest { history, interest, slots, at, from: None, max_objects: usize::MAX };
    let question = wire::List::from(&List::of(&resource(), &request, &table()?)?);
    let mut answers = client.list(question).await?.into_inner();
    let mut bytes = 0;
    while let Some(answer) = answers.message().await? {
        let Some(wire::list_answer::Message::Chunk(chunk)) = answer.message else {
            bail!("the snapshot was not answered")
        };
        bytes += chunk.objects.iter().map(|object| object.content.len() as u64).sum::<u64>();
    }
    Ok(bytes)
}

/// Reads the whole log; its bytes.
async fn logged(client: &mut Client, (history, window): (History, Window)) -> Result<u64> {
    let (interest, slots) = (Arc::new(Interest::everything()), SlotSet::ALL);
    let request = LogRequest { history, interest, slots, after: window.floor, to: window.frontier };
    let question = wire::Log::from(&Log::of(&resource(), &request, &table()?)?);
    let mut answers = client.log(question).await?.into_inner();
    let mut bytes = 0;
    while let Some(answer) = answers.message().await? {
        let Some(wire::log_answer::Message::Statement(statement)) = answer.message else {
            bail!("the log was not answered")
        };
        let objects = statement.events.iter().filter_map(|event| event.object.as_ref());
        bytes += objects.map(|object| object.content.len() as u64).sum::<u64>();
    }
    Ok(bytes)
}

fn table() -> Result<FieldTable> {
    FieldTable::of(&resource(), None).context("config maps have fields in single places")
}
