//! Whom the limits of clients hit, in words that operators can use: the first word of the User-Agent. Anybody may send any, so
//! both their length and their number are bounded.

use std::collections::HashSet;
use std::sync::Arc;

use http::header::USER_AGENT;
use http::request::Parts;
use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, family::Family};
use prometheus_client::registry::Registry;
use tracing::warn;

use super::account::Limit;

/// Names that are told apart, and the bytes of each: 6 limits × 100 series.
const MAX_NAMES: usize = 100;
const MAX_NAME_BYTES: usize = 64;
/// The name of all others.
const OTHER: &str = "other";

/// The name, and the limit.
type Label = [(&'static str, String); 2];

/// Requests that were refused for what their client had cost before or has open, or for what all have open.
#[derive(Debug, Default)]
pub(super) struct ClientMetrics {
    limited: Family<Label, Counter>,
    full: Family<[(&'static str, &'static str); 1], Counter>,
    names: Mutex<HashSet<Arc<str>>>,
}

// === impl ClientMetrics ===

impl ClientMetrics {
    /// Shows the numbers.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "client_limited",
            "Requests refused for what their client had cost before or has open, by the first word of its User-Agent",
            self.limited.clone(),
        );
        registry.register(
            "clients_full",
            "Requests refused for what all clients together have open",
            self.full.clone(),
        );
    }

    /// Counts one that was refused for what all have open, and says so like the others.
    pub(super) fn full(&self, limit: Limit) {
        let before = self.full.get_or_create(&[("limit", limit.word())]).inc();
        if (before + 1).is_power_of_two() {
            warn!(limit = limit.word(), refused = before + 1, "clients have too much open, refusing more");
        }
    }

    /// Counts one, and says so in the log for the first, second, fourth and so on of a name.
    pub(super) fn limited(&self, parts: &Parts, limit: Limit) {
        let client = self.name(parts);
        let label = [("client", client.to_string()), ("limit", limit.word().to_owned())];
        let before = self.limited.get_or_create(&label).inc();
        if (before + 1).is_power_of_two() {
            warn!(%client, limit = limit.word(), refused = before + 1, "client costs too much, refusing it");
        }
    }

    fn name(&self, parts: &Parts) -> Arc<str> {
        let agent = parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let first = agent.split_ascii_whitespace().next().unwrap_or(OTHER);
        // Ascii: every byte is a character.
        let name = &first[..first.len().min(MAX_NAME_BYTES)];
        let mut names = self.names.lock();
        if let Some(known) = names.get(name) {
            return known.clone();
        }
        if names.len() >= MAX_NAMES {
            return OTHER.into();
        }
        let name: Arc<str> = name.into();
        names.insert(name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(agent: &str) -> Parts {
        http::Request::builder().header(USER_AGENT, agent).body(()).unwrap().into_parts().0
    }

    #[test]
    fn names_are_short_and_few() {
        let metrics = ClientMetrics::default();
        let name = |agent: &str| metrics.name(&parts(agent)).to_string();
        assert_eq!(name("kubectl/v1.37.2 (linux/amd64) kubernetes/1a2b"), "kubectl/v1.37.2");
        assert_eq!(name(&"x".repeat(1_000)), "x".repeat(64));
        assert_eq!(name(""), OTHER);
        for number in 0..1_000 {
            name(&format!("agent-{number}"));
        }
        assert_eq!(name("late"), OTHER);
        assert_eq!(name("kubectl/v1.37.2"), "kubectl/v1.37.2");
        assert_eq!(metrics.names.lock().len(), MAX_NAMES);
    }
}
