//! What the process takes of its machine, read when somebody asks and not before. A figure that the system does not give
//! (there is no /proc outside Linux) is left out, for a zero would look like a measurement.

use std::fmt;

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use rustix::{
    param::page_size,
    time::{ClockId, clock_gettime},
};

use crate::Lifecycle;

/// Memory, descriptors and time of CPU, under the names that Prometheus' own libraries give them.
#[derive(Debug)]
pub(super) struct ProcessMetrics;

/// The tasks of a life.
#[derive(Debug)]
pub(super) struct TaskMetrics(pub(super) Lifecycle);

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let cpu = ConstCounter::new(cpu_seconds());
        let help = "Time of CPU that the process took";
        cpu.encode(encoder.encode_descriptor(
            "process_cpu",
            help,
            Some(&Unit::Seconds),
            cpu.metric_type(),
        )?)?;
        if let Some(bytes) = resident_bytes() {
            let resident = ConstGauge::new(bytes);
            let (name, help) = ("process_resident_memory", "Memory that the process holds");
            let metric = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), resident.metric_type())?;
            resident.encode(metric)?;
        }
        if let Some(count) = open_files() {
            let open = ConstGauge::new(count);
            let help = "Descriptors that the process has open";
            open.encode(encoder.encode_descriptor("process_open_fds", help, None, open.metric_type())?)?;
        }
        Ok(())
    }
}

impl Collector for TaskMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let tasks = ConstGauge::new(i64::try_from(self.0.len()).unwrap_or(i64::MAX));
        tasks.encode(encoder.encode_descriptor("tasks", "Tasks of the process", None, tasks.metric_type())?)
    }
}

/// Of all threads, those that have ended too.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // A process that took 2^53 seconds of CPU is none of ours.
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The second number of statm, in pages.
fn resident_bytes() -> Option<i64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: i64 = statm.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(i64::try_from(page_size()).ok()?)
}

/// Without the one that counting takes.
fn open_files() -> Option<i64> {
    let open = std::fs::read_dir("/proc/self/fd").ok()?.count();
    i64::try_from(open.saturating_sub(1)).ok()
}
