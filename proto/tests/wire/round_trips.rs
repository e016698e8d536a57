//! Every message that can be said arrives as it was said. Compared by what `Debug` shows, which is every field.

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use weir_core::message::{
    Credit, FromNode as NodeMessage, ListChunk, ListId, NamesEdit, OpenId, SnapshotChunk, SnapshotStart,
};
use weir_core::window::Window;
use weir_core::{History, ObjectKey};
use weir_proto::feed::{Entry, FeedAnswer, Proof, Prove, Subscribe, Subscribed};
use weir_proto::read::{
    Count, CountAnswer, List, ListAnswer, Log, LogAnswer, MirrorWindow, WindowRequest, Windows,
};
use weir_proto::session::{
    Attached, FromNode, MirrorNumber, Names, Open, Registration, Said, ToNode, Unmirrored, Witness,
};
use weir_proto::{Protocol, Spoken};

use crate::kinds::Any;
use crate::parts::{
    Made, change, delivery, facts, interest, interest_event, key, mirror, objects, range, scope, slots,
    source, spec, statement, unanswered, version,
};

fn history() -> Made<History> {
    any::<u32>().prop_map(|number| History::new(number.into())).boxed()
}

fn feed_answer() -> Made<FeedAnswer> {
    let subscribed = (source(), version(), spec(), option::of(facts()), history()).prop_map(|said| {
        let (source, at, spec, facts, history) = said;
        FeedAnswer::Subscribed(Subscribed { protocol: Protocol::V1, source, at, spec, facts, history })
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
        history().prop_map(FeedAnswer::Restored),
        facts().prop_map(FeedAnswer::Facts)
    ]
    .boxed()
}

fn feed() -> Made<Any> {
    let spoken = (1u32.., 0u32..3)
        .prop_map(|(oldest, more)| Spoken::new(oldest, oldest.saturating_add(more)).unwrap());
    let subscribe = (spoken, range(), option::of(version()), history())
        .prop_map(|(spoken, range, after, history)| Subscribe { spoken, range, after, history });
    let prove = (mirror(), scope(), any::<[bool; 4]>(), option::of(history())).prop_map(
        |(mirror, scope, [wants_entries, wants_catch_up, wants_digests, wants_tick], doubted)| Prove {
            mirror,
            scope,
            wants_entries,
            wants_catch_up,
            wants_digests,
            doubted,
            wants_tick,
        },
    );
    let entry = (key(), ".{1,9}", version(), option::of(any::<u64>()))
        .prop_map(|(key, uid, rv, digest)| Entry { key, uid: uid.into(), rv, digest });
    let proof = (source(), version(), version(), option::of(vec(entry, 0..4)), any::<bool>()).prop_map(
        |(source, revision, asked_at, entries, can_tick)| Proof {
            source,
            revision,
            asked_at,
            entries,
            can_tick,
        },
    );
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
        names.prop_map(ToNode::Names),
        (number(), version()).prop_map(|(mirror, at)| ToNode::Reach(mirror, at))
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
        (version(), history()).prop_map(|(highest, history)| Said::Node(NodeMessage::Restored {
            highest,
            history: history.next()
        })),
        history().prop_map(|history| Said::Node(NodeMessage::History(history))),
        version().prop_map(Said::Floor),
        (id(), edit(), version()).prop_map(|(id, edit, at)| Said::Node(NodeMessage::Named { id, edit, at }))
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
        (number(), spec(), option::of(facts()), history()).prop_map(|(mirror, spec, facts, history)| {
            FromNode::Attached(Attached { mirror, spec, facts, history })
        }),
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
    let list = (range(), interest(), version(), start(), max.clone(), history()).prop_map(
        |(range, interest, at, from, max_objects, history)| List {
            range,
            interest,
            at,
            from,
            max_objects,
            history,
        },
    );
    let log = (range(), interest(), version(), version(), history()).prop_map(
        |(range, interest, a, b, history)| {
            let (after, to) = (a.min(b), a.max(b));
            Log { range, interest, after, to, history }
        },
    );
    let count = (range(), scope(), version(), start(), max, history()).prop_map(
        |(range, scope, at, from, at_most, history)| Count { range, scope, at, from, at_most, history },
    );
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
    let of = (mirror(), source(), option::of(window), history())
        .prop_map(|(mirror, source, window, history)| MirrorWindow { mirror, source, window, history });
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
