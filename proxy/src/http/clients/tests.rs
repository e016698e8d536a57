//! Clients that cost too much, in a time that the test makes: who is refused, for how long, and by what name it is counted.

mod at_once;

use std::net::Ipv4Addr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;

use super::*;
use crate::http::body::Segments;
use crate::http::fail;

const LIMITS: ClientLimits = ClientLimits {
    refusals: Allowance { a_second: 10, at_once: 50 },
    list_bytes: Allowance { a_second: 100, at_once: 10_000 },
    large: 500,
    pieces: 1,
    of_one: AtOnce { lists: 100, bytes: 1 << 20, watches: 100, late: 1, interests: 100 },
    of_all: AtOnce { lists: 200, bytes: 1 << 20, watches: 200, late: 1, interests: 200 },
};

const WATCH: &str = "/api/v1/pods?watch=1&resourceVersion=1";
const LIST: &str = "/api/v1/pods?resourceVersion=0";

/// Somebody who asks for something.
struct Asked(Parts, ReadRequest);

// === impl Asked ===

impl Asked {
    fn by(token: &str, path: &str) -> Self {
        let authorization = format!("Bearer {token}");
        let request = Request::builder().uri(path).header(AUTHORIZATION, authorization);
        Self::of(request.body(()).unwrap())
    }

    fn from(address: [u8; 4], path: &str) -> Self {
        let mut request = Request::builder().uri(path).body(()).unwrap();
        request.extensions_mut().insert(PeerAddress(Ipv4Addr::from(address).into()));
        Self::of(request)
    }

    fn of(request: Request<()>) -> Self {
        let (parts, ()) = request.into_parts();
        let read = ReadRequest::read(&parts).unwrap();
        Self(parts, read)
    }

    /// The seconds that it is told to wait, if it is refused.
    fn refused(&self, clients: &Clients) -> Option<u32> {
        let Self(parts, request) = self;
        let status = clients.admit(parts, request).err()?;
        assert_eq!(status.code, 429);
        Some(status.retry_after_seconds().expect("it says when to come again"))
    }

    /// Let in, or so early that it was not refused yet.
    fn guest(&self, clients: &Clients) -> Guest {
        let Self(parts, request) = self;
        clients.admit(parts, request).unwrap_or_else(|_| {
            let one = (Kind::List, Arc::new(Open::new(LIMITS.of_one, LIMITS.pieces)));
            let places = clients.places(parts, one).unwrap();
            Guest::new((clients.clone(), clients.client(parts)), Some(places), may_be_large(request))
        })
    }

    fn ends(&self, clients: &Clients, outcome: Outcome) -> Outcome {
        let guest = self.guest(clients);
        guest.noted(&self.1, &outcome);
        match outcome {
            Outcome::Answer(response) => Outcome::Answer(Box::new(response.map(|body| guest.served(body)))),
            outcome => outcome,
        }
    }

    /// How many of these have to come before the client is refused; `None` if none of a hundred is too much.
    fn bears(&self, clients: &Clients, outcome: impl Fn(&Self) -> Outcome) -> Option<usize> {
        (0..100).find(|_| {
            let is_refused = self.refused(clients).is_some();
            drop(self.ends(clients, outcome(self)));
            is_refused
        })
    }

    fn error(&self, status: &Status) -> Outcome {
        Outcome::Answer(Box::new(fail::outcome(&self.0, status)))
    }

    /// The body of a list of so many bytes in two pieces, on its way.
    fn list(&self, clients: &Clients, bytes: usize) -> ProxyBody {
        let pieces =
            [bytes / 2, bytes - bytes / 2].map(|length| Ok(Segments::from(Bytes::from(vec![b' '; length]))));
        let body = ProxyBody::stream(futures_util::stream::iter(pieces));
        let Outcome::Answer(answer) = self.ends(clients, Outcome::Answer(Box::new(Response::new(body))))
        else {
            panic!("an answer stays one")
        };
        answer.into_body()
    }
}

fn too_old() -> Status {
    Status::list_too_old()
}

