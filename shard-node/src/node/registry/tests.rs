//! The index against asking every interest, and what it spares.

use proptest::prelude::*;
use weir_core::interest::Scope;
use weir_core::message::Credit;
use weir_core::selector::{FieldSelector, LabelSelector};
use weir_core::shard_selector::ShardSelector;

use super::*;
use crate::testing::{Pod, table};

fn interest((namespace, name): (Option<&str>, Option<&str>), labels: &str, fields: &str) -> Arc<Interest> {
    let scope = Scope { namespace: namespace.map(Into::into), name: name.map(Into::into) };
    let fields = table().resolve(&FieldSelector::parse(fields).unwrap()).unwrap();
    Arc::new(Interest::new(scope, LabelSelector::parse(labels).unwrap(), fields, None))
}

fn open(id: OpenId, interest: Arc<Interest>) -> Open {
    Open { id, interest, slots: SlotSet::ALL, credit: Credit(9) }
}

fn interests() -> Vec<Arc<Interest>> {
    let upper =
        ShardSelector::parse("shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')");
    let upper =
        Interest::new(Scope::default(), LabelSelector::everything(), Vec::new(), Some(upper.unwrap()));
    vec![
        interest((None, None), "", ""),
        interest((Some("a"), None), "", ""),
        interest((Some("a"), Some("pod0")), "", ""),
        interest((None, Some("pod1")), "", ""),
        interest((None, None), "app=red", ""),
        interest((None, None), "", "spec.nodeName=node0"),
        interest((Some("b"), None), "app!=red", "spec.nodeName=node1"),
        interest((None, None), "", "spec.nodeName="),
        interest((None, None), "", "spec.nodeName!=node0"),
        interest((None, None), "", "metadata.name=pod0,spec.nodeName=node0"),
        interest((None, None), "", "metadata.namespace=b"),
        Arc::new(upper),
    ]
}

fn pod() -> impl Strategy<Value = Pod> {
    (0..2_usize, 0..3_usize, 0..4_usize, 0..2_usize, 0..3_usize).prop_map(
        |(namespace, name, uid, app, node)| Pod {
            app: ["", "red"][app].to_owned(),
            node: ["", "node0", "node1"][node].to_owned(),
            ..Pod::new(["a", "b"][namespace], &format!("pod{name}"), &format!("uid{uid}"))
        },
    )
}

fn names() -> impl Strategy<Value = Vec<ObjectKey>> {
    let key =
        |(namespace, name): (usize, usize)| ObjectKey::new(["a", "b"][namespace], &format!("pod{name}"));
    proptest::collection::vec((0..2_usize, 0..3_usize).prop_map(key), 0..6)
}

proptest! {
    /// What the index finds is what asking everybody finds, each once, after registrations came and went.
    #[test]
    fn the_index_finds_what_asking_everybody_finds(
        registered in proptest::collection::vec((0..3_u64, 0..12_usize, any::<bool>()), 0..40),
        sets in proptest::collection::vec((0..3_u64, 0..12_usize, names(), names(), names()), 0..8),
        gone in proptest::option::of(0..3_u64),
        was in proptest::option::of(pod()),
        is in pod(),
        is_deleted in any::<bool>(),
    ) {
        let (mut registry, mut all, mut named) = (Registry::default(), Vec::new(), Vec::new());
        let interests = interests();
        for (id, (session, interest, stays)) in registered.into_iter().enumerate() {
            let (session, id) = (SessionId(session), OpenId(id as u64));
            registry.insert(session, open(id, interests[interest].clone()));
            if stays {
                all.push((session, id, interests[interest].clone()));
            } else {
                registry.remove(session, id);
            }
        }
        for (number, (session, interest, opened, added, removed)) in sets.into_iter().enumerate() {
            let (session, id, interest) = (SessionId(session), OpenId(100 + number as u64), interests[interest].clone());
            let mut keys: HashSet<ObjectKey> = opened.iter().cloned().collect();
            prop_assert_eq!(registry.insert_names(session, open(id, interest.clone()), opened), keys.len());
            let removed: Vec<_> = removed.into_iter().filter(|key| !added.contains(key)).collect();
            keys.retain(|key| !removed.contains(key));
            keys.extend(added.iter().cloned());
            let change = NamesChange { id, edit: NamesEdit::FIRST, added, removed };
            prop_assert_eq!(registry.edit(session, change.clone()), Some(keys.len()));
            prop_assert_eq!(registry.edit(session, change), None, "the same change again");
            if number % 3 == 2 {
                registry.remove(session, id);
            } else {
                named.push((session, id, interest, keys));
            }
        }
        if let Some(gone) = gone {
            named.retain(|(session, _, _, _)| *session != SessionId(gone));
            registry.remove_session(SessionId(gone));
            all.retain(|(session, _, _)| *session != SessionId(gone));
        }
        prop_assert_eq!(registry.len(), all.len() + named.len());
        // The same key before and after, as in a store.
        let was = was.map(|pod| Pod { namespace: is.namespace.clone(), name: is.name.clone(), ..pod }.object(1));
        let change = if is_deleted { is.delete(2) } else { is.put(2) };
        let concerned = named.into_iter().filter(|(_, _, _, keys)| keys.contains(change.object.key()));
        all.extend(concerned.map(|(session, id, interest, _)| (session, id, interest)));
        let mut hits: Vec<_> = registry.seen_by(was.as_ref(), &change).iter().map(|hit| (hit.id, hit.kind)).collect();
        hits.sort_by_key(|(id, _)| *id);
        let kinds = all.iter().filter_map(|(_, id, interest)| Some((*id, interest.event_kind(was.as_deref(), current(&change))?)));
        prop_assert_eq!(hits, kinds.collect::<Vec<_>>());
    }
}

#[test]
fn a_change_is_offered_to_those_it_can_concern() {
    let mut registry = Registry::default();
    for number in 0..10_000 {
        let fields = format!("spec.nodeName=node{number}");
        let session = SessionId(number % 3);
        registry.insert(session, open(OpenId(number), interest((None, None), "", &fields)));
    }
    for number in 0..1_000 {
        let name = format!("pod{number}");
        let id = OpenId(10_000 + number);
        registry.insert(SessionId(0), open(id, interest((None, Some(&name)), "", "")));
    }
    let pod = |node: &str| Pod { node: node.to_owned(), ..Pod::new("a", "pod7", "u") };
    let (was, change) = (pod("node3").object(1), pod("node4").put(2));
    let offered: usize = registry.candidates(Some(&was), &change).into_iter().map(<[_]>::len).sum();
    assert_eq!(offered, 3, "the old node's, the new node's, and the name's, of 11,000");
    assert_eq!(registry.seen_by(Some(&was), &change).len(), 3);
}
