//! The connections that a pool keeps between requests, and how much room they have.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use hyper::client::conn::http1;
use tokio::time::Instant;

use crate::{forward::RequestBody, wire::Http2};

/// Requests on one HTTP/2 connection. kube-apiserver takes 100.
pub(crate) const MAX_STREAMS: usize = 64;

/// Idle HTTP/1.1 connections kept, and for how long; Go's servers close theirs after 90 s.
const MAX_IDLE: usize = 32;
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The connections of one side.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) http2: Vec<Arc<Lane>>,
    http1: Vec<Idle>,
    /// Set when the instance chose HTTP/1.1: waiting for somebody else's connection is of no use then.
    pub(super) is_http1: bool,
    is_closed: bool,
}

/// A connection of HTTP/2, and how many streams are open on it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) http2: Http2,
    streams: AtomicUsize,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Instant,
}

// === impl Kept ===

impl Kept {
    pub(super) fn free_http2(&mut self) -> Option<Arc<Lane>> {
        self.http2.retain(|lane| !lane.http2.is_closed());
        let lane = self.http2.iter().find(|lane| lane.has_room())?;
        lane.streams.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(lane))
    }

    pub(super) fn free_http1(&mut self) -> Option<http1::SendRequest<RequestBody>> {
        self.http1.retain(|idle| !idle.sender.is_closed() && idle.since.elapsed() < IDLE_LIMIT);
        let at = self.http1.iter().rposition(|idle| idle.sender.is_ready())?;
        Some(self.http1.swap_remove(at).sender)
    }

    /// Keeps an HTTP/1.1 connection on which the last answer has been read.
    pub(super) fn give_back(&mut self, sender: http1::SendRequest<RequestBody>) {
        if !self.is_closed && !sender.is_closed() && self.http1.len() < MAX_IDLE {
            self.http1.push(Idle { sender, since: Instant::now() });
        }
    }

    /// A new connection with one stream, kept unless nothing is any more.
    pub(super) fn begin(&mut self, http2: Http2) -> Arc<Lane> {
        let lane = Arc::new(Lane { http2, streams: AtomicUsize::new(1) });
        if !self.is_closed {
            self.http2.push(Arc::clone(&lane));
        }
        lane
    }

    /// One stream of a connection has ended. An idle connection goes when another has room: a burst must not leave its
    /// connections behind for ever.
    pub(super) fn end(&mut self, lane: &Arc<Lane>) {
        lane.streams.fetch_sub(1, Ordering::Relaxed);
        self.retire(lane);
    }

    /// Keeps nothing from now on. What was kept is returned, to be dropped outside of the lock.
    pub(super) fn close(&mut self) -> impl Sized + use<> {
        self.is_closed = true;
        (std::mem::take(&mut self.http2), std::mem::take(&mut self.http1))
    }

    fn retire(&mut self, lane: &Arc<Lane>) {
        let has_other = self.http2.iter().any(|other| !Arc::ptr_eq(other, lane) && other.has_room());
        if has_other && lane.streams.load(Ordering::Relaxed) == 0 {
            self.http2.retain(|other| !Arc::ptr_eq(other, lane));
        }
    }
}

// === impl Lane ===

impl Lane {
    /// Counted up under the lock of the pool only, so the limit holds.
    fn has_room(&self) -> bool {
        let limit = self.http2.max_streams().clamp(1, MAX_STREAMS);
        !self.http2.is_closed() && self.streams.load(Ordering::Relaxed) < limit
    }
}

pub(super) fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