#[tokio::test(start_paused = true)]
async fn who_was_refused_too_often_is_refused_at_once_and_nobody_else_is() {
    let clients = Clients::new(LIMITS);
    let (broken, other) = (Asked::by("broken", WATCH), Asked::by("other", WATCH));
    assert_eq!(broken.bears(&clients, |asked| asked.error(&too_old())), Some(50));
    for _ in 0..50 {
        drop(broken.ends(&clients, broken.error(&too_old())));
    }
    assert_eq!(broken.refused(&clients), Some(6), "what was under way counts too");
    assert!(Asked::by("broken", LIST).refused(&clients).is_some(), "whatever it reads");
    assert_eq!(other.refused(&clients), None);
    tokio::time::advance(Duration::from_millis(5_200)).await;
    assert_eq!(broken.refused(&clients), None);
    drop(broken.ends(&clients, broken.error(&too_old())));
    assert_eq!(broken.refused(&clients), Some(1), "one at a time comes through");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_fault_of_the_client_is_not_counted() {
    let clients = Clients::new(LIMITS);
    let busy = [
        Status::too_many_requests("busy", 1),
        Status::service_unavailable("away", 1),
        Status::timeout("slow", 1),
        Status::unclassified("broken"),
    ];
    let asked = Asked::by("patient", WATCH);
    for status in busy {
        assert_eq!(asked.bears(&clients, |asked| asked.error(&status)), None, "{status:?}");
    }
    let passed = [Passed::Loading, Passed::Freshness, Passed::NoPermit, Passed::Encoding];
    for why in passed {
        assert_eq!(asked.bears(&clients, |_| Outcome::Pass(why, None)), None, "{why:?}");
    }
    let old = Asked::by("patient", "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact");
    assert_eq!(old.bears(&clients, |_| Outcome::Pass(Passed::TooOld, None)), None);
    assert_eq!(
        clients.0.state.lock().known.find(&clients.client(&asked.0)).map(|_| ()),
        None,
        "nor remembered"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_events_is_a_refusal_however_it_is_told() {
    let told: [fn(&Asked) -> Outcome; 4] = [
        |_| Outcome::Answer(Box::new(Response::new(ProxyBody::full("an error")))),
        |_| Outcome::Pass(Passed::TooOld, None),
        |_| Outcome::Refusal,
        |asked| asked.error(&Status::bad_request("what?")),
    ];
    for (index, told) in told.into_iter().enumerate() {
        let clients = Clients::new(LIMITS);
        assert_eq!(Asked::by("broken", WATCH).bears(&clients, told), Some(50), "{index}");
    }
    let clients = Clients::new(LIMITS);
    let over = |_: &Asked| Outcome::Answer(Box::new(Response::new(ProxyBody::Full(None))));
    assert_eq!(Asked::by("brief", WATCH).bears(&clients, over), None, "a watch of no length is none");
}

#[tokio::test(start_paused = true)]
async fn who_has_no_credential_is_known_by_its_address() {
    let clients = Clients::new(LIMITS);
    let (broken, other) = (Asked::from([10, 0, 0, 1], WATCH), Asked::from([10, 0, 0, 2], WATCH));
    assert_eq!(broken.bears(&clients, |_| Outcome::Refusal), Some(50));
    assert_eq!(other.refused(&clients), None);
    let mut credible = Asked::by("credible", WATCH);
    credible.0.extensions.insert(PeerAddress(Ipv4Addr::new(10, 0, 0, 1).into()));
    assert_eq!(credible.refused(&clients), None, "who has one is not");
}

#[tokio::test(start_paused = true)]
async fn large_lists_are_paid_for_and_small_ones_and_pages_are_free() {
    let clients = Clients::new(LIMITS);
    let asked = Asked::by("greedy", LIST);
    for _ in 0..1_000 {
        asked.list(&clients, 499).collect().await.unwrap();
    }
    assert_eq!(asked.refused(&clients), None, "small ones are not counted");
    for _ in 0..20 {
        assert_eq!(asked.refused(&clients), None);
        asked.list(&clients, 500).collect().await.unwrap();
    }
    assert_eq!(asked.refused(&clients), Some(1));
    assert_eq!(Asked::by("greedy", WATCH).refused(&clients), None);
    assert_eq!(Asked::by("greedy", "/api/v1/pods?limit=500").refused(&clients), None);
    assert_eq!(Asked::by("greedy", "/api/v1/pods/a?resourceVersion=0").refused(&clients), None);
    assert!(Asked::by("greedy", "/api/v1/pods?limit=500&resourceVersion=0").refused(&clients).is_some());
    assert_eq!(Asked::by("modest", LIST).refused(&clients), None);
    asked.list(&clients, 1_000).collect().await.unwrap();
    assert_eq!(asked.refused(&clients), Some(11), "as long as it takes to pay it off");
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(asked.refused(&clients), None);
}

#[tokio::test(start_paused = true)]
async fn lists_that_break_off_cost_what_was_sent_and_many_at_once_cost_as_much_as_one_by_one() {
    let clients = Clients::new(LIMITS);
    let asked = Asked::by("greedy", LIST);
    let mut broken = asked.list(&clients, 1_000);
    broken.frame().await.unwrap().unwrap();
    drop(broken);
    // 9,500 are left, and the next one is expected to cost 500.
    let mut open = Vec::new();
    while asked.refused(&clients).is_none() {
        open.push(asked.list(&clients, 600));
    }
    assert_eq!(open.len(), 19);
    open.truncate(10);
    assert_eq!(asked.refused(&clients), None, "what was not sent is not paid for");
    for list in open {
        list.collect().await.unwrap();
    }
    // 10,000 − 500 − 10 × 600 are left.
    let mut more = Vec::new();
    while asked.refused(&clients).is_none() {
        more.push(asked.list(&clients, 600));
    }
    assert_eq!(more.len(), 6);
}
