//! Snapshots over the wire: whole at exactly one revision, or visibly not whole.

use std::sync::Arc;
use std::time::Duration;

use tonic::{Code, Status};
use weir_core::interest::Interest;
use weir_core::message::{FeedMessage, SnapshotChunk, SnapshotRequest, SnapshotStart, Unanswered};
use weir_core::{History, Object, ObjectKey, SlotSet, WindowBounds};
use weir_daemon::StopCause;
use weir_daemon::peer::Caller;
use weir_proto::limits::BATCH_BYTES;
use weir_proto::read::{List, ListAnswer};
use weir_proto::wire;

use super::super::testing::{Client, Mirror, Node, of, resource, schema};
use super::pods;
use crate::testing::{Pod, rv, table};

/// Why an answer is no snapshot.
#[derive(Debug, PartialEq)]
pub(super) enum Broken {
    Unanswered(Unanswered),
    Status(Code),
    /// The stream ended without its end.
    Cut,
}

pub(super) fn request(at: u64, max_objects: usize) -> SnapshotRequest {
    SnapshotRequest {
        history: History::FIRST,
        interest: Arc::new(Interest::everything()),
        slots: SlotSet::ALL,
        at: rv(at),
        from: None,
        max_objects,
    }
}

fn wired(plural: &str, request: &SnapshotRequest) -> wire::List {
    (&List::of(&resource(plural), request, &table()).unwrap()).into()
}

pub(super) fn question(at: u64, max_objects: usize) -> wire::List {
    wired("pods", &request(at, max_objects))
}

/// The messages of an answer, as a reader takes them: all, or why not.
async fn chunks(client: &mut Client, list: wire::List) -> Result<Vec<SnapshotChunk>, Broken> {
    let status = |status: Status| Broken::Status(status.code());
    let wanted = list.max_objects.unwrap_or(u64::MAX);
    let mut answers = client.list(of(Caller::Proxy, list)).await.map_err(status)?.into_inner();
    let (mut chunks, mut objects) = (Vec::<SnapshotChunk>::new(), 0);
    while let Some(answer) = answers.message().await.map_err(status)? {
        match ListAnswer::read(answer, &schema()).unwrap() {
            ListAnswer::Chunk(chunk) => {
                objects += chunk.objects.len() as u64;
                chunks.push(chunk);
            }
            ListAnswer::Unanswered(unanswered) => return Err(Broken::Unanswered(unanswered)),
        }
    }
    let is_whole = chunks.last().is_some_and(|last| last.next.is_none() || objects == wanted);
    if is_whole { Ok(chunks) } else { Err(Broken::Cut) }
}

pub(super) async fn list(
    client: &mut Client,
    at: u64,
    max_objects: usize,
) -> Result<Vec<Arc<Object>>, Broken> {
    let chunks = chunks(client, question(at, max_objects)).await?;
    Ok(chunks.into_iter().flat_map(|chunk| chunk.objects).collect())
}

