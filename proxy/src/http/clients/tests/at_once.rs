//! What clients may have open: of one, and of all together.

use futures_util::{FutureExt, StreamExt};
use weir_core::GroupVersionResource;
use weir_core::interest::{Interest, Scope};

use super::*;

const FEW: AtOnce = AtOnce { lists: 2, bytes: 1_000, watches: 2, late: 1, interests: 2 };

fn few(of_all: AtOnce) -> Clients {
    Clients::new(ClientLimits { of_one: FEW, of_all, ..LIMITS })
}

/// Of all as much as of three.
fn for_three() -> Clients {
    few(AtOnce { lists: 6, bytes: 3_000, watches: 6, late: 2, interests: 3 })
}

/// The body of an answer that goes on.
fn open(clients: &Clients, asked: &Asked) -> ProxyBody {
    let body = ProxyBody::stream(futures_util::stream::pending());
    clients.admit(&asked.0, &asked.1).expect("a place").served(body)
}

#[tokio::test(start_paused = true)]
async fn one_client_has_so_much_open_and_leaves_room_for_others() {
    for path in [LIST, WATCH] {
        let clients = for_three();
        let (greedy, other) = (Asked::by("greedy", path), Asked::by("other", path));
        let mut held: Vec<_> = (0..2).map(|_| open(&clients, &greedy)).collect();
        assert_eq!(greedy.refused(&clients).map(|_| ()), Some(()), "{path}");
        let _others: Vec<_> = (0..2).map(|_| open(&clients, &other)).collect();
        held.pop();
        held.push(open(&clients, &greedy));
        let get = Asked::by("greedy", "/api/v1/namespaces/a/pods/b?resourceVersion=0");
        assert_eq!(get.refused(&clients), None, "one object is free");
        drop(held);
        assert_eq!(greedy.refused(&clients), None);
    }
}

#[tokio::test(start_paused = true)]
async fn all_clients_together_have_so_much_open() {
    let clients = for_three();
    let named = |number: usize| Asked::by(&format!("client-{number}"), LIST);
    let mut held: Vec<_> = (0..6).map(|number| open(&clients, &named(number))).collect();
    let waits: Vec<_> = (0..10).map(|_| named(9).refused(&clients).unwrap()).collect();
    assert!(waits.is_sorted() && waits[9] > waits[0], "one behind the other: {waits:?}");
    held.pop();
    assert_eq!(named(9).refused(&clients), None);
}

#[tokio::test(start_paused = true)]
async fn an_error_holds_no_place() {
    let clients = for_three();
    let asked = Asked::by("patient", LIST);
    let errors: Vec<_> =
        (0..10).map(|_| asked.ends(&clients, asked.error(&Status::too_many_requests("busy", 1)))).collect();
    assert_eq!(asked.refused(&clients), None);
    drop(errors);
}

#[tokio::test(start_paused = true)]
async fn what_a_connection_has_taken_counts_until_it_asks_for_more() {
    let clients = for_three();
    let asked = Asked::by("slow", LIST);
    let piece = Ok(Segments::from(Bytes::from(vec![b' '; 1_200])));
    let stream = futures_util::stream::iter([piece]).chain(futures_util::stream::pending());
    let mut body = clients.admit(&asked.0, &asked.1).unwrap().served(ProxyBody::stream(stream));
    assert_eq!(asked.refused(&clients), None, "nothing is under way yet");
    body.frame().await.unwrap().unwrap();
    assert!(asked.refused(&clients).is_some());
    assert_eq!(Asked::by("other", LIST).refused(&clients), None);
    assert_eq!(Asked::by("slow", WATCH).refused(&clients), None, "watches are not lists");
    assert!(body.frame().now_or_never().is_none());
    assert_eq!(asked.refused(&clients), None, "it was asked for more");
    drop(body);
    let event = futures_util::stream::iter([Ok(Segments::from(Bytes::from(vec![b' '; 1_200])))]);
    let watch = Asked::by("slow", WATCH);
    let mut watch = clients.admit(&watch.0, &watch.1).unwrap().served(ProxyBody::stream(event));
    watch.frame().await.unwrap().unwrap();
    assert_eq!(clients.0.of_all.bytes(), 0, "a silent client's last event stays with it");
}

/// What somebody watches who watches these namespaces.
fn in_namespace(name: &str) -> Interest {
    let scope = Scope { namespace: Some(name.into()), name: None };
    Interest::new(scope, Default::default(), Vec::new(), None)
}

/// What refuses a watch of one more interest.
fn watched(clients: &Clients, token: &str, interest: &Interest) -> Result<Guest, Status> {
    let asked = Asked::by(token, WATCH);
    let guest = clients.admit(&asked.0, &asked.1)?;
    guest.watches(&asked.0, (&GroupVersionResource::new("", "v1", "pods"), interest))?;
    Ok(guest)
}

