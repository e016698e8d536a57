//! What one client may cost the others, and have open beside them: refused requests and large lists over time, lists, bytes,
//! watches and interests at once. Whoever has had too much of one is answered 429 before anything is asked or read.
//!
//! A client is known by a keyed hash of its credential, so nothing here can tell a token; operators read the first word of its
//! User-Agent, since its user's name is upstream's to say. A refusal for weir's own reasons (429, 503, 504) is no fault of
//! the client's and counts for nothing: a fleet that waits for a mirror is told when to come again, and comes.

mod account;
mod guest;
mod metrics;
mod open;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::time::Instant;
use weir_core::Status;

use self::account::{Account, Limit};
use self::guest::Places;
pub use self::guest::Served;
pub(super) use self::guest::{Bill, Guest};
use self::metrics::ClientMetrics;
pub use self::open::AtOnce;
use self::open::{Full, Kind, Open};
use super::body::ProxyBody;
use super::reading::Outcome;
use super::request::{ReadRequest, Target};
use crate::auth::certificate::CertificateUser;
pub use crate::bucket::Allowance;
use crate::known::Known;
use crate::passthrough::Passed;

/// Clients that are remembered. 10,000 accounts × ~120 bytes ≈ 1.2 MB. Beyond it those that cost nothing for longest are
/// forgotten, which is to forgive them.
const CLIENTS: usize = 10_000;
/// From so many clients on it is looked which of them have nothing open any more.
const SWEEP_AT: usize = 1_000;

/// How long it counts that another client has asked.
const SEVERAL: Duration = Duration::from_secs(1);

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
    /// Pieces of lists of one client that are being made and written at once, while others ask as well.
    pub pieces: usize,
    /// What one client may have open: half of what all may.
    pub of_one: AtOnce,
    /// What all may have open together. 8,000 lists and 1 GiB of them; 100,000 watches of some 15 KiB are 1.5 GiB; 1,024 that
    /// are behind read a few hundred events each; 50,000 interests of some KiB.
    pub of_all: AtOnce,
}

/// Where a request came from; the server puts it beside the request.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// All clients that cost something lately or have something open. Clones share them.
#[derive(Clone, Debug)]
pub struct Clients(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// None where nobody is limited.
    limits: Option<ClientLimits>,
    keys: RandomState,
    state: Mutex<State>,
    /// Since when clients are counted, and until how many milliseconds later there are several.
    began: Instant,
    several_until: AtomicU64,
    of_all: Arc<Open>,
    metrics: ClientMetrics,
}

#[derive(Debug)]
struct State {
    known: Known<u64, Account>,
    /// As many as there are clients with something open, and at most as many again.
    open: HashMap<u64, Weak<Open>>,
    sweep_at: usize,
    /// Who asked last.
    last: u64,
}

/// Whose limit it is.
#[derive(Clone, Copy, Debug)]
enum Of {
    One,
    All,
}

// === impl ClientLimits ===

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            refusals: Allowance { a_second: 10, at_once: 5_000 },
            list_bytes: Allowance { a_second: 100 << 20, at_once: 100 << 30 },
            large: 4 << 20,
            pieces: (cores() / 2).max(1),
            of_one: AtOnce { lists: 4_000, bytes: 512 << 20, watches: 50_000, late: 512, interests: 25_000 },
            of_all: AtOnce { lists: 8_000, bytes: 1 << 30, watches: 100_000, late: 1_024, interests: 50_000 },
        }
    }
}

// === impl Clients ===

impl Clients {
    /// No client has cost anything yet.
    pub fn new(limits: ClientLimits) -> Self {
        Self::with(Some(limits))
    }

    /// Clients of which none is limited.
    pub fn unlimited() -> Self {
        Self::with(None)
    }

    fn with(limits: Option<ClientLimits>) -> Self {
        let of_all = Arc::new(Open::new(limits.unwrap_or_default().of_all, 0));
        let state = State { known: Known::new(CLIENTS), open: HashMap::new(), sweep_at: SWEEP_AT, last: 0 };
        let (keys, state, metrics) = (RandomState::new(), Mutex::new(state), ClientMetrics::default());
        let (began, several_until) = (Instant::now(), AtomicU64::new(0));
        Self(Arc::new(Shared { limits, keys, state, began, several_until, of_all, metrics }))
    }

    /// Shows whom the limits hit, and what is open.
    pub fn register(&self, registry: &mut Registry) {
        self.0.metrics.register(registry);
        registry.register_collector(Box::new(self.clone()));
    }

