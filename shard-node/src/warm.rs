//! Warm start: an empty node copies a replica's snapshot and log instead of having upstream list. What it has then is what
//! the replica has, except for a part of the log at its old end.
//!
//! A copy is made of two answers that lie apart in time, the snapshot at F and the log after F. The floor is checked for
//! every piece of both, so a window that moves meanwhile costs another try, never a hole. Until the copy is whole, nothing of
//! it is in the node.
//!
//! A node that upstream cannot lead on any more takes the log of a replica in the same way.

mod copy;

use tokio::time::Instant;
use tracing::{info, warn};
use weir_core::mirror::MirrorSpec;
use weir_core::window::Window;
use weir_core::{GroupVersionResource, History, SlotSet};
use weir_daemon::members::NodeAddress;

use crate::node::cell::NodeCell;
use crate::nodes::Nodes;
pub use copy::CopyError;

/// A replica that has content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Donor {
    /// Where it is.
    pub address: NodeAddress,
    /// The history that its content is of.
    pub history: History,
    /// What it could answer when it was asked.
    pub window: Window,
}

/// The replicas of these slots that have content of a mirror, the best first: of the newest history, and there the most
/// advanced.
pub async fn donors(nodes: &Nodes, mirror: &GroupVersionResource, slots: &SlotSet) -> Vec<Donor> {
    let mut donors = Vec::new();
    for (address, windows) in nodes.all_windows(std::slice::from_ref(mirror)).await {
        if !windows.slots.covers(slots) {
            continue;
        }
        let one = windows.mirrors.into_iter().find(|one| one.mirror == *mirror);
        let window = one.and_then(|one| Some((one.history, one.window?)));
        donors.extend(window.map(|(history, window)| Donor { address, history, window }));
    }
    donors.sort_by_key(|donor| std::cmp::Reverse((donor.history, donor.window.frontier)));
    donors
}

/// Copies the content of the first donor that can be copied. `started` is the zero of the node's clock. False if none can.
pub async fn copy(
    nodes: &Nodes,
    donors: &[Donor],
    spec: &MirrorSpec,
    (into, started): (&NodeCell, Instant),
) -> bool {
    for donor in donors {
        match copy::from_donor(nodes, donor, spec, into.slots()).await {
            Ok(copy) => {
                let (objects, events) = copy.size();
                let window = copy.install(into, started.elapsed());
                info!(resource = %spec.resource, donor = %donor.address, ?window, objects, events, "started warm");
                return true;
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                warn!(resource = %spec.resource, donor = %donor.address, error, "replica not copied");
            }
        }
    }
    false
}

/// Leads a node on by the log of the first replica that still has it from where the node is. False if none has.
pub async fn lead_on(
    nodes: &Nodes,
    donors: &[Donor],
    spec: &MirrorSpec,
    (node, started): (&NodeCell, Instant),
) -> bool {
    let Some((history, Window { frontier, .. })) = node.standing() else { return false };
    let has_log = |donor: &&Donor| {
        donor.history == history && donor.window.contains(frontier) && donor.window.frontier > frontier
    };
    for donor in donors.iter().filter(has_log) {
        match copy::log_of(nodes, donor, spec, (node.slots(), frontier)).await {
            Ok(log) => {
                log.install(node, started.elapsed());
                return node.standing().is_some_and(|(_, window)| window.frontier > frontier);
            }
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                warn!(resource = %spec.resource, donor = %donor.address, error, "log of a replica not read");
            }
        }
    }
    false
}
