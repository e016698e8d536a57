//! The queue in front of a place where events go. It is bounded, and half of it is for the ends of answers that have begun: from
//! there on, and while what was taken from it cannot be written, new answers are upstream's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tracing::{info, warn};

/// Events that wait: 10,000 × ~1.5 KB = 15 MB, as kube-apiserver's own buffer.
const WAITING: usize = 10_000;
/// How long after a failure what waits is written again.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// Takes events. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Sink {
    lines: mpsc::Sender<Bytes>,
    shared: Arc<Shared>,
}

/// Where they come out.
#[derive(Debug)]
pub struct Source {
    lines: mpsc::Receiver<Bytes>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: &'static str,
    is_up: AtomicBool,
    events: Counter,
    lost: Counter,
    up: Gauge,
}

// === impl Sink ===

impl Sink {
    /// A queue of a name that metrics have, and its other end.
    pub fn new(name: &'static str) -> (Self, Source) {
        let (sender, receiver) = mpsc::channel(WAITING);
        let (events, lost, up) = (Counter::default(), Counter::default(), Gauge::default());
        up.set(1);
        let shared = Arc::new(Shared { name, is_up: AtomicBool::new(true), events, lost, up });
        (Self { lines: sender, shared: shared.clone() }, Source { lines: receiver, shared })
    }

    /// Shows the numbers.
    pub(super) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_label(("sink".into(), self.shared.name.into()));
        registry.register("audit_events", "Audit events that were taken", self.shared.events.clone());
        let lost = "Audit events that there was no room for; answers that had begun before were not ended";
        registry.register("audit_lost", lost, self.shared.lost.clone());
        let up = "Whether audit events are written; while not, what they are about is passed through";
        registry.register("audit_up", up, self.shared.up.clone());
    }

    /// Whether new answers can be audited.
    pub(super) fn is_up(&self) -> bool {
        self.shared.is_up.load(Ordering::Relaxed) && self.lines.capacity() > WAITING / 2
    }

    pub(super) fn put(&self, line: Bytes) {
        match self.lines.try_send(line) {
            Ok(()) => self.shared.events.inc(),
            Err(_) => self.shared.lost.inc(),
        };
    }
}

// === impl Source ===

impl Source {
    /// Up to so many events, once there is one; none when nobody can write any more.
    pub(super) async fn take(&mut self, most: usize) -> Vec<Bytes> {
        let mut lines = Vec::new();
        self.lines.recv_many(&mut lines, most).await;
        lines
    }

    /// What waits now.
    pub(super) fn rest(&mut self) -> Vec<Bytes> {
        std::iter::from_fn(|| self.lines.try_recv().ok()).collect()
    }

    /// Whether what was taken has been written.
    pub(super) fn note(&self, written: Result<(), &(dyn std::error::Error + 'static)>) {
        let was_up = self.shared.is_up.swap(written.is_ok(), Ordering::Relaxed);
        self.shared.up.set(i64::from(written.is_ok()));
        let sink = self.shared.name;
        match written {
            Ok(()) if !was_up => info!(sink, "audit events are written again"),
            Err(error) if was_up => {
                warn!(sink, error, "audit events cannot be written, passing through what they are about");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn half_of_the_room_is_for_what_has_begun_and_nothing_is_taken_beyond() {
        let (sink, mut source) = Sink::new("test");
        let mut taken_up = 0;
        for number in 0..WAITING + 10 {
            taken_up += usize::from(sink.is_up());
            sink.put(Bytes::from(number.to_string()));
        }
        assert_eq!((taken_up, sink.shared.lost.get()), (WAITING / 2, 10));
        assert_eq!(source.take(WAITING).await.len(), WAITING);
        assert!(sink.is_up());
        source.note(Err(&std::io::Error::other("full")));
        assert!(!sink.is_up());
        source.note(Ok(()));
        assert!(sink.is_up());
        sink.put(Bytes::from_static(b"last"));
        assert_eq!(source.rest(), ["last"]);
    }
}
