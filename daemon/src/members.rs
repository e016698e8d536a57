//! Which shard nodes there are: named one by one in the configuration, or by a name of DNS that is looked up again and
//! again. An address says where a node is and not that it answers, and not which shard it holds: that, a node says itself.
//!
//! Addresses are compared as text, and processes order nodes by that text. So all processes must write an address alike.

mod address;
mod dns;
mod fixed;

use std::sync::Arc;

use tokio::sync::watch;

use crate::Lifecycle;

pub use address::{AddressError, NodeAddress};
pub use dns::{Resolve, SystemResolver};
pub use fixed::{Fault, MembersError, StaticNode, StaticNodeError};

/// The addresses of the shard nodes, followed as they come and go. Clones follow the same.
#[derive(Clone, Debug)]
pub struct Members {
    shards: usize,
    addresses: watch::Receiver<Arc<[NodeAddress]>>,
    /// Of addresses that never change: as long as it lives, waiting for a change is no error.
    _fixed: Option<Arc<watch::Sender<Arc<[NodeAddress]>>>>,
}

/// Whether nearly all of the `others` were heard in a step: then the silence of one node says something of that node. On a
/// machine that is slow for all, most are silent now and then, and nobody is to be left for it.
pub fn others_went_on(heard: usize, others: usize) -> bool {
    heard > 0 && heard * 4 >= others * 3
}

// === impl Members ===

impl Members {
    /// The nodes of the configuration, for good. All that is wrong with them is reported together.
    pub fn fixed(nodes: Vec<StaticNode>) -> Result<Self, MembersError> {
        let shards = fixed::shards(&nodes)?;
        let mut addresses: Vec<_> = nodes.into_iter().map(|node| node.address).collect();
        addresses.sort_unstable();
        let (sender, addresses) = watch::channel(addresses.into());
        Ok(Self { shards, addresses, _fixed: Some(Arc::new(sender)) })
    }

    /// The addresses that `name` stands for, looked up at once and then every 5 s. There are none until the first answer,
    /// and those of the last answer when there is no new one. The task that asks ends with the process, or when nobody
    /// follows any more.
    pub fn dns<R: Resolve>(name: NodeAddress, shards: usize, resolver: R, lifecycle: &Lifecycle) -> Self {
        let (sender, addresses) = watch::channel(Arc::default());
        let stop = lifecycle.token().clone();
        lifecycle.spawn(format!("addresses of {name}"), async move {
            // Whether it was told or ended by itself makes no difference.
            let _ = stop.run_until_cancelled(dns::follow(name, resolver, sender)).await;
        });
        Self { shards, addresses, _fixed: None }
    }

    /// In how many shards the space is cut.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// The addresses, sorted and each one once. Only changes are published.
    pub fn addresses(&self) -> watch::Receiver<Arc<[NodeAddress]>> {
        self.addresses.clone()
    }
}

#[cfg(test)]
mod tests;
