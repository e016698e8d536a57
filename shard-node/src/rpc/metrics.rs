//! What the service counts. Beats are counted apart from flushes: every session has four a second, and they would hide how
//! often it really speaks.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What the service counts. Clones are the same numbers.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Sessions that stand.
    pub sessions: Gauge,
    /// Flushes that were sent, without beats.
    pub flushes: Counter,
    /// Bytes of flushes and beats.
    pub flush_bytes: Counter,
    /// Flushes of nothing.
    pub heartbeats: Counter,
    /// Snapshots asked for.
    pub lists: Counter,
    /// Logs asked for.
    pub logs: Counter,
}

// === impl Metrics ===

impl Metrics {
    /// Shows them; the counters' text has `_total` behind the name.
    pub fn register(&self, registry: &mut Registry) {
        let Self { sessions, flushes, flush_bytes, heartbeats, lists, logs } = self;
        registry.register("node_sessions", "Sessions of proxies that stand", sessions.clone());
        for (name, help, counter) in [
            ("node_flushes", "Flushes sent on sessions, without beats", flushes),
            ("node_flush_bytes", "Bytes of flushes and beats", flush_bytes),
            ("node_heartbeats", "Beats sent on sessions that had nothing to say", heartbeats),
            ("node_lists", "Snapshots that peers asked for", lists),
            ("node_logs", "Logs that peers asked for", logs),
        ] {
            registry.register(name, help, counter.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_shown() {
        let metrics = Metrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        metrics.sessions.inc();
        metrics.flush_bytes.inc_by(1_234);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "node_sessions 1",
            "node_flushes_total 0",
            "node_flush_bytes_total 1234",
            "node_heartbeats_total 0",
            "node_lists_total 0",
            "node_logs_total 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
        }
    }
}
