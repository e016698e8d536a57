//! A request that was let in: what it has open until its answer has been sent, and what it costs its client.

use std::hash::BuildHasher;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http_body::{Body, Frame};
use tokio::sync::OwnedSemaphorePermit;
use weir_core::interest::Interest;
use weir_core::{GroupVersionResource, Status};
use weir_upstream::BoxError;

use super::account::Account;
use super::open::{Full, Kind, Open};
use super::turns::Turn;
use super::{Clients, Of, is_refusal};
use crate::http::body::{ProxyBody, Segments};
use crate::http::line::Held;
use crate::http::reading::Outcome;
use crate::http::request::ReadRequest;

/// A request that was let in. Clones are of the same one; it is over when the last is gone.
#[derive(Clone, Debug)]
pub(in crate::http) struct Guest(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    clients: Clients,
    client: u64,
    is_large: bool,
    places: Option<Places>,
    interest: OnceLock<u64>,
}

/// What a list or watch holds, of its client and of all.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) kind: Kind,
    pub(super) of_one: Arc<Open>,
    pub(super) of_all: Arc<Open>,
    pub(super) _held: [Held; 2],
}

/// The turn of a watch that is behind to read the logs of shards.
pub(in crate::http) struct Late {
    _permits: [Option<OwnedSemaphorePermit>; 2],
}

/// What is sent of a state. It is paid for when it has ended, however it ends.
pub(in crate::http) struct Bill {
    guest: Guest,
    reserved: u64,
    sent: u64,
}

/// The body of an answer to a guest.
pub struct Served {
    body: ProxyBody,
    guest: Guest,
    bill: Option<Bill>,
    /// What the connection of a list took last, until it asks for more.
    under_way: u64,
    /// That of a list to make a piece, and to have it written.
    turn: Option<Turn>,
    waiting: Option<BoxFuture<'static, Turn>>,
}

// === impl Guest ===

impl Guest {
    pub(super) fn new((clients, client): (Clients, u64), places: Option<Places>, is_large: bool) -> Self {
        Self(Arc::new(Inside { clients, client, is_large, places, interest: OnceLock::new() }))
    }

    /// Puts what came of the request down to its client.
    pub(in crate::http) fn noted(&self, request: &ReadRequest, outcome: &Outcome) {
        if is_refusal(request, outcome) {
            self.0.clients.account(self.0.client, Account::refused);
        }
    }

    /// The body of its answer, which ends it. A large one is paid for.
    pub(in crate::http) fn served(self, body: ProxyBody) -> ProxyBody {
        if self.0.places.is_none() || matches!(body, ProxyBody::Full(_)) {
            return body;
        }
        let bill = self.0.is_large.then(|| self.bill());
        ProxyBody::Served(Box::new(Served {
            body,
            guest: self,
            bill,
            under_way: 0,
            turn: None,
            waiting: None,
        }))
    }

    /// Its bill, for which what the last one of its client cost is reserved: so many at once cost as much as one after the other.
    pub(in crate::http) fn bill(&self) -> Bill {
        let reserved = self.0.clients.reserve(self.0.client);
        Bill { guest: self.clone(), reserved, sent: 0 }
    }

    /// Refuses a watch of one interest too many, of its client or of all.
    pub(in crate::http) fn watches(
        &self,
        parts: &Parts,
        (resource, interest): (&GroupVersionResource, &Interest),
    ) -> Result<(), Status> {
        let Some(Places { of_one, of_all, .. }) = &self.0.places else { return Ok(()) };
        if interest.scope.name.is_some() {
            return Ok(());
        }
        let name = self.0.clients.0.keys.hash_one((resource, interest));
        let refused = |full: Full, of: Of| self.0.clients.full(parts, full, of);
        of_one.watch(name).map_err(|full| refused(full, Of::One))?;
        if let Err(full) = of_all.watch(name) {
            of_one.unwatch(name);
            return Err(refused(full, Of::All));
        }
        // A request watches once.
        let _ = self.0.interest.set(name);
        Ok(())
    }

    /// Waits for a turn to read the logs of shards.
    pub(in crate::http) async fn late(&self) -> Late {
        match &self.0.places {
            Some(Places { of_one, of_all, .. }) => {
                Late { _permits: [of_one.late().await, of_all.late().await] }
            }
            None => Late { _permits: [None, None] },
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let (Some(places), Some(interest)) = (&self.places, self.interest.get()) else { return };
        places.of_one.unwatch(*interest);
        places.of_all.unwatch(*interest);
    }
}

// === impl Bill ===

impl Bill {
    /// So much has been sent.
    pub(in crate::http) fn add(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        let Inside { clients, client, .. } = &*self.guest.0;
        clients.paid(*client, (self.reserved, self.sent));
    }
}

// === impl Served ===

impl Served {
    /// What is inside.
    pub(in crate::http) fn body(&self) -> &ProxyBody {
        &self.body
    }

    /// The next of it. That it is asked for means that what came before has gone on.
    pub(in crate::http) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Segments>, BoxError>>> {
        self.takes(0);
        ready!(self.poll_turn(context));
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() {
            self.turn = None;
        }
        let frame = ready!(frame);
        if let Some(Ok(frame)) = &frame {
            let length = frame.data_ref().map_or(0, Segments::len);
            self.takes(length as u64);
            if let Some(bill) = &mut self.bill {
                bill.add(length);
            }
        }
        Poll::Ready(frame)
    }

    /// Waits for a turn, if this is a list and others than its client ask as well.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.turn = None;
        let Inside { clients, places, .. } = &*self.guest.0;
        if let (None, Some(Places { kind: Kind::List, of_one, .. })) = (&self.waiting, places)
            && clients.are_several()
        {
            self.waiting = Some(of_one.turn().boxed());
        }
        if let Some(waiting) = &mut self.waiting {
            self.turn = Some(ready!(waiting.poll_unpin(context)));
            self.waiting = None;
        }
        Poll::Ready(())
    }

    fn takes(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.under_way, bytes);
        if let Some(Places { kind: Kind::List, of_one, of_all, .. }) = &self.guest.0.places
            && before != bytes
        {
            of_one.moved(before, bytes);
            of_all.moved(before, bytes);
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.takes(0);
    }
}
