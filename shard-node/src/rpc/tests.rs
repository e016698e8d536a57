//! Snapshots, logs, counts and windows as peers see them.

mod listing;
mod replay;
mod wired;

use std::sync::Arc;
use std::time::Duration;

use tonic::Code;
use weir_core::interest::{Interest, Scope};
use weir_core::message::{CountRequest, SnapshotStart, Unanswered};
use weir_core::statement::SourceId;
use weir_core::window::Window;
use weir_core::{History, ObjectKey, SlotSet};
use weir_daemon::peer::Caller;
use weir_proto::read::{Count, CountAnswer, MirrorWindow, WindowRequest, Windows};
use weir_proto::wire;

use super::testing::{Client, Node, of, resource};
use crate::testing::{Pod, rv};

fn counting(at: u64) -> CountRequest {
    CountRequest {
        history: History::FIRST,
        scope: Scope::default(),
        slots: SlotSet::ALL,
        at: rv(at),
        from: None,
        at_most: usize::MAX,
    }
}

async fn count(client: &mut Client, plural: &str, request: &CountRequest) -> CountAnswer {
    let request = wire::Count::from(&Count::of(&resource(plural), request));
    let answer = client.count(of(Caller::Proxy, request)).await.unwrap();
    answer.into_inner().try_into().unwrap()
}

async fn windows(client: &mut Client, wanted: &[&str]) -> Windows {
    let wanted = WindowRequest(wanted.iter().map(|plural| resource(plural)).collect());
    let answer = client.window(of(Caller::Proxy, (&wanted).into())).await.unwrap();
    answer.into_inner().try_into().unwrap()
}

/// So many pods, listed at 10.
fn pods(count: usize) -> Vec<Arc<weir_core::Object>> {
    let pod = |number| Pod::new("ns", &format!("pod-{number:05}"), &format!("uid-{number}")).object(9);
    (0..count).map(pod).collect()
}

#[tokio::test(start_paused = true)]
async fn a_count_goes_over_many_pieces() {
    let (node, _pods) = Node::with_pods(pods(5_000));
    let mut client = node.client();
    assert_eq!(count(&mut client, "pods", &counting(10)).await, CountAnswer::Count(5_000));
    let behind = Some(SnapshotStart::Behind(ObjectKey::new("ns", "pod-02999")));
    let rest = CountRequest { from: behind, ..counting(10) };
    assert_eq!(count(&mut client, "pods", &rest).await, CountAnswer::Count(2_000));
    let enough = CountRequest { at_most: 1, ..counting(10) };
    let CountAnswer::Count(some) = count(&mut client, "pods", &enough).await else { panic!("no count") };
    assert!((1..5_000).contains(&some), "{some}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_counted_is_said() {
    let node = Node::new(SlotSet::of_shard(0, 2));
    node.mirror("pods", 1).list(10, Vec::new());
    node.mirror("empties", 2);
    let mut client = node.client();
    let mine = |at| CountRequest { slots: SlotSet::of_shard(0, 2), ..counting(at) };
    let later = CountRequest { history: History::new(3), ..mine(10) };
    for (plural, request, unanswered) in [
        ("pods", counting(10), Unanswered::NotMine),
        ("nothings", counting(10), Unanswered::NotMine),
        ("nothings", mine(10), Unanswered::Empty),
        ("empties", mine(10), Unanswered::Empty),
        ("pods", later, Unanswered::Empty),
        ("pods", mine(9), Unanswered::TooOld { floor: rv(10) }),
        ("pods", mine(11), Unanswered::NotReached { frontier: rv(10) }),
    ] {
        let answer = count(&mut client, plural, &request).await;
        assert_eq!(answer, CountAnswer::Unanswered(unanswered), "{plural} {request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn windows_are_those_of_the_mirrors_that_are_there() {
    let (node, pods) = Node::with_pods(Vec::new());
    node.mirror("empties", 2);
    pods.state((10, 12), Vec::new());
    let mut client = node.client();
    let full = MirrorWindow {
        mirror: resource("pods"),
        source: SourceId(7),
        window: Some(Window { floor: rv(10), frontier: rv(12) }),
        history: History::FIRST,
    };
    let empty =
        MirrorWindow { mirror: resource("empties"), source: SourceId(0), window: None, ..full.clone() };
    let named = windows(&mut client, &["nothings", "pods"]).await;
    assert_eq!(named, Windows { slots: SlotSet::ALL, mirrors: vec![full.clone()] });
    let mut all = windows(&mut client, &[]).await.mirrors;
    all.sort_by(|a, b| a.mirror.cmp(&b.mirror));
    assert_eq!(all, [empty, full]);
}

#[tokio::test(start_paused = true)]
async fn nodes_and_proxies_may_read_and_strangers_may_not() {
    let (node, _pods) = Node::with_pods(Vec::new());
    let request = || wire::WindowRequest::from(&WindowRequest(Vec::new()));
    for caller in [Caller::Proxy, Caller::Trusted, Caller::Shard { index: 3, count: 4 }] {
        assert!(node.client().window(of(caller, request())).await.is_ok(), "{caller:?}");
    }
    let mut client = node.client();
    let list = listing::question(10, usize::MAX);
    let log = replay::question(&Interest::everything(), (10, 10));
    let count = wire::Count::from(&Count::of(&resource("pods"), &counting(10)));
    let codes = [
        client.window(request()).await.err().unwrap().code(),
        client.count(count).await.err().unwrap().code(),
        client.list(list).await.err().unwrap().code(),
        client.log(log).await.err().unwrap().code(),
        client.session(futures_util::stream::empty()).await.err().unwrap().code(),
    ];
    assert_eq!(codes, [Code::Unauthenticated; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_breaks_the_protocol_is_refused() {
    let (node, _pods) = Node::with_pods(Vec::new());
    let mut client = node.client();
    let good = listing::question(10, usize::MAX);
    let no_hello = wire::List { hello: None, ..good.clone() };
    let hello = Some(wire::Hello { oldest: 3, newest: 4 });
    let other = wire::List { hello, ..good.clone() };
    let path = wire::FieldPath { keys: vec!["spec".to_owned(), "nothing".to_owned()] };
    let target = Some(wire::field_term::Target::Field(path));
    let fields = vec![wire::FieldTerm { target, ..wire::FieldTerm::default() }];
    let interest = Some(wire::Interest { fields, ..wire::Interest::default() });
    let unknown_field = wire::List { interest, ..good };
    for (list, code) in [
        (no_hello, Code::InvalidArgument),
        (other, Code::FailedPrecondition),
        (unknown_field, Code::InvalidArgument),
    ] {
        assert_eq!(client.list(of(Caller::Proxy, list)).await.err().unwrap().code(), code);
    }
    // The process is none the worse.
    assert_eq!(listing::list(&mut client, 10, usize::MAX).await.unwrap().len(), 0);
    let stopped = async { node.lifecycle.is_empty() };
    assert!(tokio::time::timeout(Duration::from_secs(1), stopped).await.is_ok());
}
