//! The whole of weir in front of a simulated apiserver with its shards on nodes of their own: the scenarios of the target
//! `simulated` (but `quiet`, which makes time pass), which have the same results here, and what becomes of clients when nodes are killed, hang, lag or come back.
//!
//! The nodes run in threads of this process, not in processes of their own, so that a test can look at them and a fault hits
//! at a known moment; between them and the proxy everything is as between processes.

#[cfg(test)]
use scenarios::{client, faults, plans, relay, stream, truth, watcher, world};

#[cfg(test)]
mod deaths;
#[cfg(test)]
mod fleet;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod silence;
#[cfg(test)]
mod views;

/// The scenarios, which find the fleet of this target in place of their own.
#[cfg(test)]
#[path = "../simulated"]
mod scenarios {
    pub(crate) mod audits;
    pub(crate) mod certificates;
    pub(crate) mod checks;
    #[expect(dead_code, reason = "`quiet` is no scenario here: its time is not that of the nodes' threads")]
    pub(crate) mod client;
    pub(crate) mod door;
    pub(crate) mod ending;
    pub(crate) mod entrance;
    pub(crate) mod faults;
    pub(crate) mod forms;
    pub(crate) mod fresh;
    pub(crate) mod lagging;
    pub(crate) mod lists;
    pub(crate) mod loading;
    pub(crate) mod options;
    pub(crate) mod overload;
    pub(crate) mod passing;
    pub(crate) mod plans;
    pub(crate) mod rechecks;
    pub(crate) mod refusals;
    pub(crate) mod relay;
    pub(crate) mod restores;
    pub(crate) mod rights;
    pub(crate) mod shards;
    pub(crate) mod slow;
    pub(crate) mod stream;
    pub(crate) mod ticks;
    pub(crate) mod truth;
    pub(crate) mod watcher;
    pub(crate) mod watches;
    pub(crate) mod windows;
    #[expect(dead_code, reason = "`quiet` is no scenario here: its time is not that of the nodes' threads")]
    pub(crate) mod world;
}
