//! Every message that can be said arrives as it was said. Compared by what `Debug` shows, which is every field.

use std::sync::Arc;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::message::{
    Change, ChangeKind, Credit, Delivery, EventKind, FromNode as NodeMessage, InterestEvent, ListChunk,
    ListId, OpenId, SnapshotChunk, SnapshotStart, Unanswered,
};
use weir_core::mirror::{BookmarkTemplate, MirrorFacts, MirrorSpec};
use weir_core::selector::{CustomFields, LabelSelector};
use weir_core::shard_selector::ShardSelector;
use weir_core::statement::Event;
use weir_core::window::Window;
use weir_core::{GroupVersionResource, Object, ObjectKey, ResourceVersion, SlotSet, SourceId, Statement};
use weir_proto::feed::{Entry, FeedAnswer, Proof, Prove, Subscribe, Subscribed};
use weir_proto::read::{
    Count, CountAnswer, List, ListAnswer, Log, LogAnswer, MirrorWindow, WindowRequest, Windows,
};
use weir_proto::session::{
    Attached, FromNode, MirrorNumber, Named, Names, NamesEdit, Open, Registration, Said, ToNode, Unmirrored,
    Witness,
};
use weir_proto::{MirrorRange, NamedInterest, Protocol, Spoken};

use crate::kinds::Any;
use crate::samples::{gauges, object, pods, rv, spec_of};

type Made<T> = BoxedStrategy<T>;

fn version() -> Made<ResourceVersion> {
    prop_oneof![0u64..100, any::<u64>()].prop_map(ResourceVersion::new).boxed()
}

fn source() -> Made<SourceId> {
    any::<u64>().prop_map(SourceId).boxed()
}

fn slots() -> Made<SlotSet> {
    any::<[u8; 32]>().prop_map(|bits| SlotSet::from_bits(&bits)).boxed()
}

fn mirror() -> Made<GroupVersionResource> {
    ("[a-z.]{0,9}", "v[1-9]", "[a-z]{1,9}")
        .prop_map(|(group, version, resource)| GroupVersionResource::new(&group, &version, &resource))
        .boxed()
}

fn range() -> Made<MirrorRange> {
    (mirror(), slots()).prop_map(|(mirror, slots)| MirrorRange { mirror, slots }).boxed()
}

fn key() -> Made<ObjectKey> {
    ("[a-z]{0,5}", "[a-zA-Z0-9:.-]{1,9}")
        .prop_map(|(namespace, name)| ObjectKey::new(&namespace, &name))
        .boxed()
}

fn object_at(at: u64) -> Made<Arc<Object>> {
    ("[a-z]{0,5}", "[a-z0-9:.-]{1,9}")
        .prop_map(move |(namespace, name)| object(&namespace, &name, at))
        .boxed()
}

fn objects() -> Made<Vec<Arc<Object>>> {
    vec(any::<u64>().prop_flat_map(object_at), 0..4).boxed()
}

fn scope() -> Made<Scope> {
    (option::of("[a-z]{1,5}"), option::of("[a-z.]{1,5}"))
        .prop_map(|(namespace, name)| Scope {
            namespace: namespace.map(Arc::from),
            name: name.map(Arc::from),
        })
        .boxed()
}

/// Over the fields of pods.
fn interest() -> Made<NamedInterest> {
    let spec = spec_of(pods(), None);
    let count = spec.schema.table().fields().len();
    let target = prop_oneof![
        Just(FieldTarget::Name),
        Just(FieldTarget::Namespace),
        (0..count).prop_map(FieldTarget::Field),
        Just(FieldTarget::NeverSet)
    ];
    let term = (target, any::<bool>(), ".{0,5}").prop_map(|(target, is_negated, value)| FieldTerm {
        target,
        is_negated,
        value: value.into(),
    });
    let labels =
        prop::sample::select(vec!["", "a", "!a", "a=b", "a in (b,c),d>4", "a notin (,x)", "a!=,e<1"]);
    let shard = option::of((any::<bool>(), any::<u64>(), 1u64..).prop_map(|(by_uid, start, length)| {
        let field = if by_uid { "uid" } else { "namespace" };
        let end = (u128::from(start) + u128::from(length)).min(1 << 64);
        ShardSelector::parse(&format!("shardRange(object.metadata.{field}, '{start:#x}', '{end:#x}')"))
            .unwrap()
    }));
    (scope(), labels, vec(term, 0..4), shard)
        .prop_map(move |(scope, labels, fields, shard)| {
            let labels = LabelSelector::parse(labels).unwrap();
            let (interest, table) = (Interest::new(scope, labels, fields, shard), spec.schema.table());
            let named = NamedInterest::of(&interest, table).unwrap();
            assert_eq!(named.clone().resolve(table).unwrap(), interest);
            named
        })
        .boxed()
}