#[tokio::test(start_paused = true)]
async fn interests_are_counted_once_however_many_watch_them() {
    let wide = AtOnce { watches: 100, interests: 2, ..FEW };
    let all = AtOnce { watches: 100, interests: 3, ..FEW };
    let clients = Clients::new(ClientLimits { of_one: wide, of_all: all, ..LIMITS });
    let mut held = Vec::new();
    for name in ["a", "b", "a", "b"] {
        held.push(watched(&clients, "greedy", &in_namespace(name)).unwrap());
    }
    assert_eq!(watched(&clients, "greedy", &in_namespace("c")).unwrap_err().code, 429);
    let scope = Scope { namespace: Some("c".into()), name: Some("one".into()) };
    held.push(
        watched(&clients, "greedy", &Interest::new(scope, Default::default(), Vec::new(), None)).unwrap(),
    );
    held.push(watched(&clients, "other", &in_namespace("a")).unwrap());
    held.push(watched(&clients, "other", &in_namespace("c")).unwrap());
    let refused = watched(&clients, "third", &in_namespace("d")).unwrap_err();
    assert!(refused.message.starts_with("clients have"), "{}", refused.message);
    assert_eq!(clients.0.of_all.interests(), 3, "what was refused is not counted");
    held.clear();
    assert_eq!(clients.0.of_all.interests(), 0);
    watched(&clients, "greedy", &in_namespace("c")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_behind_take_turns() {
    let clients = for_three();
    let guest = |token| watched(&clients, token, &in_namespace("a")).unwrap();
    let (one, two, other, third) = (guest("slow"), guest("slow"), guest("other"), guest("third"));
    let turn = one.late().await;
    assert!(two.late().now_or_never().is_none(), "one of a client");
    let of_other = other.late().now_or_never().expect("another client's turn");
    assert!(third.late().now_or_never().is_none(), "two of all");
    drop(of_other);
    assert!(third.late().now_or_never().is_some());
    drop(turn);
    assert!(two.late().now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn lists_of_one_client_take_turns_while_others_ask_as_well() {
    let clients = Clients::new(LIMITS);
    let endless = |asked: &Asked| {
        let piece = || Ok(Segments::from(Bytes::from_static(b"piece")));
        let body = ProxyBody::stream(futures_util::stream::repeat_with(piece));
        clients.admit(&asked.0, &asked.1).unwrap().served(body)
    };
    let (noisy, other) = (Asked::by("noisy", LIST), Asked::by("other", LIST));
    let mut lists: Vec<_> = (0..10).map(|_| endless(&noisy)).collect();
    tokio::time::advance(SEVERAL).await;
    assert!(lists.iter_mut().all(|list| list.frame().now_or_never().is_some()), "alone it has all there is");
    let mut of_other = endless(&other);
    // The first has its piece under way, and the others wait for it, behind each other.
    for round in 0..3 {
        let served: Vec<_> = lists.iter_mut().map(|list| list.frame().now_or_never().is_some()).collect();
        assert_eq!(served.iter().filter(|is_served| **is_served).count(), 1, "round {round}: {served:?}");
        assert!(of_other.frame().now_or_never().is_some(), "the other one waits for none of them");
    }
    let began = Instant::now();
    let frames = lists.iter_mut().map(BodyExt::frame);
    for frame in futures_util::future::join_all(frames).await {
        frame.unwrap().unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(1), "nobody reads them, and still each comes on");
}

#[tokio::test(start_paused = true)]
async fn states_of_watches_are_paid_for_like_lists() {
    let clients = Clients::new(LIMITS);
    let state = "/api/v1/pods?watch=1&resourceVersion=0";
    let asked = Asked::by("greedy", state);
    for _ in 0..20 {
        assert_eq!(asked.refused(&clients), None);
        asked.guest(&clients).bill().add(500);
    }
    assert_eq!(asked.refused(&clients), Some(1));
    let refused = |path| Asked::by("greedy", path).refused(&clients).is_some();
    assert!(refused("/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersion=7"));
    assert!(refused("/api/v1/pods?watch=1") && refused(LIST));
    assert!(!refused(WATCH) && !refused("/api/v1/pods?watch=1&sendInitialEvents=false"));
    assert!(!refused("/api/v1/pods?watch=1&fieldSelector=metadata.name%3Da"));
}

#[tokio::test(start_paused = true)]
async fn without_limits_nothing_is_refused() {
    let clients = Clients::unlimited();
    let asked = Asked::by("anybody", WATCH);
    assert_eq!(asked.bears(&clients, |_| Outcome::Refusal), None);
    let held: Vec<_> = (0..1_000).map(|_| open(&clients, &asked)).collect();
    assert_eq!((held.len(), clients.0.of_all.watches()), (1_000, 0));
}

#[tokio::test(start_paused = true)]
async fn who_has_nothing_open_any_more_is_forgotten() {
    let clients = Clients::new(ClientLimits::default());
    let _held = open(&clients, &Asked::by("lasting", WATCH));
    for number in 0..10 * SWEEP_AT {
        drop(open(&clients, &Asked::by(&format!("client-{number}"), WATCH)));
    }
    let open = clients.0.state.lock().open.len();
    assert!(open <= 2 * SWEEP_AT, "{open} are remembered");
    assert_eq!(clients.0.of_all.watches(), 1);
}
