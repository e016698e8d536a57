//! One message of every kind and variant, with every field set somewhere: what the golden files are recorded from. A test
//! checks that nothing of the `.proto` files is left out here.

use std::sync::Arc;

use weir_core::interest::{FieldTarget, FieldTerm, Interest, Scope};
use weir_core::message::{
    Change, ChangeKind, Credit, Delivery, EventKind, FromNode as NodeMessage, InterestEvent, ListChunk,
    ListId, LogRequest, NamesEdit, Open as CoreOpen, OpenId, SnapshotChunk, SnapshotRequest, SnapshotStart,
    Unanswered,
};
use weir_core::mirror::{BookmarkTemplate, JsonForm, MirrorFacts, MirrorSpec};
use weir_core::object::ObjectSchema;
use weir_core::selector::{CustomFields, FieldTable, LabelSelector};
use weir_core::shard_selector::ShardSelector;
use weir_core::window::Window;
use weir_core::{
    GroupVersionResource, History, Object, ObjectKey, ResourceVersion, Slot, SlotSet, SourceId, Statement,
};
use weir_proto::feed::{Entry, FeedAnswer, Proof, Prove, Subscribe, Subscribed};
use weir_proto::read::{
    Count, CountAnswer, List, ListAnswer, Log, LogAnswer, MirrorWindow, WindowRequest, Windows,
};
use weir_proto::session::{
    Attached, FromNode, MirrorNumber, Names, Open, Registration, Said, ToNode, Unmirrored, Witness,
};
use weir_proto::{MirrorRange, Protocol, Spoken};

use crate::kinds::Any;

/// Restored three times.
const HISTORY: History = History::new(3);

pub(crate) fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

pub(crate) fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

pub(crate) fn gauges() -> GroupVersionResource {
    GroupVersionResource::new("metering.weir.test", "v1beta2", "gauges")
}

pub(crate) fn spec_of(resource: GroupVersionResource, custom: Option<&CustomFields>) -> MirrorSpec {
    let table = FieldTable::of(&resource, custom).unwrap();
    MirrorSpec {
        kind: "Kind".into(),
        is_namespaced: custom.is_none_or(|custom| custom.is_namespaced),
        form: if custom.is_some() { JsonForm::Custom } else { JsonForm::BuiltIn },
        schema: Arc::new(ObjectSchema::new(table).unwrap()),
        resource,
    }
}

