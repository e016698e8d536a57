//! Where the shards of a world's mirrors are: in the process of the proxy. The target `nodes` runs the same scenarios with
//! shards on nodes that the proxy reaches over sockets, and has another fleet in place of this one.

use weir_daemon::Lifecycle;
use weir_proxy::mirror::registry::Backing;
use weir_upstream::UpstreamOptions;

use crate::world::Settings;

/// No nodes: nothing of it can be told to fail.
pub(crate) struct Fleet;

/// Nothing can be otherwise.
#[derive(Default)]
pub(crate) struct Wanted;

// === impl Fleet ===

impl Fleet {
    /// The shards of a world with these settings.
    pub(crate) async fn start(settings: &Settings, _: &UpstreamOptions, _: &Lifecycle) -> (Self, Backing) {
        let Wanted = settings.fleet;
        (Self, Backing::Local { shards: settings.shards, bounds: settings.bounds, tick: settings.tick() })
    }

    /// Nothing is reached over a connection.
    pub(crate) fn kept_connections(&self) -> usize {
        0
    }

    /// All tasks are the world's own.
    pub(crate) fn check(&self) {}
}