/// A true statement: events made by `event` at rising revisions inside an interval.
fn statement<E: Event + Clone + std::fmt::Debug + 'static>(
    event: impl Fn(u64) -> Made<E> + Clone + 'static,
) -> Made<Statement<E>> {
    (btree_set(2u64..1 << 40, 0..5), source(), 0u64..50)
        .prop_flat_map(move |(at, source, beyond)| {
            let (after, to) = (at.first().map_or(1, |first| first - 1), at.last().unwrap_or(&1) + beyond);
            at.into_iter()
                .map(event.clone())
                .collect::<Vec<_>>()
                .prop_map(move |events| Statement::new(source, rv(after), rv(to), events).unwrap())
        })
        .boxed()
}

fn event_kind() -> Made<EventKind> {
    prop_oneof![Just(EventKind::Added), Just(EventKind::Modified), Just(EventKind::Deleted)].boxed()
}

fn change(at: u64) -> Made<Change> {
    let kind = prop_oneof![Just(ChangeKind::Put), Just(ChangeKind::Delete)];
    (kind, object_at(at)).prop_map(move |(kind, object)| Change { rv: rv(at), kind, object }).boxed()
}

fn interest_event(at: u64) -> Made<InterestEvent> {
    (event_kind(), object_at(at))
        .prop_map(move |(kind, object)| InterestEvent { rv: rv(at), kind, object })
        .boxed()
}

fn delivery(at: u64) -> Made<Delivery> {
    let tags = vec((any::<u64>().prop_map(OpenId), event_kind()), 1..4);
    (tags, object_at(at), object_at(at))
        .prop_map(move |(tags, present, gone)| {
            let is_gone = |(_, kind): &(OpenId, EventKind)| *kind == EventKind::Deleted;
            let gone = tags.iter().any(is_gone).then_some(gone);
            let present = (!tags.iter().all(is_gone)).then_some(present);
            Delivery { rv: rv(at), present, gone, tags }
        })
        .boxed()
}

fn spec() -> Made<MirrorSpec> {
    prop_oneof![
        Just(spec_of(pods(), None)),
        (any::<bool>(), vec("[.]spec[.][a-z]{1,6}", 0..4)).prop_map(|(is_namespaced, json_paths)| {
            spec_of(gauges(), Some(&CustomFields { is_namespaced, json_paths }))
        })
    ]
    .boxed()
}

fn facts() -> Made<MirrorFacts> {
    ("[A-Z]{1,9}List", vec(".{0,9}", 0..3), spec())
        .prop_map(|(list_kind, warnings, spec)| MirrorFacts {
            list_kind: list_kind.into(),
            warnings: warnings.into_iter().map(Arc::from).collect(),
            bookmark: BookmarkTemplate::composed(&spec),
        })
        .boxed()
}

fn unanswered() -> Made<Unanswered> {
    prop_oneof![
        version().prop_map(|floor| Unanswered::TooOld { floor }),
        version().prop_map(|frontier| Unanswered::NotReached { frontier }),
        Just(Unanswered::NotMine),
        Just(Unanswered::Empty)
    ]
    .boxed()
}