fn names(objects: &[Arc<Object>]) -> Vec<&str> {
    objects.iter().map(|object| object.key().name()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_comes_in_messages_of_bounded_size_and_says_its_end() {
    let pod = |number: usize| Pod {
        padding: 1_000,
        ..Pod::new("ns", &format!("pod-{number:05}"), &format!("u{number}"))
    };
    let (node, _pods) = Node::with_pods((0..5_000).map(|number| pod(number).object(9)).collect());
    let chunks = chunks(&mut node.client(), question(10, usize::MAX)).await.unwrap();
    let sizes: Vec<usize> =
        chunks.iter().map(|chunk| chunk.objects.iter().map(|object| object.bytes().len()).sum()).collect();
    assert!(sizes.iter().all(|size| *size <= BATCH_BYTES + 2_000), "{sizes:?}");
    assert!((20..60).contains(&chunks.len()), "{} messages for 6 MB", chunks.len());
    let objects: Vec<_> = chunks.iter().flat_map(|chunk| chunk.objects.clone()).collect();
    let expected: Vec<_> = (0..5_000).map(|number| format!("pod-{number:05}")).collect();
    assert_eq!(names(&objects), expected);
    let (last, others) = chunks.split_last().unwrap();
    assert!(last.next.is_none());
    // Each of the others names its own end, behind which another node could go on.
    for chunk in others {
        assert!(chunk.next.as_ref().unwrap() >= chunk.objects.last().unwrap().key());
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_that_of_its_revision_whatever_happens_meanwhile() {
    let (node, mirror) = Node::with_pods(pods(5_000));
    let mut client = node.client();
    let mut answers = client.list(of(Caller::Proxy, question(10, usize::MAX))).await.unwrap().into_inner();
    let (mut objects, mut at) = (Vec::new(), 10);
    while let Some(answer) = answers.message().await.unwrap() {
        let ListAnswer::Chunk(chunk) = ListAnswer::read(answer, &schema()).unwrap() else {
            panic!("unanswered")
        };
        objects.extend(chunk.objects);
        for _ in 0..50 {
            let number = 5_000 - (at - 9);
            let pod = Pod::new("ns", &format!("pod-{number:05}"), &format!("uid-{number}"));
            mirror.state((at, at + 1), vec![pod.delete(at + 1)]);
            at += 1;
        }
    }
    assert_eq!(objects.len(), 5_000);
    assert!(objects.iter().all(|object| object.rv() == rv(9)));
}

#[tokio::test(start_paused = true)]
async fn a_limit_ends_the_answer_without_its_end() {
    let (node, _pods) = Node::with_pods(pods(3_000));
    let mut client = node.client();
    for limit in [1, 7, 2_500] {
        let first = chunks(&mut client, question(10, limit)).await.unwrap();
        let last = first.last().unwrap();
        let next = last.next.clone().unwrap();
        let count: usize = first.iter().map(|chunk| chunk.objects.len()).sum();
        assert_eq!((count, &next), (limit, last.objects.last().unwrap().key()));
        let from = Some(SnapshotStart::Behind(next));
        let rest = SnapshotRequest { from, ..request(10, usize::MAX) };
        let rest = chunks(&mut client, wired("pods", &rest)).await.unwrap();
        assert_eq!(rest.iter().map(|chunk| chunk.objects.len()).sum::<usize>(), 3_000 - limit);
    }
    let all = chunks(&mut client, question(10, 3_000)).await.unwrap();
    assert!(all.last().unwrap().next.is_none(), "just enough is the end");
}

#[tokio::test(start_paused = true)]
async fn an_interest_that_finds_nothing_has_an_end_too() {
    let (node, _pods) = Node::with_pods(pods(9_000));
    let scope = weir_core::interest::Scope { namespace: None, name: Some("pod-08999".into()) };
    let everything = Interest::everything();
    let last = Interest::new(scope, everything.labels.clone(), Vec::new(), None);
    let wanted = |interest| SnapshotRequest { interest: Arc::new(interest), ..request(10, usize::MAX) };
    let found = chunks(&mut node.client(), wired("pods", &wanted(last))).await.unwrap();
    assert_eq!(found.iter().map(|chunk| chunk.objects.len()).sum::<usize>(), 1);
    assert_eq!(found.len(), 1, "pieces without objects are not sent");
    let scope = weir_core::interest::Scope { namespace: Some("nowhere".into()), name: None };
    let none = Interest::new(scope, everything.labels.clone(), Vec::new(), None);
    let found = chunks(&mut node.client(), wired("pods", &wanted(none))).await.unwrap();
    assert!(found.len() == 1 && found[0].objects.is_empty() && found[0].next.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_listed_is_said() {
    let node = Node::new(SlotSet::of_shard(0, 2));
    node.mirror("pods", 1).list(10, Vec::new());
    node.mirror("empties", 2);
    let mine = |at| SnapshotRequest { slots: SlotSet::of_shard(0, 2), ..request(at, usize::MAX) };
    let later = SnapshotRequest { history: History::new(1), ..mine(10) };
    for (plural, request, unanswered) in [
        ("pods", request(10, usize::MAX), Unanswered::NotMine),
        ("nothings", mine(10), Unanswered::Empty),
        ("empties", mine(10), Unanswered::Empty),
        ("pods", later, Unanswered::Empty),
        ("pods", mine(9), Unanswered::TooOld { floor: rv(10) }),
        ("pods", mine(11), Unanswered::NotReached { frontier: rv(10) }),
    ] {
        let answer = chunks(&mut node.client(), wired(plural, &request)).await;
        assert_eq!(answer.err(), Some(Broken::Unanswered(unanswered)), "{plural}");
    }
}

/// A long list that has begun, and the mirror under it; `end` happens before it is over.
async fn interrupted(end: impl FnOnce(&Node, &Mirror)) -> Broken {
    let bounds = WindowBounds { max_events: 1, min_age: Duration::ZERO, ..WindowBounds::default() };
    let node = Node::new(SlotSet::ALL);
    let mirror = node.mirror_within("pods", 1, bounds);
    mirror.list(10, pods(9_000));
    let mut client = node.client();
    let mut answers = client.list(of(Caller::Proxy, question(10, usize::MAX))).await.unwrap().into_inner();
    let first = answers.message().await.unwrap().unwrap();
    assert!(
        matches!(ListAnswer::read(first, &schema()).unwrap(), ListAnswer::Chunk(chunk) if chunk.next.is_some())
    );
    end(&node, &mirror);
    loop {
        match answers.message().await {
            Err(status) => return Broken::Status(status.code()),
            Ok(None) => return Broken::Cut,
            Ok(Some(answer)) => match ListAnswer::read(answer, &schema()).unwrap() {
                ListAnswer::Unanswered(unanswered) => return Broken::Unanswered(unanswered),
                ListAnswer::Chunk(chunk) => assert!(chunk.next.is_some(), "it must not look whole"),
            },
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ds05_a_list_that_is_overtaken_by_the_window_never_looks_whole() {
    let broken = interrupted(|_, mirror| {
        let pod = |at| Pod::new("ns", "pod-08999", "uid-8999").put(at);
        (11..20).for_each(|at| mirror.state((at - 1, at), vec![pod(at)]));
    });
    assert!(matches!(broken.await, Broken::Unanswered(Unanswered::TooOld { .. })));
}

#[tokio::test(start_paused = true)]
async fn ds05_a_list_of_a_history_that_is_over_never_looks_whole() {
    let broken = interrupted(|_, mirror| {
        mirror.hear(FeedMessage::Restored(History::new(1)));
        mirror.list(10, pods(9_000));
    });
    assert_eq!(broken.await, Broken::Unanswered(Unanswered::Empty));
}

#[tokio::test(start_paused = true)]
async fn ds05_a_list_of_a_process_that_stops_never_looks_whole() {
    let broken = interrupted(|node, _| node.lifecycle.stop(StopCause::Asked));
    assert_eq!(broken.await, Broken::Status(Code::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_is_left_and_one_that_goes_is_forgotten() {
    let (node, _pods) = Node::with_pods(pods(20_000));
    let mut client = node.client();
    let mut stalled = client.list(of(Caller::Proxy, question(10, usize::MAX))).await.unwrap().into_inner();
    let gone = client.list(of(Caller::Proxy, question(10, usize::MAX))).await.unwrap();
    drop(gone);
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    let mut last = Ok(());
    while let Some(answer) = stalled.message().await.transpose() {
        last = answer.map(drop);
        if last.is_err() {
            break;
        }
    }
    assert_eq!(last.err().unwrap().code(), Code::DeadlineExceeded);
    tokio::time::timeout(Duration::from_secs(5), async {
        while !node.lifecycle.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("their tasks end");
}

#[tokio::test(start_paused = true)]
async fn readers_beyond_the_room_wait_for_their_turn() {
    let pod = |number: usize| Pod { padding: 5_000, ..Pod::new("ns", &format!("pod-{number:05}"), "u") };
    let (node, _pods) = Node::with_pods((0..200).map(|number| pod(number).object(9)).collect());
    let mut client = node.client();
    let mut waiting = Vec::new();
    for _ in 0..100 {
        waiting.push(client.list(of(Caller::Proxy, question(10, usize::MAX))).await.unwrap().into_inner());
    }
    // Nobody has read a thing, and each is answered in its turn.
    for mut answers in waiting {
        let (mut objects, mut messages) = (0, 0);
        while let Some(answer) = answers.message().await.unwrap() {
            let ListAnswer::Chunk(chunk) = ListAnswer::read(answer, &schema()).unwrap() else {
                panic!("unanswered")
            };
            objects += chunk.objects.len();
            messages += 1;
        }
        assert!(objects == 200 && messages > 2, "{objects} objects in {messages} messages");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_that_copy_take_no_room_from_proxies() {
    let pod = |number: usize| Pod { padding: 5_000, ..Pod::new("ns", &format!("pod-{number:05}"), "u") };
    let (node, _pods) = Node::with_pods((0..200).map(|number| pod(number).object(9)).collect());
    let mut client = node.client();
    let mut copies = Vec::new();
    for index in 0..100 {
        let caller = Caller::Shard { index, count: 100 };
        copies.push(client.list(of(caller, question(10, usize::MAX))).await.unwrap().into_inner());
    }
    let start = tokio::time::Instant::now();
    assert_eq!(list(&mut client, 10, usize::MAX).await.unwrap().len(), 200);
    assert!(start.elapsed() < Duration::from_secs(1), "it waited for {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn behind_the_last_object_there_is_the_end() {
    let (node, _pods) = Node::with_pods(pods(3));
    let from = Some(SnapshotStart::Behind(ObjectKey::new("ns", "pod-00002")));
    let rest = SnapshotRequest { from, ..request(10, usize::MAX) };
    let rest = chunks(&mut node.client(), wired("pods", &rest)).await.unwrap();
    assert!(rest.len() == 1 && rest[0].objects.is_empty());
}
