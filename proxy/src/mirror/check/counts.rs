//! What is counted of self-checks.

use prometheus_client::metrics::{counter::Counter, family::Family};
use prometheus_client::registry::Registry;
use weir_core::GroupResource;

/// One label: the resource. There are as many as mirrors.
type Label = [(&'static str, String); 1];

/// Self-checks by resource. Clones are the same numbers.
#[derive(Clone, Debug, Default)]
pub struct CheckMetrics {
    checks: Family<Label, Counter>,
    failures: Family<Label, Counter>,
}

/// The same of one mirror.
#[derive(Clone, Debug, Default)]
pub struct CheckCounts {
    /// Comparisons that came to a result.
    pub checks: Counter,
    /// Those that found another content than upstream's.
    pub failures: Counter,
}

// === impl CheckMetrics ===

impl CheckMetrics {
    /// Shows the numbers.
    pub fn register(&self, registry: &mut Registry) {
        let Self { checks, failures } = self;
        registry.register(
            "self_checks",
            "Comparisons of a mirror with upstream at one revision that came to a result",
            checks.clone(),
        );
        registry.register(
            "self_check_failures",
            "Self-checks that found another content than upstream's: an event was lost, or bytes changed without one",
            failures.clone(),
        );
    }

    /// The numbers of one mirror.
    pub fn of(&self, resource: &GroupResource) -> CheckCounts {
        let label = [("resource", resource.to_string())];
        let of = |family: &Family<Label, Counter>| family.get_or_create(&label).clone();
        CheckCounts { checks: of(&self.checks), failures: of(&self.failures) }
    }
}
