//! The connections to one instance over which requests of others are passed on. Nothing of weir's goes over them.
//!
//! hyper-util's pool was the plainer way; it puts every stream on one HTTP/2 connection, and upstream takes a hundred:
//! the next request, perhaps a write, would wait for a watch to end.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::client::conn::http1;
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    access::Identity,
    error::ConnectError,
    forward::RequestBody,
    instance::Instance,
    wire::{self, Http2, Purpose, Windows, Wire},
};

/// Requests on one HTTP/2 connection. kube-apiserver takes 100.
pub(crate) const MAX_STREAMS: usize = 64;

/// Small enough that 64 clients that do not read, 64 × 256 KB = 16 MB, cannot fill the connection for the others.
const SHARED: Windows = Windows { stream: 256 << 10, connection: 16 << 20 };

/// Idle HTTP/1.1 connections kept, and for how long; Go's servers close theirs after 90 s.
const MAX_IDLE: usize = 32;
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// The pool of one instance.
#[derive(Debug)]
pub(crate) struct Pool {
    kept: Arc<Mutex<Kept>>,
    /// One permit: a burst of requests shares the connection that the first of them opens.
    dialling: Semaphore,
}

#[derive(Debug, Default)]
struct Kept {
    http2: Vec<Arc<Lane>>,
    http1: Vec<Idle>,
    /// Set when the instance chose HTTP/1.1: waiting for somebody else's connection is of no use then.
    is_http1: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Lane {
    http2: Http2,
    streams: AtomicUsize,
}

#[derive(Debug)]
struct Idle {
    sender: http1::SendRequest<RequestBody>,
    since: Instant,
}

/// The right to send one request, held until its answer has been read or dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    wire: Wire,
    kept: Arc<Mutex<Kept>>,
    /// Of an HTTP/2 connection.
    _place: Option<Place>,
}

/// Counts as one stream of its connection while it lives.
#[derive(Debug)]
struct Place {
    lane: Arc<Lane>,
    kept: Arc<Mutex<Kept>>,
}

/// The connection of a request that hopes for an upgrade: never pooled, HTTP/1.1 whatever the others speak.
pub(crate) const UPGRADE: Purpose = Purpose { identity: Identity::BareHttp1, windows: SHARED };

const POOLED: Purpose = Purpose { identity: Identity::Bare, windows: SHARED };

// === impl Pool ===

impl Default for Pool {
    fn default() -> Self {
        Self { kept: Arc::default(), dialling: Semaphore::new(1) }
    }
}

impl Pool {
    /// A connection with room, opened if need be.
    pub(crate) async fn ticket(&self, instance: &Instance) -> Result<Ticket, ConnectError> {
        if let Some(ticket) = self.free() {
            return Ok(ticket);
        }
        if lock(&self.kept).is_http1 {
            return self.dial(instance).await;
        }
        let asked = Instant::now();
        // The semaphore is never closed, so the permit comes.
        let _turn = self.dialling.acquire().await;
        if let Some(ticket) = self.free() {
            return Ok(ticket);
        }
        if instance.failed_since(asked) {
            return Err(ConnectError::JustFailed { instance: instance.name().to_owned() });
        }
        self.dial(instance).await
    }

    /// A connection of its own, for a request after one on a kept connection was lost: that one may have gone stale.
    pub(crate) async fn dial(&self, instance: &Instance) -> Result<Ticket, ConnectError> {
        let wire = wire::open(instance, POOLED).await?;
        let mut kept = lock(&self.kept);
        let place = match &wire {
            Wire::Http2(http2) => {
                let lane = Arc::new(Lane { http2: http2.clone(), streams: AtomicUsize::new(1) });
                kept.is_http1 = false;
                if !kept.is_closed {
                    kept.http2.push(Arc::clone(&lane));
                }
                Some(Place { lane, kept: Arc::clone(&self.kept) })
            }
            Wire::Http1(_) => {
                kept.is_http1 = true;
                None
            }
        };
        Ok(Ticket { wire, _place: place, kept: Arc::clone(&self.kept) })
    }

    /// Keeps no connection from now on. Requests under way go on.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut kept = lock(&self.kept);
            kept.is_closed = true;
            (std::mem::take(&mut kept.http2), std::mem::take(&mut kept.http1))
        };
        drop(dropped);
    }

    fn free(&self) -> Option<Ticket> {
        let mut kept = lock(&self.kept);
        if let Some(lane) = kept.free_http2() {
            let wire = Wire::Http2(lane.http2.clone());
            let place = Some(Place { lane, kept: Arc::clone(&self.kept) });
            return Some(Ticket { wire, _place: place, kept: Arc::clone(&self.kept) });
        }
        let wire = Wire::Http1(kept.free_http1()?);
        Some(Ticket { wire, _place: None, kept: Arc::clone(&self.kept) })
    }
}

// === impl Kept ===

impl Kept {
    fn free_http2(&mut self) -> Option<Arc<Lane>> {
        self.http2.retain(|lane| !lane.http2.is_closed());
        let lane = self.http2.iter().find(|lane| lane.has_room())?;
        lane.streams.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(lane))
    }

    fn free_http1(&mut self) -> Option<http1::SendRequest<RequestBody>> {
        self.http1.retain(|idle| !idle.sender.is_closed() && idle.since.elapsed() < IDLE_LIMIT);
        let at = self.http1.iter().rposition(|idle| idle.sender.is_ready())?;
        Some(self.http1.swap_remove(at).sender)
    }

    /// An idle connection goes when another has room: a burst must not leave its connections behind for ever.
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

// === impl Ticket ===

impl Ticket {
    /// A connection that is used for one request and never kept.
    pub(crate) fn single(wire: Wire) -> Self {
        Self { wire, _place: None, kept: Arc::new(Mutex::new(Kept { is_closed: true, ..Kept::default() })) }
    }

    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// To be called when the answer has been read. A ticket that is dropped instead takes an HTTP/1.1 connection with
    /// it, which is no loss: there is an answer on it that nobody wants.
    pub(crate) fn give_back(self) {
        let Wire::Http1(sender) = self.wire else { return };
        let mut kept = lock(&self.kept);
        if !kept.is_closed && !sender.is_closed() && kept.http1.len() < MAX_IDLE {
            kept.http1.push(Idle { sender, since: Instant::now() });
        }
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        let mut kept = lock(&self.kept);
        self.lane.streams.fetch_sub(1, Ordering::Relaxed);
        kept.retire(&self.lane);
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
