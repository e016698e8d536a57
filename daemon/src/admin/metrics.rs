//! The metrics of a process. Each part makes its own as a struct and registers it once through
//! [`Metrics::with_registry`], which puts `weir_` before its names; nothing is static, so two processes in one test do not
//! share any.

mod process;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::{encoding::text, metrics::info::Info, registry::Registry};

use crate::Lifecycle;

use self::process::{ProcessMetrics, TaskMetrics};

/// All metrics of a process. Clones are the same.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Mutex<Registries>>);

#[derive(Debug)]
struct Registries {
    /// What every process has, under the names that everybody uses for it.
    process: Registry,
    /// What weir says of itself; all names begin with `weir_`.
    weir: Registry,
}

// === impl Metrics ===

impl Metrics {
    /// Those of every process: its build, memory, descriptors, time of CPU, and tasks. `role` is what it does, for example
    /// `proxy`.
    pub fn new(role: &'static str, lifecycle: &Lifecycle) -> Self {
        let mut process = Registry::default();
        process.register_collector(Box::new(ProcessMetrics));
        let mut weir = Registry::with_prefix("weir");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("role", role)]);
        weir.register("build", "What this process is", build);
        weir.register_collector(Box::new(TaskMetrics(lifecycle.clone())));
        Self(Arc::new(Mutex::new(Registries { process, weir })))
    }

    /// Registers metrics of a part, whose names have no `weir_` yet.
    pub fn with_registry<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registries().weir)
    }

    /// The page as OpenMetrics writes it.
    pub fn encode(&self) -> String {
        let registries = self.registries();
        let mut page = String::new();
        let encoded = text::encode_registry(&mut page, &registries.process)
            .and_then(|()| text::encode_registry(&mut page, &registries.weir))
            .and_then(|()| text::encode_eof(&mut page));
        encoded.expect("a string takes everything, and no metric of ours fails");
        page
    }

    fn registries(&self) -> std::sync::MutexGuard<'_, Registries> {
        // A registration that panicked leaves what it had registered, and that is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

    use super::*;

    /// The value of a line, by its name with labels.
    fn value(page: &str, name: &str) -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
    }

    #[test]
    fn the_registry_of_the_parts_has_the_prefix() {
        let metrics = Metrics::new("test", &Lifecycle::new());
        let requests = Counter::<u64>::default();
        metrics.clone().with_registry(|registry| registry.register("requests", "Requests", requests.clone()));
        metrics.with_registry(|registry| registry.register("mirrors", "Mirrors", Gauge::<i64>::default()));
        requests.inc_by(3);
        let page = metrics.encode();
        assert_eq!(value(&page, "weir_requests_total"), 3.0);
        assert_eq!(value(&page, "weir_mirrors"), 0.0);
        assert!(page.ends_with("\n# EOF\n") && page.matches("# EOF").count() == 1, "{page}");
        let build = format!("weir_build_info{{version=\"{}\",role=\"test\"}}", env!("CARGO_PKG_VERSION"));
        assert_eq!(value(&page, &build), 1.0);
    }

    #[tokio::test]
    async fn tasks_are_counted() {
        let lifecycle = Lifecycle::new();
        let metrics = Metrics::new("test", &lifecycle);
        assert_eq!(value(&metrics.encode(), "weir_tasks"), 0.0);
        lifecycle.spawn("a", std::future::pending());
        lifecycle.spawn("b", std::future::pending());
        assert_eq!(value(&metrics.encode(), "weir_tasks"), 2.0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_the_process_takes_is_measured() {
        let files: Vec<_> = (0..100).map(|_| std::fs::File::open("/proc/self/stat").unwrap()).collect();
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        let page = Metrics::new("test", &Lifecycle::new()).encode();
        // Other tests run in this process too, so nothing is known exactly; a wrong unit would be far off.
        for (name, least, most) in [
            ("process_open_fds", 100.0, 10_000.0),
            ("process_resident_memory_bytes", f64::from(64 << 20), 64.0 * f64::from(1 << 30)),
            ("process_cpu_seconds_total", 1e-6, 3_600.0),
        ] {
            let value = value(&page, name);
            assert!((least..most).contains(&value), "{name} is {value}");
        }
        drop((files, memory));
    }
}