pub(crate) fn object(namespace: &str, name: &str, at: u64) -> Arc<Object> {
    let namespace =
        if namespace.is_empty() { String::new() } else { format!(r#""namespace":"{namespace}","#) };
    let json = format!(
        r#"{{"metadata":{{"name":"{name}",{namespace}"uid":"uid-{name}","resourceVersion":"{at}","labels":{{"app":"web"}}}},"spec":{{"nodeName":"n1"}}}}"#
    );
    Arc::new(Object::parse(json.as_bytes(), &ObjectSchema::bare()).unwrap())
}

fn facts() -> MirrorFacts {
    let bookmark = BookmarkTemplate::composed(&spec_of(pods(), None));
    MirrorFacts { list_kind: "PodList".into(), warnings: vec![r#"299 - "old""#.into()], bookmark }
}

fn range() -> MirrorRange {
    let mut slots = SlotSet::of_shard(1, 4);
    slots.insert(Slot::new(0));
    MirrorRange { mirror: gauges(), slots }
}

fn interest(table: &FieldTable) -> Arc<Interest> {
    let term = |target, is_negated, value: &str| FieldTerm { target, is_negated, value: value.into() };
    assert!(!table.fields().is_empty(), "a term by path needs a field");
    Arc::new(Interest::new(
        Scope { namespace: Some("default".into()), name: Some("web-0".into()) },
        LabelSelector::parse("app=web,tier notin (a,b),!gone,size>3").unwrap(),
        vec![
            term(FieldTarget::Name, false, "web-0"),
            term(FieldTarget::Namespace, true, "other"),
            term(FieldTarget::Field(0), false, "n1"),
            term(FieldTarget::NeverSet, true, ""),
        ],
        Some(ShardSelector::parse("shardRange(object.metadata.uid, '0x0', '0x8000000000000000')").unwrap()),
    ))
}

fn registration() -> Registration {
    Registration { mirror: MirrorNumber::new(3).unwrap(), id: OpenId(70) }
}

fn feed_answers() -> Vec<Any> {
    let custom =
        CustomFields { is_namespaced: true, json_paths: vec![".spec.color".into(), ".spec.size".into()] };
    let subscribed = |spec, facts| {
        let (protocol, source) = (Protocol::V1, SourceId(0x0102_0304_0506_0708));
        FeedAnswer::Subscribed(Subscribed { protocol, source, at: rv(1_000), spec, facts, history: HISTORY })
    };
    let changes = vec![
        Change { rv: rv(11), kind: ChangeKind::Put, object: object("default", "web-0", 11) },
        Change { rv: rv(12), kind: ChangeKind::Delete, object: object("", "web-1", 12) },
    ];
    let statement = Statement::new(SourceId(7), rv(10), rv(12), changes).unwrap();
    let chunk = ListChunk {
        list: ListId(9),
        at: rv(500),
        seq: 2,
        is_last: true,
        objects: vec![object("a", "x", 3), object("b", "y", 400)],
    };
    [
        subscribed(spec_of(pods(), None), None),
        subscribed(spec_of(gauges(), Some(&custom)), Some(facts())),
        FeedAnswer::Statement { range: range(), statement },
        FeedAnswer::List { source: SourceId(8), chunk },
        FeedAnswer::Restored(HISTORY),
        FeedAnswer::Facts(facts()),
    ]
    .map(Any::FeedAnswer)
    .into()
}

fn feed() -> Vec<Any> {
    let subscribe =
        |after| Any::Subscribe(Subscribe { spoken: Spoken::OURS, range: range(), after, history: HISTORY });
    let scope = Scope { namespace: Some("default".into()), name: None };
    let entry = |digest| {
        Some(vec![Entry {
            key: ObjectKey::new("default", "web-0"),
            uid: "uid-web-0".into(),
            rv: rv(11),
            digest,
        }])
    };
    let prove = Prove { scope, wants_entries: true, wants_catch_up: true, ..Prove::revision(pods()) };
    let doubting = Prove { wants_digests: true, doubted: Some(HISTORY), ..prove.clone() };
    let ticking = Prove { wants_tick: true, ..Prove::revision(pods()) };
    let answer =
        |entries| Proof { source: SourceId(7), revision: rv(90), asked_at: rv(80), entries, can_tick: false };
    let proof = |entries| Any::Proof(answer(entries));
    let mut samples = vec![
        subscribe(None),
        subscribe(Some(rv(10))),
        Any::Prove(prove),
        Any::Prove(doubting),
        Any::Prove(ticking),
        proof(None),
        proof(entry(None)),
        proof(entry(Some(0x0123_4567_89ab_cdef))),
        Any::Proof(Proof { can_tick: true, ..answer(None) }),
    ];
    samples.extend(feed_answers());
    samples
}

fn to_node() -> Vec<Any> {
    let spec = spec_of(pods(), None);
    let table = spec.schema.table();
    let core = |interest| CoreOpen { id: OpenId(70), interest, slots: SlotSet::ALL, credit: Credit(256) };
    let everything = Arc::new(Interest::everything());
    let mut named = Open::of(registration().mirror, &core(everything), table).unwrap();
    named.names = Some(vec![ObjectKey::new("default", "web-0"), ObjectKey::new("", "node-1")]);
    let mut open = Open::of(registration().mirror, &core(interest(table)), table).unwrap();
    open.witness = Some(Witness::of(&object("default", "web-0", 11)));
    let names = Names {
        registration: registration(),
        edit: NamesEdit::FIRST.next(),
        added: vec![ObjectKey::new("default", "web-1")],
        removed: vec![ObjectKey::new("default", "web-0")],
    };
    [
        ToNode::Hello(Spoken::OURS),
        ToNode::Attach(pods()),
        ToNode::Detach(registration().mirror),
        ToNode::Open(open),
        ToNode::Open(named),
        ToNode::Close(registration()),
        ToNode::Credit(registration(), Credit(16)),
        ToNode::Names(names),
        ToNode::Reach(registration().mirror, rv(21)),
    ]
    .map(Any::ToNode)
    .into()
}

fn flush() -> FromNode {
    let delivery = Delivery {
        rv: rv(21),
        present: Some(object("default", "web-0", 21)),
        gone: Some(object("default", "web-0", 21)),
        tags: vec![
            (OpenId(1), EventKind::Added),
            (OpenId(2), EventKind::Modified),
            (OpenId(3), EventKind::Deleted),
        ],
    };
    let statement = Statement::new(SourceId(7), rv(20), rv(25), vec![delivery]).unwrap();
    let frontier = Statement::nothing(SourceId(7), rv(25), rv(30));
    let id = OpenId(70);
    let said = [
        Said::Node(NodeMessage::Live { id, at: rv(20) }),
        Said::Node(NodeMessage::Said(statement)),
        Said::Node(NodeMessage::NotMine(id)),
        Said::Node(NodeMessage::Left { id, at: rv(25) }),
        Said::Node(NodeMessage::TooOld(id)),
        Said::Node(NodeMessage::Restored { highest: rv(25), history: HISTORY }),
        Said::Node(NodeMessage::History(HISTORY)),
        Said::Floor(rv(12)),
        Said::Node(NodeMessage::Named { id, edit: NamesEdit::FIRST, at: rv(25) }),
        Said::Node(NodeMessage::Said(frontier)),
    ];
    FromNode::Flush(said.map(|said| (registration().mirror, said)).into())
}

fn from_node() -> Vec<Any> {
    let attached = |facts| {
        FromNode::Attached(Attached {
            mirror: registration().mirror,
            spec: spec_of(pods(), None),
            facts,
            history: HISTORY,
        })
    };
    [
        FromNode::Welcome { protocol: Protocol::V1, slots: range().slots },
        attached(None),
        attached(Some(facts())),
        FromNode::Unmirrored { mirror: pods(), reason: Unmirrored::Aggregated },
        FromNode::Learned(registration().mirror, facts()),
        flush(),
    ]
    .map(Any::FromNode)
    .into()
}

fn questions() -> Vec<Any> {
    let spec = spec_of(pods(), None);
    let table = spec.schema.table();
    let list = |from, max_objects| {
        let request = SnapshotRequest {
            history: HISTORY,
            interest: interest(table),
            slots: SlotSet::ALL,
            at: rv(30),
            from,
            max_objects,
        };
        Any::List(List::of(&pods(), &request, table).unwrap())
    };
    let log = LogRequest {
        history: HISTORY,
        interest: interest(table),
        slots: SlotSet::ALL,
        after: rv(20),
        to: rv(30),
    };
    let key = ObjectKey::new("default", "web-0");
    let count = Count {
        range: range(),
        scope: Scope { namespace: Some("default".into()), name: None },
        at: rv(30),
        from: Some(SnapshotStart::Behind(key.clone())),
        at_most: 1_000,
        history: HISTORY,
    };
    vec![
        list(None, usize::MAX),
        list(Some(SnapshotStart::At("default/web".into())), 500),
        list(Some(SnapshotStart::Behind(key)), 1),
        Any::Log(Log::of(&pods(), &log, table).unwrap()),
        Any::Count(count),
        Any::WindowRequest(WindowRequest(vec![pods(), gauges()])),
    ]
}

fn answers() -> Vec<Any> {
    let chunk = |next| {
        let objects = vec![object("default", "web-0", 11), object("default", "web-1", 12)];
        Any::ListAnswer(ListAnswer::Chunk(SnapshotChunk { objects, next }))
    };
    let event = |kind, at| InterestEvent { rv: rv(at), kind, object: object("default", "web-0", at) };
    let events =
        vec![event(EventKind::Added, 21), event(EventKind::Modified, 22), event(EventKind::Deleted, 29)];
    let statement = Statement::new(SourceId(7), rv(20), rv(30), events).unwrap();
    let window = Window { floor: rv(20), frontier: rv(30) };
    let of = |mirror, window| MirrorWindow { mirror, source: SourceId(7), window, history: HISTORY };
    let mirrors = vec![of(pods(), Some(window)), of(gauges(), None)];
    let mut samples = vec![
        chunk(Some(ObjectKey::new("default", "web-1"))),
        chunk(None),
        Any::LogAnswer(LogAnswer::Statement { range: range(), statement }),
        Any::LogAnswer(LogAnswer::Unanswered(Unanswered::TooOld { floor: rv(20) })),
        Any::CountAnswer(CountAnswer::Count(1_234)),
        Any::CountAnswer(CountAnswer::Unanswered(Unanswered::Empty)),
        Any::Windows(Windows { slots: range().slots, mirrors }),
    ];
    let refusals = [
        Unanswered::TooOld { floor: rv(20) },
        Unanswered::NotReached { frontier: rv(30) },
        Unanswered::NotMine,
        Unanswered::Empty,
    ];
    samples.extend(refusals.map(ListAnswer::Unanswered).map(Any::ListAnswer));
    samples
}

/// All samples, in the order of their files.
pub(crate) fn samples() -> Vec<Any> {
    [feed(), to_node(), from_node(), questions(), answers()].concat()
}

/// All samples with the names of their files: the kind, and a number among those of the kind.
pub(crate) fn files() -> Vec<(String, Any)> {
    let samples = samples();
    let number = |index: usize| {
        samples[..index].iter().filter(|before| before.kind() == samples[index].kind()).count() + 1
    };
    let name = |index: usize| format!("{}.{}.bin", samples[index].kind(), number(index));
    (0..samples.len()).map(|index| (name(index), samples[index].clone())).collect()
}
