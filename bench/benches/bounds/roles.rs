//! Shard nodes and proxies in processes of their own, which tell when they are asked what they have used.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use futures_util::future::try_join_all;
use parking_lot::Mutex;
use weir_bench::cpu;
use weir_bench::memory::Memory;
use weir_bench::processes::{Common, Place, ProxyNode, ShardNode};
use weir_bench::simulated::name;
use weir_core::interest::{Interest, Scope};
use weir_core::selector::LabelSelector;
use weir_daemon::Lifecycle;
use weir_proxy::hub::follow::{Follower, Next};

use crate::workers::{next_told, say};

/// A shard node beside the feed's: says where it listens once it holds the collection, and then the bytes of memory that
/// were added (allocated, resident), and the objects that it holds.
pub(crate) async fn node(arguments: &[String]) -> Result<bool> {
    let (common, rest) = Common::read(arguments)?;
    let [index, count, feed] = rest else { bail!("INDEX COUNT FEED are missing") };
    let (place, feed) = (Place { index: index.parse()?, count: count.parse()? }, feed.parse()?);
    let lifecycle = Lifecycle::new();
    let port = place.bind_behind(&common, feed)?;
    let before = Memory::settled().await?;
    let nodes = [feed, port.local_address()];
    let node = ShardNode::start(&common, (place, port), &nodes, &lifecycle).await?;
    say(&format!("listens {}", node.address))?;
    while let Some(word) = next_told().await? {
        match word.as_str() {
            "cpu" => say_cpu(0)?,
            "memory" => {
                let added = Memory::settled().await?.since(before);
                say(&format!("memory {} {} {}", added.heap, added.rss, node.objects()?))?;
            }
            other => bail!("told {other:?}"),
        }
    }
    Ok(true)
}

/// All shard nodes in one process, one for each shard: says where they listen once they hold the collection.
pub(crate) async fn nodes(arguments: &[String]) -> Result<bool> {
    let (common, rest) = Common::read(arguments)?;
    let [count] = rest else { bail!("COUNT is missing") };
    let (count, lifecycle) = (count.parse()?, Lifecycle::new());
    let places = (0..count).map(|index| Place { index, count });
    let ports: Vec<_> = places.map(|place| Ok((place, place.bind(&common)?))).collect::<Result<_>>()?;
    let addresses: Vec<_> = ports.iter().map(|(_, port)| port.local_address()).collect();
    let starting = ports.into_iter().map(|port| ShardNode::start(&common, port, &addresses, &lifecycle));
    let nodes = try_join_all(starting).await?;
    let said: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
    say(&format!("listen {}", said.join(" ")))?;
    while let Some(word) = next_told().await? {
        match word.as_str() {
            "cpu" => say_cpu(0)?,
            other => bail!("told {other:?}"),
        }
    }
    Ok(true)
}

/// So many proxies in one process, each of which follows one object: says when they answer, and then when that object's
/// events came to the first of them.
pub(crate) async fn proxies(arguments: &[String]) -> Result<bool> {
    let (common, rest) = Common::read(arguments)?;
    let [proxies, shards, nodes @ ..] = rest else { bail!("PROXIES SHARDS NODES are missing") };
    let (proxies, shards): (usize, usize) = (proxies.parse()?, shards.parse()?);
    let nodes: Vec<SocketAddr> = nodes.iter().map(|node| node.parse()).collect::<Result<_, _>>()?;
    let lifecycle = Lifecycle::new();
    let starting = (0..proxies).map(|_| ProxyNode::start(&common, (shards, &nodes), &lifecycle));
    let proxies = try_join_all(starting).await?;
    let came: Vec<_> = proxies.iter().map(|proxy| follow_one(proxy, &lifecycle)).collect();
    say("ready")?;
    while let Some(word) = next_told().await? {
        match word.as_str() {
            "cpu" => say_cpu(proxies.iter().map(ProxyNode::heard).sum())?,
            "events" => {
                let came = came.first().context("a proxy")?.lock().clone();
                let came: Vec<String> = came.iter().map(u64::to_string).collect();
                say(&format!("events {}", came.join(" ")))?;
            }
            other => bail!("told {other:?}"),
        }
    }
    Ok(true)
}

/// The system's time in microseconds, which all processes share.
pub(crate) fn now() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is set")?.as_micros() as u64)
}

/// Follows the first object, and notes when each of its events came.
fn follow_one(proxy: &ProxyNode, lifecycle: &Lifecycle) -> Arc<Mutex<Vec<u64>>> {
    let scope = Scope { namespace: None, name: Some(name(0).as_str().into()) };
    let interest = Arc::new(Interest::new(scope, LabelSelector::everything(), Vec::new(), None));
    let (fanout, came) = (proxy.mirror.fanout(), Arc::new(Mutex::new(Vec::new())));
    let lease = fanout.follow(&interest);
    let mut follower = Follower::new(lease, *fanout.frontier().borrow(), fanout.shards().history());
    let noted = came.clone();
    lifecycle.spawn("client", async move {
        loop {
            match follower.advance().await {
                Next::Events(events) => {
                    let now = now().unwrap_or_default();
                    noted.lock().extend(events.iter().map(|_| now));
                }
                Next::Nothing(_) => follower.changed().await,
                Next::Ended(_) => return,
            }
        }
    });
    came
}

/// What the process has used in microseconds, and how many messages it has got.
fn say_cpu(messages: u64) -> Result<()> {
    say(&format!("cpu {} {messages}", cpu::used().as_micros()))
}
