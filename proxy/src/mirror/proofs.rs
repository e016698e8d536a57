//! How answers were proved to be fresh: by what, how long it took, and whether the mirror was busy meanwhile. A busy mirror
//! and a quiet one are counted apart, since a proof that comes by itself for the one has to be asked for by the other.

use std::time::Duration;

use prometheus_client::metrics::{counter::Counter, family::Family, histogram::Histogram};
use prometheus_client::registry::Registry;
use weir_core::GroupResource;

use crate::hub::pace::Pace;

/// Upper ends of the latencies that are told apart, in seconds; the last is how long upstream itself waits for a revision.
const SECONDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0];

/// How long a proof may take where nothing else is wished, before upstream answers instead.
pub const PROOF_LIMIT: Duration = Duration::from_millis(500);

/// The resource, what came of it, and the pace: fourteen series a mirror.
type Label = [(&'static str, String); 3];

/// What proved a state to be fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Proof {
    /// The mirror came by itself to a revision that upstream gave after the request came in.
    Revision,
    /// The mirror held exactly what upstream held in the scope.
    Comparison,
    /// The mirror came to the revision after the feed had been asked to catch up.
    CatchUp,
    /// The mirror came to a revision after the feed had been asked for a tick.
    Tick,
    /// There was none in time: a watch was shown a state that was read at upstream, and goes on in the mirror behind it.
    List,
}

/// What came of a request that needed a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The mirror answers.
    Proved(Proof),
    /// No proof came in time, and upstream answers.
    Passed,
    /// No proof came in time, and nobody else can answer.
    Refused,
}

/// What is counted of proofs, by resource. Clones are the same numbers.
#[derive(Clone, Debug)]
pub struct ProofMetrics {
    proofs: Family<Label, Counter>,
    seconds: Family<Label, Histogram, fn() -> Histogram>,
}

/// The same of one mirror, and how long a proof of it may take.
#[derive(Clone, Debug)]
pub struct Proofs {
    metrics: ProofMetrics,
    resource: String,
    limit: Duration,
}

// === impl Proof ===

impl Proof {
    /// The word for it in labels and in the header that says who answered.
    pub fn word(self) -> &'static str {
        match self {
            Self::Revision => "revision",
            Self::Comparison => "comparison",
            Self::CatchUp => "catch-up",
            Self::List => "list",
            Self::Tick => "tick",
        }
    }

    /// The value of the header `Weir-Answered-By`.
    pub fn answered_by(self) -> &'static str {
        match self {
            Self::Revision => "mirror; revision",
            Self::Comparison => "mirror; comparison",
            Self::CatchUp => "mirror; catch-up",
            Self::List => "mirror; list",
            Self::Tick => "mirror; tick",
        }
    }
}

// === impl Outcome ===

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Proved(proof) => proof.word(),
            Self::Passed => "passed",
            Self::Refused => "refused",
        }
    }
}

// === impl ProofMetrics ===

impl Default for ProofMetrics {
    fn default() -> Self {
        Self { proofs: Family::default(), seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)) }
    }
}

impl ProofMetrics {
    /// Shows the numbers.
    pub fn register(&self, registry: &mut Registry) {
        let Self { proofs, seconds } = self;
        registry.register(
            "proofs",
            "Requests that needed a proof of freshness, by what came of it",
            proofs.clone(),
        );
        registry.register(
            "proof_seconds",
            "How long a request waited for a proof of freshness, or for none",
            seconds.clone(),
        );
    }

    /// The numbers of one mirror.
    pub fn of(&self, resource: &GroupResource) -> Proofs {
        Proofs { metrics: self.clone(), resource: resource.to_string(), limit: PROOF_LIMIT }
    }
}

// === impl Proofs ===

impl Proofs {
    /// The same with proofs that may take so long.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// How long a proof may take before upstream answers instead.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Counts a request that waited so long for a proof.
    pub fn count(&self, outcome: Outcome, pace: Pace, waited: Duration) {
        let label = [
            ("resource", self.resource.clone()),
            ("proof", outcome.word().to_owned()),
            ("pace", pace.word().to_owned()),
        ];
        self.metrics.proofs.get_or_create(&label).inc();
        self.metrics.seconds.get_or_create(&label).observe(waited.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_counted_by_kind_outcome_and_pace() {
        let metrics = ProofMetrics::default();
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let maps = metrics.of(&GroupResource::parse("gauges.metering.test"));
        maps.count(Outcome::Proved(Proof::CatchUp), Pace::Quiet, Duration::from_millis(300));
        maps.count(Outcome::Passed, Pace::Busy, Duration::from_millis(500));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let caught_up = r#"{resource="gauges.metering.test",proof="catch-up",pace="quiet"}"#;
        let passed = r#"{resource="gauges.metering.test",proof="passed",pace="busy"}"#;
        for line in [
            format!("proofs_total{caught_up} 1"),
            format!("proofs_total{passed} 1"),
            format!("proof_seconds_sum{caught_up} 0.3"),
            format!("proof_seconds_count{passed} 1"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
