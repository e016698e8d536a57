//! Looking a name up again and again. A name that is not found keeps its last addresses: DNS of a cluster answers so when
//! it is restarted, and also when no node is ready, and neither is a reason to leave nodes that answer.

use std::{future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::{info, warn};

use super::NodeAddress;

/// How long an answer is taken for true.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long one look-up may take.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// Addresses of one answer: 256 shards of four replicas. An answer with more counts as none, for it is not ours.
const MAX_NODES: usize = 1_024;

/// Answers what addresses a name stands for.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses behind `name`, each with its port, in any order.
    fn resolve(&self, name: &NodeAddress) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;
}

/// The resolver of the system. A look-up that is given up goes on in a thread of its own until the system's limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error("look up the name")]
    Resolve(#[source] io::Error),
    #[error("no answer within {} s", LOOK_LIMIT.as_secs())]
    Late,
    #[error("the answer has no address")]
    Empty,
    #[error("the answer has {0} addresses, more than {MAX_NODES}")]
    TooMany(usize),
}

/// How the last look-up went, so that a streak of failures is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    Answered,
    Failing,
}

// === impl SystemResolver ===

impl Resolve for SystemResolver {
    async fn resolve(&self, name: &NodeAddress) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host(name.as_str()).await?.collect())
    }
}

// === impl Outlook ===

impl Outlook {
    /// Takes in how a look-up went. Whether that is news.
    fn turns(&mut self, now: Self) -> bool {
        std::mem::replace(self, now) != now
    }
}

/// Looks the name up until nobody follows the addresses.
pub(super) async fn follow<R: Resolve>(
    name: NodeAddress,
    resolver: R,
    addresses: watch::Sender<Arc<[NodeAddress]>>,
) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outlook = Outlook::Answered;
    loop {
        // Both branches lose nothing when they are dropped.
        tokio::select! {
            biased;
            () = addresses.closed() => return,
            _ = ticks.tick() => {}
        }
        let found = tokio::select! {
            biased;
            () = addresses.closed() => return,
            found = look(&name, &resolver) => found,
        };
        match found {
            Ok(found) => {
                if outlook.turns(Outlook::Answered) {
                    info!(%name, "name of the nodes is answered again");
                }
                publish(&name, &addresses, found);
            }
            Err(error) => {
                if outlook.turns(Outlook::Failing) {
                    let kept = addresses.borrow().len();
                    let error: &dyn std::error::Error = &error;
                    warn!(%name, error, kept, "no answer for the name of the nodes, keeping the last one");
                }
            }
        }
    }
}

async fn look(name: &NodeAddress, resolver: &impl Resolve) -> Result<Vec<NodeAddress>, LookError> {
    let answer = timeout(LOOK_LIMIT, resolver.resolve(name)).await.map_err(|_| LookError::Late)?;
    let mut answer = answer.map_err(LookError::Resolve)?;
    // A node with an address of each family would count as two.
    if answer.iter().any(is_ipv4) {
        answer.retain(is_ipv4);
    }
    let mut addresses: Vec<NodeAddress> = answer.into_iter().map(NodeAddress::from).collect();
    addresses.sort_unstable();
    addresses.dedup();
    match addresses.len() {
        0 => Err(LookError::Empty),
        1..=MAX_NODES => Ok(addresses),
        count => Err(LookError::TooMany(count)),
    }
}

fn publish(name: &NodeAddress, addresses: &watch::Sender<Arc<[NodeAddress]>>, found: Vec<NodeAddress>) {
    addresses.send_if_modified(|current| {
        let changed = **current != *found;
        if changed {
            info!(%name, before = current.len(), now = found.len(), "nodes have changed");
            *current = found.into();
        }
        changed
    });
}

fn is_ipv4(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_ipv4()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_streak_is_news_once() {
        use Outlook::{Answered, Failing};
        let mut outlook = Answered;
        let looks = [Answered, Failing, Failing, Failing, Answered, Answered, Failing];
        let news = looks.map(|look| outlook.turns(look));
        assert_eq!(news, [false, true, false, false, true, false, true]);
    }
}
