//! 10,000 watches of one collection through the whole of weir: what upstream sees of them, and what an idle one costs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::Instant;
use weir_bench::client::{Dialer, Protocol};
use weir_bench::memory::{Mega, Memory};
use weir_bench::report::{Table, Verdict};
use weir_bench::served::{Collection, Served};
use weir_daemon::Lifecycle;

use crate::workers::{Worker, say, told_to_end};

const CONNECTIONS: usize = 100;
const STREAMS: usize = 100;
const WATCHES: usize = CONNECTIONS * STREAMS;
const COLLECTION: Collection = Collection { objects: 100, data_bytes: 1_000 };
const PATH: &str = "/api/v1/configmaps";

/// Runs the measurement.
pub(crate) async fn measure() -> Result<bool> {
    let mut table =
        Table::new("10,000 watches of one collection: 100 connections (TLS, HTTP/2) × 100 streams")?;
    let served = Served::start(COLLECTION).await?;
    let seen_before = upstream_watches(&served);
    let before = Memory::settled().await?;
    let begun = Instant::now();
    let mut watchers = Worker::start("watchers", &served, &[])?;
    watchers.said("open").await?;
    table.figure("all open after", &format!("{} ms", begun.elapsed().as_millis()))?;
    let seen = upstream_watches(&served) + seen_before;
    table.bound("watches at upstream", (&seen.to_string(), "1"), Verdict::of(seen == 1))?;
    let interests = served.mirror.fanout().interests();
    table.bound("interests", (&interests.to_string(), "1"), Verdict::of(interests == 1))?;
    let idle = Memory::settled().await?.since(before);
    let measured = format!("RSS {} B, heap {} B", idle.rss / WATCHES, idle.heap / WATCHES);
    table.figure("an idle watch, its share of the connection included", &measured)?;
    let begun = Instant::now();
    served.write(0, 1)?;
    let got: usize = watchers.said("got").await?.parse()?;
    let took = begun.elapsed();
    table.bound("watches that got one event", (&got.to_string(), "10,000"), Verdict::of(got == WATCHES))?;
    let each = took.as_micros() as usize / WATCHES;
    table.figure(
        "from the write to the last of them",
        &format!("{} ms ({each} µs each, client included)", took.as_millis()),
    )?;
    let after = Memory::settled().await?.since(before);
    table.figure(
        "memory of all watches after it",
        &format!("RSS {}, heap {}", Mega(after.rss), Mega(after.heap)),
    )?;
    watchers.end().await?;
    Ok(table.holds())
}

/// The watches of the collection that upstream was asked for since it was last looked at. A feed also asks once, by the
/// watch of a name that nobody has, what a bookmark looks like.
fn upstream_watches(served: &Served) -> usize {
    let requests = served.sim.take_requests();
    let watches = requests.iter().filter(|line| line.verb == "watch" && line.uri.contains(PATH));
    watches.filter(|line| !line.uri.contains("fieldSelector")).count()
}

/// The client: opens the watches, says so, and says how many have got an event once all have.
pub(crate) async fn watchers(arguments: &[String]) -> Result<bool> {
    let [address, ca_file] = arguments else { anyhow::bail!("watchers ADDRESS CA") };
    let lifecycle = Lifecycle::new();
    let dialer = Dialer::new(address.parse::<SocketAddr>()?, Path::new(ca_file), lifecycle.clone())?;
    let (sender, mut events) = watch::channel(0);
    let (sender, served) = (Arc::new(sender), Arc::new(AtomicUsize::new(0)));
    let connections = (0..CONNECTIONS).map(|_| async {
        let mut client = dialer.connect(Protocol::Http2).await?;
        for _ in 0..STREAMS {
            let path = format!("{PATH}?watch=true&allowWatchBookmarks=true&sendInitialEvents=false&resourceVersion=0&resourceVersionMatch=NotOlderThan");
            let body = client.get(&path).await?.into_body();
            lifecycle.spawn("watch", follow(body, sender.clone(), served.clone()));
        }
        Ok::<_, anyhow::Error>(client)
    });
    let clients = try_join_all(connections).await.context("open the watches")?;
    say("open")?;
    events.wait_for(|events| *events == WATCHES).await?;
    say(&format!("got {}", served.load(Ordering::Relaxed)))?;
    told_to_end().await?;
    ensure!(clients.len() == CONNECTIONS, "the connections were open to the end");
    Ok(true)
}

/// Counts the events of one watch, until it ends.
async fn follow(mut body: Incoming, events: Arc<watch::Sender<usize>>, served: Arc<AtomicUsize>) {
    let mut is_first = true;
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        let lines = data.iter().filter(|byte| **byte == b'\n').count();
        if std::mem::take(&mut is_first) {
            served.fetch_add(1, Ordering::Relaxed);
        }
        events.send_modify(|events| *events += lines);
    }
}
