//! Nodes as the configuration names them, and what can be wrong with them all together. Several nodes of one shard are no
//! fault, they are its replicas; a shard without any is one, because no list could ever be whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use weir_core::Slot;

use super::{AddressError, NodeAddress};

/// A node of the configuration, written `I/N=HOST:PORT`: shard I of N is at this address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticNode {
    /// Which shard, counted from 0. That it is below `count` is for [`Members::fixed`](super::Members::fixed) to say.
    pub index: usize,
    /// How many shards there are.
    pub count: usize,
    /// Where the node is.
    pub address: NodeAddress,
}

/// Why a text names no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaticNodeError {
    /// It has not the form of one.
    #[error("a node is I/N=HOST:PORT, for example 0/4=10.0.0.1:7443")]
    Form,
    /// The number of shards is none that weir can have.
    #[error("the number of shards is from 1 to {}, not {_0}", Slot::COUNT)]
    Count(usize),
    /// What follows the `=` is no address.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// All that is wrong with the nodes of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MembersError {
    /// What is wrong; never empty.
    pub faults: Vec<Fault>,
}

/// One thing that is wrong with the nodes of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no node at all.
    NoNodes,
    /// Nodes are of different numbers of shards.
    Counts {
        /// A node for each number, the first one named.
        examples: Vec<StaticNode>,
    },
    /// A node is of a shard that does not exist.
    Index {
        /// The node.
        node: StaticNode,
    },
    /// An address is named more than once.
    Repeated {
        /// The address.
        address: NodeAddress,
    },
    /// A shard has no node.
    Hole {
        /// The shard.
        index: usize,
        /// How many there are.
        count: usize,
    },
}

/// How many shards the nodes are of, or all that is wrong with them.
pub(super) fn shards(nodes: &[StaticNode]) -> Result<usize, MembersError> {
    let mut faults = Vec::new();
    let mut counts: BTreeMap<usize, &StaticNode> = BTreeMap::new();
    for node in nodes {
        counts.entry(node.count).or_insert(node);
        if node.index >= node.count {
            faults.push(Fault::Index { node: node.clone() });
        }
    }
    faults.extend(repeated(nodes));
    match counts.keys().copied().collect::<Vec<_>>().as_slice() {
        [] => faults.push(Fault::NoNodes),
        // With several numbers nobody can tell what a hole is.
        [_, _, ..] => faults.push(Fault::Counts { examples: counts.into_values().cloned().collect() }),
        &[count] => {
            faults.extend(holes(nodes, count));
            if faults.is_empty() {
                return Ok(count);
            }
        }
    }
    Err(MembersError { faults })
}

fn repeated(nodes: &[StaticNode]) -> impl Iterator<Item = Fault> {
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<_> =
        nodes.iter().map(|node| &node.address).filter(|address| !seen.insert(*address)).collect();
    repeated.into_iter().map(|address| Fault::Repeated { address: address.clone() })
}

fn holes(nodes: &[StaticNode], count: usize) -> impl Iterator<Item = Fault> {
    let filled: BTreeSet<_> = nodes.iter().map(|node| node.index).collect();
    (0..count).filter(move |index| !filled.contains(index)).map(move |index| Fault::Hole { index, count })
}

// === impl StaticNode ===

impl FromStr for StaticNode {
    type Err = StaticNodeError;

    fn from_str(text: &str) -> Result<Self, StaticNodeError> {
        let (shard, address) = text.split_once('=').ok_or(StaticNodeError::Form)?;
        let (index, count) = shard.split_once('/').ok_or(StaticNodeError::Form)?;
        let index = number(index).ok_or(StaticNodeError::Form)?;
        let count = number(count).ok_or(StaticNodeError::Form)?;
        if !(1..=Slot::COUNT).contains(&count) {
            return Err(StaticNodeError::Count(count));
        }
        Ok(Self { index, count, address: address.parse()? })
    }
}

impl fmt::Display for StaticNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, count, address } = self;
        write!(f, "{index}/{count}={address}")
    }
}

// === impl MembersError ===

impl fmt::Display for MembersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            write!(f, "{separator}{fault}")?;
        }
        Ok(())
    }
}

// === impl Fault ===

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNodes => f.write_str("no node is named"),
            Self::Counts { examples } => {
                f.write_str("nodes are of different numbers of shards:")?;
                examples.iter().try_for_each(|node| write!(f, " {node}"))
            }
            Self::Index { node } => {
                write!(
                    f,
                    "{node}: shards are counted from 0, so the last of {} is {}",
                    node.count,
                    node.count.saturating_sub(1)
                )
            }
            Self::Repeated { address } => write!(f, "{address} is named more than once"),
            Self::Hole { index, count } => write!(f, "shard {index} of {count} has no node"),
        }
    }
}

/// A number of digits alone.
fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}