fn feed_answer() -> Made<FeedAnswer> {
    let subscribed =
        (source(), version(), spec(), option::of(facts())).prop_map(|(source, at, spec, facts)| {
            FeedAnswer::Subscribed(Subscribed { protocol: Protocol::V1, source, at, spec, facts })
        });
    let chunk =
        (any::<(u64, u32, bool)>(), version(), objects()).prop_map(|((list, seq, is_last), at, objects)| {
            ListChunk { list: ListId(list), at, seq, is_last, objects }
        });
    prop_oneof![
        subscribed,
        (range(), statement(change))
            .prop_map(|(range, statement)| FeedAnswer::Statement { range, statement }),
        (source(), chunk).prop_map(|(source, chunk)| FeedAnswer::List { source, chunk }),
        Just(FeedAnswer::Restored),
        facts().prop_map(FeedAnswer::Facts)
    ]
    .boxed()
}

fn feed() -> Made<Any> {
    let spoken = (1u32.., 0u32..3)
        .prop_map(|(oldest, more)| Spoken::new(oldest, oldest.saturating_add(more)).unwrap());
    let subscribe = (spoken, range(), option::of(version())).prop_map(|(spoken, range, after)| Subscribe {
        spoken,
        range,
        after,
    });
    let prove = (mirror(), scope(), any::<bool>(), any::<bool>()).prop_map(
        |(mirror, scope, wants_entries, wants_catch_up)| Prove {
            mirror,
            scope,
            wants_entries,
            wants_catch_up,
        },
    );
    let entry = (key(), ".{1,9}", version()).prop_map(|(key, uid, rv)| Entry { key, uid: uid.into(), rv });
    let proof = (source(), version(), version(), option::of(vec(entry, 0..4)))
        .prop_map(|(source, revision, asked_at, entries)| Proof { source, revision, asked_at, entries });
    prop_oneof![
        subscribe.prop_map(Any::Subscribe),
        feed_answer().prop_map(Any::FeedAnswer),
        prove.prop_map(Any::Prove),
        proof.prop_map(Any::Proof)
    ]
    .boxed()
}

fn number() -> Made<MirrorNumber> {
    (1u32..).prop_map(|number| MirrorNumber::new(number).unwrap()).boxed()
}

fn registration() -> Made<Registration> {
    (number(), any::<u64>()).prop_map(|(mirror, id)| Registration { mirror, id: OpenId(id) }).boxed()
}

fn edit() -> Made<NamesEdit> {
    (0usize..4).prop_map(|times| (0..times).fold(NamesEdit::FIRST, |edit, _| edit.next())).boxed()
}

fn open() -> Made<Open> {
    let witness = (version(), "[a-z0-9-]{1,9}", any::<u64>()).prop_map(|(rv, uid, hash)| Witness {
        rv,
        uid: uid.into(),
        hash,
    });
    (registration(), interest(), slots(), any::<u32>(), option::of(witness), option::of(vec(key(), 0..3)))
        .prop_map(|(registration, interest, slots, credit, witness, names)| Open {
            registration,
            interest,
            slots,
            credit: Credit(credit),
            witness,
            names,
        })
        .boxed()
}

fn to_node() -> Made<ToNode> {
    let names = (registration(), edit(), btree_set(key(), 0..6), 0usize..6).prop_map(
        |(registration, edit, keys, at)| {
            let mut added: Vec<ObjectKey> = keys.into_iter().collect();
            let removed = added.split_off(at.min(added.len()));
            Names { registration, edit, added, removed }
        },
    );
    prop_oneof![
        Just(ToNode::Hello(Spoken::OURS)),
        mirror().prop_map(ToNode::Attach),
        number().prop_map(ToNode::Detach),
        open().prop_map(ToNode::Open),
        registration().prop_map(ToNode::Close),
        (registration(), any::<u32>()).prop_map(|(of, more)| ToNode::Credit(of, Credit(more))),
        names.prop_map(ToNode::Names)
    ]
    .boxed()
}

fn said() -> Made<Said> {
    let id = || any::<u64>().prop_map(OpenId);
    prop_oneof![
        statement(delivery).prop_map(NodeMessage::Said).prop_map(Said::Node),
        (id(), version()).prop_map(|(id, at)| Said::Node(NodeMessage::Live { id, at })),
        id().prop_map(NodeMessage::NotMine).prop_map(Said::Node),
        (id(), version()).prop_map(|(id, at)| Said::Node(NodeMessage::Left { id, at })),
        id().prop_map(NodeMessage::TooOld).prop_map(Said::Node),
        version().prop_map(|highest| Said::Node(NodeMessage::Restored { highest })),
        (id(), edit(), version()).prop_map(|(id, edit, at)| Said::Named(Named { id, edit, at }))
    ]
    .boxed()
}

