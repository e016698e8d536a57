//! The connections to one instance over which requests of others are passed on. Nothing of weir's goes over them.
//!
//! hyper-util's pool was the plainer way; it puts every stream on one HTTP/2 connection, and upstream takes a hundred:
//! the next request, perhaps a write, would wait for a watch to end.

pub(crate) mod kept;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use hyper::client::conn::http1;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::{
    access::Identity,
    error::ConnectError,
    forward::RequestBody,
    front,
    instance::Instance,
    strangers::Party,
    traffic::Traffic,
    wire::{self, Purpose, Windows, Wire},
};

use self::kept::{Kept, Lane, lock};

/// Requests under way in one pool of an instance, by their kind, tunnels among the streams. Together 16,384: 256 connections of HTTP/2,
/// or as many of HTTP/1.1 as a process may have descriptors. Beyond it the instance counts as one that cannot be reached.
const MAX_WRITES: usize = 3_072;
const MAX_REVIEWS: usize = 1_024;
const MAX_STREAMED: usize = 8_192;
const MAX_READS: usize = 4_096;

/// Small enough that 64 clients that do not read, 64 × 256 KB = 16 MB, cannot fill the connection for the others.
const SHARED: Windows = Windows { stream: 256 << 10, connection: 16 << 20 };

/// Strangers under way at one instance, so that they never take the room of others.
const MAX_STRANGERS: usize = 1_024;

/// Bounds the wait for a connection that somebody else opens: two connects that time out.
const TURN_LIMIT: Duration = Duration::from_secs(10);

/// The pool of one instance. Strangers are few and have no kinds.
#[derive(Debug)]
pub(crate) struct Pool {
    writes: Side,
    reviews: Side,
    streams: Side,
    reads: Side,
    strangers: Side,
}

/// On which connections a request goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) party: Party,
    pub(crate) traffic: Traffic,
}

/// The connections of one kind of requests.
#[derive(Debug)]
struct Side {
    identity: Identity,
    kept: Arc<Mutex<Kept>>,
    /// One permit: a burst of requests shares the connection that the first of them opens.
    dialling: Semaphore,
    room: Arc<Semaphore>,
}

/// A connection with room for one more request, counted already.
enum Free {
    Lane(Arc<Lane>),
    Http1(http1::SendRequest<RequestBody>),
}

/// The right to send one request, held until its answer has been read or dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    wire: Wire,
    /// None for a connection that is not kept.
    kept: Option<Arc<Mutex<Kept>>>,
    /// On an HTTP/2 connection.
    place: Option<Place>,
    /// At the instance.
    _room: OwnedSemaphorePermit,
}

/// Counts as one stream of its connection while it lives.
#[derive(Debug)]
struct Place {
    lane: Arc<Lane>,
    kept: Arc<Mutex<Kept>>,
}

// === impl Pool ===

impl Pool {
    /// No connections yet; what they show is this identity's.
    pub(crate) fn new(identity: Identity) -> Self {
        let side = |max_under_way| Side::new(identity, max_under_way);
        Self {
            writes: side(MAX_WRITES),
            reviews: side(MAX_REVIEWS),
            streams: side(MAX_STREAMED),
            reads: side(MAX_READS),
            strangers: side(MAX_STRANGERS),
        }
    }

    /// A connection with room, opened if need be.
    pub(crate) async fn ticket(&self, instance: &Instance, way: Way) -> Result<Ticket, ConnectError> {
        self.side(way).ticket(instance).await
    }

    /// A connection that is new, for a request after some on kept connections were lost: those may have gone stale.
    pub(crate) async fn dial(&self, instance: &Instance, way: Way) -> Result<Ticket, ConnectError> {
        let side = self.side(way);
        let room = side.room(instance)?;
        Ok(side.admit(side.open(instance).await?, room))
    }

    /// A connection for one request, which no other can end: for one that was refused on connections of others again and again.
    pub(crate) async fn alone(&self, instance: &Instance, way: Way) -> Result<Ticket, ConnectError> {
        let side = self.side(way);
        side.unshared(instance, side.identity).await
    }

    /// A connection for one request that hopes for an upgrade: HTTP/1.1 whatever the others speak, and never kept.
    pub(crate) async fn single(&self, instance: &Instance, party: Party) -> Result<Ticket, ConnectError> {
        let side = self.side(Way { party, traffic: Traffic::Streams });
        side.unshared(instance, side.identity.over_http1()).await
    }

    /// Keeps no connection from now on. Requests under way go on.
    pub(crate) fn close(&self) {
        let Self { writes, reviews, streams, reads, strangers } = self;
        [writes, reviews, streams, reads, strangers].into_iter().for_each(Side::close);
    }

