//! Which shard nodes there are.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// Where a node is: host and port as text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeAddress(Arc<str>);

/// The nodes.
#[derive(Debug)]
pub struct Members {
    shards: usize,
    addresses: watch::Sender<Arc<[NodeAddress]>>,
}

// === impl NodeAddress ===

impl NodeAddress {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl Members ===

impl Members {
    /// In how many shards the space is cut.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Who there is.
    pub fn addresses(&self) -> watch::Receiver<Arc<[NodeAddress]>> {
        self.addresses.subscribe()
    }
}