    /// Lets a request in, or refuses that of a client that has had or has too much. Nothing has been asked or read for it yet.
    pub(super) fn admit(&self, parts: &Parts, request: &ReadRequest) -> Result<Guest, Status> {
        let client = self.client(parts);
        let (guest, is_large) = ((self.clone(), client), may_be_large(request));
        let Some(limits) = &self.0.limits else { return Ok(Guest::new(guest, None, false)) };
        let kind = match request.target {
            Target::Object { .. } => None,
            Target::Collection { .. } if request.is_watch() => Some(Kind::Watch),
            Target::Collection { .. } => Some(Kind::List),
        };
        let (now, is_costly) = (Instant::now(), is_large || shows_state(request));
        let admitted = {
            let mut state = self.0.state.lock();
            if std::mem::replace(&mut state.last, client) != client {
                self.0.several_until.store(self.elapsed(now + SEVERAL), Ordering::Relaxed);
            }
            let exceeded = state.known.find(&client).and_then(|account| account.exceeded(now));
            match exceeded.filter(|(limit, _)| *limit != Limit::Lists || is_costly) {
                Some(exceeded) => Err(exceeded),
                None => Ok(kind.map(|kind| (kind, state.open(client, limits)))),
            }
        };
        let open = admitted.map_err(|(limit, wait)| {
            self.0.metrics.limited(parts, limit);
            too_much(limit, wait)
        })?;
        let places = open.map(|open| self.places(parts, open)).transpose()?;
        Ok(Guest::new(guest, places, is_large))
    }

    fn places(&self, parts: &Parts, (kind, of_one): (Kind, Arc<Open>)) -> Result<Places, Status> {
        let of_all = self.0.of_all.clone();
        let one = of_one.enter(kind).map_err(|full| self.full(parts, full, Of::One))?;
        let all = of_all.enter(kind).map_err(|full| self.full(parts, full, Of::All))?;
        Ok(Places { kind, of_one, of_all, _held: [one, all] })
    }

    /// The refusal of what there is no place for.
    fn full(&self, parts: &Parts, Full { limit, seconds }: Full, of: Of) -> Status {
        match of {
            Of::One => {
                self.0.metrics.limited(parts, limit);
                Status::too_many_requests("this client has too much open", seconds)
            }
            Of::All => {
                self.0.metrics.full(limit);
                Status::too_many_requests("clients have too much open", seconds)
            }
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

    /// Whether more than one client has asked of late.
    fn are_several(&self) -> bool {
        self.elapsed(Instant::now()) < self.0.several_until.load(Ordering::Relaxed)
    }

    fn elapsed(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.0.began).as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes from a client what its last large list cost.
    fn reserve(&self, client: u64) -> u64 {
        let now = Instant::now();
        self.0.state.lock().known.find(&client).map_or(0, |account| account.reserve(now))
    }

    /// Takes what has been sent in place of what was reserved.
    fn paid(&self, client: u64, (reserved, sent): (u64, u64)) {
        let Some(limits) = &self.0.limits else { return };
        let cost = if sent >= limits.large { sent } else { 0 };
        if cost > 0 || reserved > 0 {
            self.account(client, |account, now| account.pay(reserved, cost, now));
        }
    }

    fn account(&self, client: u64, change: impl FnOnce(&mut Account, Instant)) {
        let Some(limits) = &self.0.limits else { return };
        let now = Instant::now();
        let mut state = self.0.state.lock();
        change(state.known.get_or_insert(client, || Account::new(limits, now)), now);
    }
}

impl Default for Clients {
    fn default() -> Self {
        Self::new(ClientLimits::default())
    }
}

impl Collector for Clients {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let open = &self.0.of_all;
        let numbers = [
            ("lists_open", "Lists that are being made or sent", u64::from(open.lists())),
            ("list_bytes_under_way", "Bytes of lists that connections have taken last", open.bytes()),
            ("watches_open", "Open watches", u64::from(open.watches())),
            ("watches_late", "Watches that read on in the logs of shards", open.are_late() as u64),
            ("client_interests", "Distinct interests that are counted for clients", open.interests() as u64),
        ];
        for (name, help, value) in numbers {
            let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}

// === impl State ===

impl State {
    /// What a client has open.
    fn open(&mut self, client: u64, limits: &ClientLimits) -> Arc<Open> {
        if let Some(open) = self.open.get(&client).and_then(Weak::upgrade) {
            return open;
        }
        if self.open.len() >= self.sweep_at {
            self.open.retain(|_, open| open.strong_count() > 0);
            self.sweep_at = SWEEP_AT.max(2 * self.open.len());
        }
        let open = Arc::new(Open::new(limits.of_one, limits.pieces));
        self.open.insert(client, Arc::downgrade(&open));
        open
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
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

/// Whether a watch begins with the state of more than one object.
fn shows_state(request: &ReadRequest) -> bool {
    let Target::Collection { name: None, .. } = request.target else { return false };
    let asked = |name| request.query.get(name).unwrap_or_default();
    let is_shown = match asked("sendInitialEvents") {
        "" => ["", "0"].contains(&asked("resourceVersion")),
        wish => wish != "false",
    };
    request.is_watch() && is_shown && !asked("fieldSelector").contains("metadata.name=")
}

fn too_much(limit: Limit, wait: Duration) -> Status {
    let message = match limit {
        Limit::Refusals => "this client has sent too many requests that had to be refused",
        Limit::Lists => {
            "this client has listed too much; pages (limit without resourceVersion=0) are not counted"
        }
        Limit::ListsAtOnce | Limit::Bytes | Limit::Watches | Limit::Interests => {
            "this client has too much open"
        }
    };
    let seconds = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX);
    Status::too_many_requests(message, seconds.max(1))
}
