//! Encodings are shared between replicas, and cutting loses nothing.

use weir_core::GroupVersionResource;
use weir_core::message::ListId;
use weir_core::object::ObjectSchema;

use super::*;
use crate::testing::{Pod, rv, table};

fn range(slots: SlotSet) -> MirrorRange {
    MirrorRange { mirror: GroupVersionResource::new("", "v1", "pods"), slots }
}

fn shard(index: usize) -> SlotSet {
    SlotSet::of_shard(index, 2)
}

/// Pods of both shards, `kib` large each.
fn pods(count: usize, kib: usize) -> Vec<Pod> {
    let pod = |number| {
        let pod = Pod::in_slots(shard(number % 2), &format!("pod-{number:03}"));
        Pod { padding: kib << 10, ..pod }
    };
    (0..count).map(pod).collect()
}

fn read(parts: &Parts) -> Vec<FeedAnswer> {
    let schema = ObjectSchema::new(table()).unwrap();
    let parts = parts.get().unwrap().iter().cloned();
    parts.map(|part| FeedAnswer::read(part.open().unwrap(), &schema).unwrap()).collect()
}

#[test]
fn replicas_get_the_same_bytes_and_other_shards_their_own() {
    let encodings = Encodings::default();
    let changes = pods(4, 0).iter().enumerate().map(|(i, pod)| pod.put(i as u64 + 11)).collect();
    let statement = Statement::new(SourceId(7), rv(10), rv(20), changes).unwrap();
    let message = Arc::new(FeedMessage::Statement(statement));
    let of = |index| encodings.of(&message, &range(shard(index)), (SourceId(7), 0));
    assert!(Arc::ptr_eq(&of(0), &of(0)), "encoded once");
    for index in [0, 1] {
        let answers = read(&of(index));
        let [FeedAnswer::Statement { range, statement }] = &*answers else { panic!("{answers:?}") };
        assert_eq!((range.slots, statement.after(), statement.to()), (shard(index), rv(10), rv(20)));
        let slots: Vec<_> = statement.events().iter().map(|change| change.object.slot()).collect();
        assert_eq!(slots.len(), 2);
        assert!(slots.into_iter().all(|slot| shard(index).contains(slot)));
    }
}

#[test]
fn a_large_statement_is_cut_without_a_gap() {
    let changes: Vec<_> = pods(20, 100).iter().enumerate().map(|(i, pod)| pod.put(i as u64 + 11)).collect();
    let statement = Statement::new(SourceId(7), rv(10), rv(50), changes).unwrap();
    let message = Arc::new(FeedMessage::Statement(statement));
    let answers = read(&Encodings::default().of(&message, &range(SlotSet::ALL), (SourceId(7), 0)));
    assert!(answers.len() > 3, "{}", answers.len());
    let (mut reached, mut events) = (rv(10), Vec::new());
    for answer in &answers {
        let FeedAnswer::Statement { statement, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(statement.after(), reached);
        reached = statement.to();
        events.extend(statement.events().iter().map(|change| change.rv.get()));
    }
    assert_eq!(reached, rv(50));
    assert_eq!(events, (11..31).collect::<Vec<_>>());
}

#[test]
fn parts_of_a_list_are_numbered_on_over_its_pages() {
    let encodings = Encodings::default();
    let page = |seq, is_last| {
        let objects = pods(12, 100).iter().map(|pod| pod.object(5)).collect();
        Arc::new(FeedMessage::List(ListChunk { list: ListId(1), at: rv(9), seq, is_last, objects }))
    };
    let mut numbers = Vec::new();
    for (seq, is_last) in [(0, false), (1, true)] {
        let next = u32::try_from(numbers.len()).unwrap();
        let parts = encodings.of(&page(seq, is_last), &range(shard(0)), (SourceId(7), next));
        numbers.extend(read(&parts).into_iter().map(|answer| {
            let FeedAnswer::List { source, chunk } = answer else { panic!("{answer:?}") };
            assert_eq!(source, SourceId(7));
            (chunk.seq, chunk.is_last, chunk.objects.len())
        }));
    }
    assert_eq!(numbers.iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), (0..4).collect::<Vec<_>>());
    assert_eq!(numbers.iter().map(|(.., objects)| objects).sum::<usize>(), 12, "six of each page");
    let lasts: Vec<_> = numbers.iter().map(|(_, is_last, _)| *is_last).collect();
    assert_eq!(lasts, [false, false, false, true]);
}

#[test]
fn an_empty_page_is_one_part() {
    let chunk = ListChunk { list: ListId(1), at: rv(9), seq: 0, is_last: true, objects: Vec::new() };
    let message = Arc::new(FeedMessage::List(chunk));
    let answers = read(&Encodings::default().of(&message, &range(shard(0)), (SourceId(0), 0)));
    assert!(matches!(&*answers, [FeedAnswer::List { chunk, .. }] if chunk.is_last && chunk.seq == 0));
}

#[test]
fn what_is_kept_is_bounded() {
    let encodings = Encodings::default();
    for number in 0..2 * MAX_KEPT as u64 {
        let statement = Statement::nothing(SourceId(7), rv(number), rv(number + 1));
        encodings.of(&Arc::new(FeedMessage::Statement(statement)), &range(shard(0)), (SourceId(7), 0));
    }
    let kept = encodings.0.lock();
    assert_eq!((kept.parts.len(), kept.order.len()), (MAX_KEPT, MAX_KEPT));
}
