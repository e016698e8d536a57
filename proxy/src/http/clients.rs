//! What one client may cost the others: requests that had to be refused, and large lists. Whoever has had too much of either
//! is answered 429 before anything is asked or read.
//!
//! A client is known by a keyed hash of its credential, so nothing here can tell a token; operators read the first word of its
//! User-Agent, since its user's name is upstream's to say. A refusal for weir's own reasons (429, 503, 504) is no fault of
//! the client's and counts for nothing: a fleet that waits for a mirror is told when to come again, and comes.

mod account;
mod bucket;
mod known;
mod metrics;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use http::header::AUTHORIZATION;
use http::request::Parts;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use weir_core::Status;

use self::account::{Account, Limit};
pub use self::bucket::Allowance;
use self::known::Known;
use self::metrics::ClientMetrics;
use super::body::ProxyBody;
use super::reading::Outcome;
use super::request::{ReadRequest, Target};
use crate::auth::certificate::CertificateUser;
use crate::passthrough::Passed;

/// Clients that are remembered. 10,000 accounts × ~120 bytes ≈ 1.2 MB. Beyond it those that cost nothing for longest are
/// forgotten, which is to forgive them.
const CLIENTS: usize = 10_000;

/// How much a client may cost. The defaults are far beyond what a fleet needs that shares one token: they stop what goes on
/// for minutes, not what comes at once.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Refused requests. 5,000 clients of one token whose revisions all went away may be told so once each; one that opens 100
    /// such watches a second is stopped after a minute.
    pub refusals: Allowance,
    /// Bytes of large lists. 5,000 clients of one token that start together may each list 10,000 objects of 2 KiB, which is 100
    /// GB; one that lists these 50 times a second is stopped when it has had as much, and has 5 lists a second from then on.
    pub list_bytes: Allowance,
    /// From how many bytes on a list is large: 500 objects of 8 KiB, listed however often, are not.
    pub large: u64,
}

/// Where a request came from; the server puts it beside the request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// All clients that cost something lately. Clones share them.
#[derive(Clone, Debug)]
pub struct Clients(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: ClientLimits,
    keys: RandomState,
    known: Mutex<Known<Account>>,
    metrics: ClientMetrics,
}

/// A list that is being sent. It is paid for when it has ended, however it ends.
struct Bill {
    clients: Clients,
    client: u64,
    reserved: u64,
    sent: u64,
}

// === impl ClientLimits ===

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            refusals: Allowance { a_second: 10, at_once: 5_000 },
            list_bytes: Allowance { a_second: 100 << 20, at_once: 100 << 30 },
            large: 4 << 20,
        }
    }
}

// === impl Clients ===

impl Clients {
    /// No client has cost anything yet.
    pub fn new(limits: ClientLimits) -> Self {
        let known = Mutex::new(Known::new(CLIENTS));
        Self(Arc::new(Shared { limits, keys: RandomState::new(), known, metrics: ClientMetrics::default() }))
    }

    /// Shows whom the limits hit.
    pub fn register(&self, registry: &mut Registry) {
        self.0.metrics.register(registry);
    }

    /// Refuses a request of a client that has had too much. Nothing has been asked or read for it yet.
    pub(super) fn admit(&self, parts: &Parts, request: &ReadRequest) -> Result<(), Status> {
        let (client, now) = (self.client(parts), Instant::now());
        let exceeded = self.0.known.lock().find(client).and_then(|account| account.exceeded(now));
        match exceeded {
            Some((Limit::Lists, _)) if !may_be_large(request) => Ok(()),
            Some((limit, wait)) => {
                self.0.metrics.limited(parts, limit);
                Err(too_much(limit, wait))
            }
            None => Ok(()),
        }
    }

    /// Puts what came of a request down to its client.
    pub(super) fn noted(&self, (parts, request): (&Parts, &ReadRequest), outcome: Outcome) -> Outcome {
        if is_refusal(request, &outcome) {
            self.account(self.client(parts), Account::refused);
            return outcome;
        }
        match outcome {
            Outcome::Answer(response) if may_be_large(request) => {
                Outcome::Answer(Box::new(response.map(|body| self.billed(self.client(parts), body))))
            }
            outcome => outcome,
        }
    }

    /// A client's name here: who has a credential is known by it, from wherever it comes; who has none, by where it comes from.
    fn client(&self, parts: &Parts) -> u64 {
        if let Some(user) = parts.extensions.get::<Arc<CertificateUser>>() {
            return self.0.keys.hash_one(user);
        }
        match parts.headers.get(AUTHORIZATION) {
            Some(credential) => self.0.keys.hash_one((true, credential.as_bytes())),
            None => {
                let address = parts.extensions.get::<PeerAddress>().map(|PeerAddress(address)| address);
                self.0.keys.hash_one((false, address))
            }
        }
    }

    /// A list's body whose bytes the client pays for. What its last large one cost is reserved meanwhile, so that many at
    /// once cost as much as one after the other.
    fn billed(&self, client: u64, body: ProxyBody) -> ProxyBody {
        let ProxyBody::Stream(stream, in_use) = body else { return body };
        let now = Instant::now();
        let reserved = self.0.known.lock().find(client).map_or(0, |account| account.reserve(now));
        let mut bill = Bill { clients: self.clone(), client, reserved, sent: 0 };
        let counted = stream.inspect_ok(move |piece| bill.add(piece.len()));
        ProxyBody::Stream(Box::pin(counted), in_use)
    }

    fn account(&self, client: u64, change: impl FnOnce(&mut Account, Instant)) {
        let now = Instant::now();
        let mut known = self.0.known.lock();
        change(known.get_or_insert(client, || Account::new(&self.0.limits, now)), now);
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self::new(ClientLimits::default())
    }
}

// === impl Bill ===

impl Bill {
    fn add(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        let Self { clients, client, reserved, sent } = self;
        let cost = if *sent >= clients.0.limits.large { *sent } else { 0 };
        if cost > 0 || *reserved > 0 {
            clients.account(*client, |account, now| account.pay(*reserved, cost, now));
        }
    }
}

/// Whether this was the client's own doing: what is wrong with the request stays wrong when it is sent again. A watch from
/// below the window counts whether or not upstream can serve it; whoever begins again at a newer revision opens one.
fn is_refusal(request: &ReadRequest, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Answer(response) => match response.status().as_u16() {
            429 => false,
            // An error in place of events.
            200 => request.is_watch() && matches!(response.body(), ProxyBody::Full(Some(_))),
            code => (400..500).contains(&code),
        },
        Outcome::Pass(why, _) => request.is_watch() && *why == Passed::TooOld,
        Outcome::Refusal => true,
    }
}

/// Whether the answer may be a whole collection. A limit counts for nothing at resourceVersion 0.
fn may_be_large(request: &ReadRequest) -> bool {
    let Target::Collection { .. } = request.target else { return false };
    let asked = |name| request.query.get(name).unwrap_or_default();
    let is_page = !["", "0"].contains(&asked("limit")) && asked("resourceVersion") != "0";
    !request.is_watch() && !is_page
}

fn too_much(limit: Limit, wait: Duration) -> Status {
    let message = match limit {
        Limit::Refusals => "this client has sent too many requests that had to be refused",
        Limit::Lists => {
            "this client has listed too much; pages (limit without resourceVersion=0) are not counted"
        }
    };
    let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
    Status::too_many_requests(message, seconds.max(1))
}
