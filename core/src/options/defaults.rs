//! Upstream's defaults. They make the oldest form of a watch, without a position or from 0, one that sends the initial
//! state as a WatchList does. A `/watch/` path does not set `watch` and so gets none of them.

use super::{ListOptions, WatchListGate};
use crate::status::Status;

pub(super) const NOT_OLDER_THAN: &str = "NotOlderThan";
pub(super) const EXACT: &str = "Exact";

impl ListOptions {
    /// Puts upstream's defaults in, then checks the options together; 422 for those that exclude each other.
    pub fn validate(&mut self, gate: WatchListGate) -> Result<(), Status> {
        if gate == WatchListGate::On && self.is_legacy_watch() {
            self.send_initial_events = Some(true);
            NOT_OLDER_THAN.clone_into(&mut self.resource_version_match);
        }
        super::validation::check(self, gate)
    }

    fn is_legacy_watch(&self) -> bool {
        self.watch
            && self.send_initial_events.is_none()
            && self.resource_version_match.is_empty()
            && matches!(self.resource_version.as_str(), "" | "0")
    }
}
