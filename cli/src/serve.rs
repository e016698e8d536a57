//! `weir serve`: proxy and shards in one process, in front of a real cluster.

use clap::Args;
use weir_core::WindowBounds;
use weir_proxy::mirror::registry::Backing;
use weir_shard_node::feed::tick::TickNamespace;

use crate::arguments::{FeedArguments, UpstreamArguments};
use crate::fault::Fault;
use crate::process::{ListenArguments, Process, say_ready};

/// Arguments of `weir serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    upstream: UpstreamArguments,
    /// Into how many shards each mirror is cut.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: u16,
    #[command(flatten)]
    feeds: FeedArguments,
    #[command(flatten)]
    listen: ListenArguments,
}

/// Serves until told to stop.
pub(crate) async fn serve(arguments: ServeArguments) -> Result<(), Fault> {
    let ServeArguments { upstream, shards, feeds, listen } = arguments;
    let process = Process::begin("serve", &listen.common)?;
    let upstream = upstream.load(&process.lifecycle).await?;
    let backing = here(shards, feeds.tick);
    if let Some(address) = process.start(listen.serve(&process, (upstream, backing))).await? {
        say_ready(address);
    }
    process.run().await
}

/// Shards in this process.
pub(crate) fn here(shards: u16, tick: Option<TickNamespace>) -> Backing {
    Backing::Local { shards: usize::from(shards), bounds: WindowBounds::default(), tick }
}