fn from_node() -> Made<FromNode> {
    let reason = prop::sample::select(vec![
        Unmirrored::NotServed,
        Unmirrored::NotWatchable,
        Unmirrored::Aggregated,
        Unmirrored::Unselectable,
        Unmirrored::Forbidden,
    ]);
    prop_oneof![
        slots().prop_map(|slots| FromNode::Welcome { protocol: Protocol::V1, slots }),
        (number(), spec(), option::of(facts()))
            .prop_map(|(mirror, spec, facts)| FromNode::Attached(Attached { mirror, spec, facts })),
        (mirror(), reason).prop_map(|(mirror, reason)| FromNode::Unmirrored { mirror, reason }),
        (number(), facts()).prop_map(|(mirror, facts)| FromNode::Learned(mirror, facts)),
        vec((number(), said()), 0..5).prop_map(FromNode::Flush)
    ]
    .boxed()
}

fn start() -> Made<Option<SnapshotStart>> {
    option::of(prop_oneof![
        ".{0,9}".prop_map(|text| SnapshotStart::At(text.into())),
        key().prop_map(SnapshotStart::Behind)
    ])
    .boxed()
}

fn read() -> Made<Any> {
    let max = prop_oneof![1usize..1_000, Just(usize::MAX)];
    let list = (range(), interest(), version(), start(), max)
        .prop_map(|(range, interest, at, from, max_objects)| List { range, interest, at, from, max_objects });
    let log = (range(), interest(), version(), version()).prop_map(|(range, interest, a, b)| {
        let (after, to) = (a.min(b), a.max(b));
        Log { range, interest, after, to }
    });
    let count = (range(), scope(), version(), start()).prop_map(|(range, scope, at, from)| Count {
        range,
        scope,
        at,
        from,
    });
    prop_oneof![
        list.prop_map(Any::List),
        log.prop_map(Any::Log),
        count.prop_map(Any::Count),
        vec(mirror(), 0..4).prop_map(|mirrors| Any::WindowRequest(WindowRequest(mirrors)))
    ]
    .boxed()
}

fn answer() -> Made<Any> {
    let window = (version(), version()).prop_map(|(a, b)| Window { floor: a.min(b), frontier: a.max(b) });
    let of = (mirror(), source(), option::of(window)).prop_map(|(mirror, source, window)| MirrorWindow {
        mirror,
        source,
        window,
    });
    prop_oneof![
        (objects(), option::of(key()))
            .prop_map(|(objects, next)| Any::ListAnswer(ListAnswer::Chunk(SnapshotChunk { objects, next }))),
        unanswered().prop_map(|why| Any::ListAnswer(ListAnswer::Unanswered(why))),
        (range(), statement(interest_event))
            .prop_map(|(range, statement)| Any::LogAnswer(LogAnswer::Statement { range, statement })),
        unanswered().prop_map(|why| Any::LogAnswer(LogAnswer::Unanswered(why))),
        any::<u64>().prop_map(|count| Any::CountAnswer(CountAnswer::Count(count))),
        unanswered().prop_map(|why| Any::CountAnswer(CountAnswer::Unanswered(why))),
        (slots(), vec(of, 0..3)).prop_map(|(slots, mirrors)| Any::Windows(Windows { slots, mirrors }))
    ]
    .boxed()
}

fn arrives(said: &Any) {
    let read = Any::read(said.kind(), &said.encode()).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    assert_eq!(format!("{read:?}"), format!("{said:?}"));
}

proptest! {
    #[test]
    fn of_the_feed(message in feed()) {
        arrives(&message);
    }

    #[test]
    fn to_a_node(message in to_node()) {
        arrives(&Any::ToNode(message));
    }

    #[test]
    fn from_a_node(message in from_node()) {
        arrives(&Any::FromNode(message));
    }

    #[test]
    fn questions(message in read()) {
        arrives(&message);
    }

    #[test]
    fn answers(message in answer()) {
        arrives(&message);
    }
}