    fn side(&self, way: Way) -> &Side {
        match (way.party, way.traffic) {
            (Party::Strangers, _) => &self.strangers,
            (Party::Known, Traffic::Writes) => &self.writes,
            (Party::Known, Traffic::Reviews) => &self.reviews,
            (Party::Known, Traffic::Streams) => &self.streams,
            (Party::Known, Traffic::Reads) => &self.reads,
        }
    }
}

// === impl Side ===

impl Side {
    fn new(identity: Identity, max_under_way: usize) -> Self {
        Self {
            identity,
            kept: Arc::default(),
            dialling: Semaphore::new(1),
            room: Arc::new(Semaphore::new(max_under_way)),
        }
    }

    async fn unshared(&self, instance: &Instance, identity: Identity) -> Result<Ticket, ConnectError> {
        let room = self.room(instance)?;
        let wire = self.wire(instance, identity).await?;
        Ok(Ticket { wire, kept: None, place: None, _room: room })
    }

    async fn ticket(&self, instance: &Instance) -> Result<Ticket, ConnectError> {
        let room = self.room(instance)?;
        if let Some(lane) = self.free() {
            return Ok(self.admit(lane, room));
        }
        if lock(&self.kept).is_http1 {
            return Ok(self.admit(self.open(instance).await?, room));
        }
        let asked = Instant::now();
        // The semaphore is never closed, so the permit comes or takes too long.
        let turn = tokio::time::timeout(TURN_LIMIT, self.dialling.acquire()).await;
        let _turn = turn.map_err(|_| ConnectError::Timeout { instance: instance.name().to_owned() })?;
        if let Some(lane) = self.free() {
            return Ok(self.admit(lane, room));
        }
        if instance.failed_since(asked) {
            return Err(ConnectError::JustFailed { instance: instance.name().to_owned() });
        }
        Ok(self.admit(self.open(instance).await?, room))
    }

    fn room(&self, instance: &Instance) -> Result<OwnedSemaphorePermit, ConnectError> {
        let room = Arc::clone(&self.room).try_acquire_owned();
        room.map_err(|_| ConnectError::Full { instance: instance.name().to_owned() })
    }

    /// A new connection. As the front proxy's it is used once it is proved to be one.
    async fn wire(&self, instance: &Instance, identity: Identity) -> Result<Wire, ConnectError> {
        let mut wire = wire::open(instance, Purpose { identity, windows: SHARED }).await?;
        if identity.is_front() {
            front::prove(instance, &mut wire).await?;
        }
        Ok(wire)
    }

    async fn open(&self, instance: &Instance) -> Result<Free, ConnectError> {
        let wire = self.wire(instance, self.identity).await?;
        let mut kept = lock(&self.kept);
        kept.is_http1 = matches!(wire, Wire::Http1(_));
        Ok(match wire {
            Wire::Http2(http2) => Free::Lane(kept.begin(http2)),
            Wire::Http1(sender) => Free::Http1(sender),
        })
    }

    fn admit(&self, free: Free, room: OwnedSemaphorePermit) -> Ticket {
        let kept = Arc::clone(&self.kept);
        let (wire, place) = match free {
            Free::Lane(lane) => {
                (Wire::Http2(lane.http2.clone()), Some(Place { lane, kept: Arc::clone(&kept) }))
            }
            Free::Http1(sender) => (Wire::Http1(sender), None),
        };
        Ticket { wire, kept: Some(kept), place, _room: room }
    }

    fn close(&self) {
        let dropped = lock(&self.kept).close();
        drop(dropped);
    }

    fn free(&self) -> Option<Free> {
        let mut kept = lock(&self.kept);
        kept.free_http2().map(Free::Lane).or_else(|| kept.free_http1().map(Free::Http1))
    }
}

// === impl Ticket ===

impl Ticket {
    pub(crate) fn wire(&mut self) -> &mut Wire {
        &mut self.wire
    }

    /// No other request goes over this connection: it is about to end.
    pub(crate) fn retire(&self) {
        let Some(Place { lane, kept }) = &self.place else { return };
        lock(kept).http2.retain(|other| !Arc::ptr_eq(other, lane));
        lane.http2.close();
    }

    /// To be called when the answer has been read. A ticket that is dropped instead takes an HTTP/1.1 connection with
    /// it, which is no loss: there is an answer on it that nobody wants.
    pub(crate) fn give_back(self) {
        let (Wire::Http1(sender), Some(kept)) = (self.wire, &self.kept) else { return };
        lock(kept).give_back(sender);
    }
}

// === impl Place ===

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.kept).end(&self.lane);
    }
}

#[cfg(test)]
mod tests;
