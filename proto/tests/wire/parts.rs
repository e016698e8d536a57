//! Any value of the parts that messages share. Statements are true ones: their events rise inside their interval.

use std::sync::Arc;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::message::{Change, ChangeKind, Delivery, EventKind, InterestEvent, OpenId, Unanswered};
use weir_core::mirror::{BookmarkTemplate, MirrorFacts, MirrorSpec};
use weir_core::selector::{CustomFields, LabelSelector};
use weir_core::shard_selector::ShardSelector;
use weir_core::statement::Event;
use weir_core::{GroupVersionResource, Object, ObjectKey, ResourceVersion, SlotSet, SourceId, Statement};
use weir_proto::{MirrorRange, NamedInterest};

use crate::samples::{gauges, object, pods, rv, spec_of};

pub(crate) type Made<T> = BoxedStrategy<T>;

pub(crate) fn version() -> Made<ResourceVersion> {
    prop_oneof![0u64..100, any::<u64>()].prop_map(ResourceVersion::new).boxed()
}

pub(crate) fn source() -> Made<SourceId> {
    any::<u64>().prop_map(SourceId).boxed()
}

pub(crate) fn slots() -> Made<SlotSet> {
    any::<[u8; 32]>().prop_map(|bits| SlotSet::from_bits(&bits)).boxed()
}

pub(crate) fn mirror() -> Made<GroupVersionResource> {
    ("[a-z.]{0,9}", "v[1-9]", "[a-z]{1,9}")
        .prop_map(|(group, version, resource)| GroupVersionResource::new(&group, &version, &resource))
        .boxed()
}

pub(crate) fn range() -> Made<MirrorRange> {
    (mirror(), slots()).prop_map(|(mirror, slots)| MirrorRange { mirror, slots }).boxed()
}

pub(crate) fn key() -> Made<ObjectKey> {
    ("[a-z]{0,5}", "[a-zA-Z0-9:.-]{1,9}")
        .prop_map(|(namespace, name)| ObjectKey::new(&namespace, &name))
        .boxed()
}

pub(crate) fn object_at(at: u64) -> Made<Arc<Object>> {
    ("[a-z]{0,5}", "[a-z0-9:.-]{1,9}")
        .prop_map(move |(namespace, name)| object(&namespace, &name, at))
        .boxed()
}

pub(crate) fn objects() -> Made<Vec<Arc<Object>>> {
    vec(any::<u64>().prop_flat_map(object_at), 0..4).boxed()
}

pub(crate) fn scope() -> Made<Scope> {
    (option::of("[a-z]{1,5}"), option::of("[a-z.]{1,5}"))
        .prop_map(|(namespace, name)| Scope {
            namespace: namespace.map(Arc::from),
            name: name.map(Arc::from),
        })
        .boxed()
}

/// Over the fields of pods.
pub(crate) fn interest() -> Made<NamedInterest> {
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
pub(crate) fn statement<E: Event + Clone + std::fmt::Debug + 'static>(
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

pub(crate) fn event_kind() -> Made<EventKind> {
    prop_oneof![Just(EventKind::Added), Just(EventKind::Modified), Just(EventKind::Deleted)].boxed()
}

pub(crate) fn change(at: u64) -> Made<Change> {
    let kind = prop_oneof![Just(ChangeKind::Put), Just(ChangeKind::Delete)];
    (kind, object_at(at)).prop_map(move |(kind, object)| Change { rv: rv(at), kind, object }).boxed()
}

pub(crate) fn interest_event(at: u64) -> Made<InterestEvent> {
    (event_kind(), object_at(at))
        .prop_map(move |(kind, object)| InterestEvent { rv: rv(at), kind, object })
        .boxed()
}

pub(crate) fn delivery(at: u64) -> Made<Delivery> {
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

pub(crate) fn spec() -> Made<MirrorSpec> {
    prop_oneof![
        Just(spec_of(pods(), None)),
        (any::<bool>(), vec("[.]spec[.][a-z]{1,6}", 0..4)).prop_map(|(is_namespaced, json_paths)| {
            spec_of(gauges(), Some(&CustomFields { is_namespaced, json_paths }))
        })
    ]
    .boxed()
}

pub(crate) fn facts() -> Made<MirrorFacts> {
    ("[A-Z]{1,9}List", vec(".{0,9}", 0..3), spec())
        .prop_map(|(list_kind, warnings, spec)| MirrorFacts {
            list_kind: list_kind.into(),
            warnings: warnings.into_iter().map(Arc::from).collect(),
            bookmark: BookmarkTemplate::composed(&spec),
        })
        .boxed()
}

pub(crate) fn unanswered() -> Made<Unanswered> {
    prop_oneof![
        version().prop_map(|floor| Unanswered::TooOld { floor }),
        version().prop_map(|frontier| Unanswered::NotReached { frontier }),
        Just(Unanswered::NotMine),
        Just(Unanswered::Empty)
    ]
    .boxed()
}
