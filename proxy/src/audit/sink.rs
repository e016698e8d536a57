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
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Events that wait: 10,000 × ~1.5 KB = 15 MB, as kube-apiserver's own buffer.
const WAITING: usize = 10_000;
/// How long after a failure what waits is written again.
const RETRY: Duration = Duration::from_secs(1);

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

/// A place where events go.
pub(super) trait Writer: Send {
    /// Why it takes none.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Events that it takes at once.
    const BATCH: usize;

    /// Writes events. How many it has taken, and why not more.
    fn write(&mut self, lines: &[Bytes]) -> impl Future<Output = (usize, Result<(), Self::Error>)> + Send;
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
        let is_up = self.shared.is_up.load(Ordering::Relaxed) && self.lines.capacity() > WAITING / 2;
        self.shared.up.set(i64::from(is_up));
        is_up
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
    /// Writes what comes until told to stop, and then what waits, once.
    pub(super) async fn write_to<W: Writer>(mut self, mut to: W, stop: CancellationToken) {
        let mut lines = Vec::new();
        while !stop.is_cancelled() {
            if lines.is_empty() {
                lines = stop.run_until_cancelled(self.take(W::BATCH)).await.unwrap_or_default();
            }
            if lines.is_empty() {
                break;
            }
            if !self.written(&mut to, &mut lines).await {
                stop.run_until_cancelled(tokio::time::sleep(RETRY)).await;
            }
        }
        loop {
            if lines.is_empty() {
                lines = std::iter::from_fn(|| self.lines.try_recv().ok()).take(W::BATCH).collect();
            }
            if lines.is_empty() || !self.written(&mut to, &mut lines).await {
                return;
            }
        }
    }

    /// Up to so many events, once there is one; none when nobody can send any more.
    async fn take(&mut self, most: usize) -> Vec<Bytes> {
        let mut lines = Vec::new();
        self.lines.recv_many(&mut lines, most).await;
        lines
    }

    /// Whether all of these were written, which are gone then.
    async fn written<W: Writer>(&self, to: &mut W, lines: &mut Vec<Bytes>) -> bool {
        let (count, written) = to.write(lines).await;
        lines.drain(..count);
        self.note(written.as_ref().copied().map_err(|error| error as &(dyn std::error::Error + 'static)));
        written.is_ok()
    }

    /// Whether what was taken has been written.
    fn note(&self, written: Result<(), &(dyn std::error::Error + 'static)>) {
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
    use parking_lot::Mutex;

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
    }

    /// Takes two events at once, and fails as often as it is told before.
    #[derive(Default)]
    struct Slate {
        failures: usize,
        written: Arc<Mutex<Vec<Vec<Bytes>>>>,
    }

    impl Writer for Slate {
        type Error = std::io::Error;
        const BATCH: usize = 2;

        async fn write(&mut self, lines: &[Bytes]) -> (usize, Result<(), Self::Error>) {
            if self.failures > 0 {
                self.failures -= 1;
                return (0, Err(std::io::Error::other("full")));
            }
            self.written.lock().push(lines.to_vec());
            (lines.len(), Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_at_the_end_is_written_once_and_what_failed_before_is_written_again() {
        for (failures, wanted) in [(0, vec![2, 2, 1]), (1, vec![])] {
            let (sink, source) = Sink::new("test");
            (0..5).for_each(|number: usize| sink.put(Bytes::from(number.to_string())));
            let (slate, stop) = (Slate { failures, ..Slate::default() }, CancellationToken::new());
            let written = slate.written.clone();
            stop.cancel();
            source.write_to(slate, stop).await;
            assert_eq!(written.lock().iter().map(Vec::len).collect::<Vec<_>>(), wanted, "{failures}");
        }
        let (sink, source) = Sink::new("test");
        let (slate, stop) = (Slate { failures: 3, ..Slate::default() }, CancellationToken::new());
        let written = slate.written.clone();
        sink.put(Bytes::from_static(b"one"));
        let play = async {
            tokio::time::sleep(RETRY * 4).await;
            assert!(sink.is_up());
            stop.cancel();
        };
        tokio::join!(source.write_to(slate, stop.clone()), play);
        assert_eq!(*written.lock(), [["one"]]);
    }
}
