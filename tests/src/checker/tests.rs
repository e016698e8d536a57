//! Each fault, made by hand in an otherwise right record, is found.

use weir_core::message::{ChangeKind, EventKind};
use weir_core::{ObjectKey, ResourceVersion};

use super::{Fault, History, Item, Listing, Seen, Version, Watch, check_list, check_watch};

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

fn version(name: &str, at: u64, color: &str) -> Version {
    let body = format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{at}"}},"color":"{color}"}}"#);
    Version {
        key: ObjectKey::new("", name),
        uid: format!("uid-{name}").into(),
        rv: rv(at),
        body: body.into(),
    }
}

fn is_red(version: &Version) -> bool {
    String::from_utf8_lossy(&version.body).contains(r#""color":"red""#)
}

/// a is red from 2, blue from 5; b is red from 3 until its end at 7; c is red from 4 and again written at 8.
fn history() -> History {
    let mut history = History::default();
    history.push(ChangeKind::Put, version("a", 2, "red"));
    history.push(ChangeKind::Put, version("b", 3, "red"));
    history.push(ChangeKind::Put, version("c", 4, "red"));
    history.push(ChangeKind::Put, version("a", 5, "blue"));
    history.push(ChangeKind::Delete, version("b", 7, "red"));
    history.push(ChangeKind::Put, version("c", 8, "red"));
    history
}

fn right() -> Watch {
    let events = history().events(&is_red, rv(2), rv(8)).map(Item::Event).collect();
    Watch { after: rv(2), items: events, complete_to: rv(8) }
}

fn fault(spoil: impl FnOnce(&mut Watch)) -> Fault {
    let mut watch = right();
    spoil(&mut watch);
    check_watch(&history(), &is_red, &watch).unwrap_err()
}

#[test]
fn what_is_right_passes() {
    let watch = right();
    let kinds = watch.items.iter().map(|item| match item {
        Item::Event(seen) => (seen.version.rv.get(), seen.kind),
        Item::Bookmark(_) => panic!("no bookmark was made"),
    });
    let (added, modified, deleted) = (EventKind::Added, EventKind::Modified, EventKind::Deleted);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [(3, added), (4, added), (5, deleted), (7, deleted), (8, modified)]
    );
    assert_eq!(check_watch(&history(), &is_red, &watch), Ok(()));
}

#[test]
fn leaving_the_selection_shows_the_previous_content_at_the_new_revision() {
    let Some(Item::Event(left)) = right().items.get(2).cloned() else { panic!("an event at 5") };
    assert_eq!(left.version, Version { rv: rv(5), ..version("a", 5, "red") });
    let wrong = Seen { version: version("a", 5, "blue"), ..left };
    assert!(matches!(fault(|watch| watch.items[2] = Item::Event(wrong)), Fault::Differs { .. }));
}

#[test]
fn a_dropped_event_is_found() {
    let found = fault(|watch| drop(watch.items.remove(1)));
    assert_eq!(found, Fault::Dropped { missing: rv(4), next: rv(5) });
}

#[test]
fn a_dropped_end_is_found() {
    let found = fault(|watch| drop(watch.items.pop()));
    assert_eq!(found, Fault::Silent { missing: rv(8), to: rv(8) });
}

#[test]
fn a_repeated_event_is_found() {
    let found = fault(|watch| watch.items.insert(3, watch.items[1].clone()));
    assert_eq!(found, Fault::Repeated(rv(4)));
}

#[test]
fn reordered_events_are_found() {
    let found = fault(|watch| watch.items.swap(1, 2));
    assert_eq!(found, Fault::OutOfOrder { late: rv(4), behind: rv(5) });
}

#[test]
fn a_stale_event_is_found() {
    let early = history().events(&is_red, rv(0), rv(2)).next().unwrap();
    let found = fault(|watch| watch.items.insert(0, Item::Event(early)));
    assert_eq!(found, Fault::Stale { rv: rv(2), after: rv(2) });
}

#[test]
fn an_event_with_old_content_is_found() {
    let old = Seen { kind: EventKind::Modified, version: version("c", 8, "green") };
    assert!(matches!(fault(|watch| watch.items[4] = Item::Event(old)), Fault::Differs { .. }));
}

#[test]
fn an_event_outside_the_selection_is_found() {
    let foreign = Seen { kind: EventKind::Modified, version: version("a", 6, "blue") };
    let found = fault(|watch| watch.items.insert(3, Item::Event(foreign)));
    assert_eq!(found, Fault::Invented(rv(6)));
}

#[test]
fn a_bookmark_that_promises_too_much_is_found() {
    let found = fault(|watch| watch.items.insert(1, Item::Bookmark(rv(4))));
    assert_eq!(found, Fault::Promised { promised: rv(4), missing: rv(4) });
    let found = fault(|watch| watch.items.insert(4, Item::Bookmark(rv(6))));
    assert_eq!(found, Fault::BookmarkBehind { promised: rv(6), position: rv(7) });
}

#[test]
fn bookmarks_that_hold_pass() {
    let mut watch = right();
    watch.items.insert(1, Item::Bookmark(rv(3)));
    watch.items.insert(4, Item::Bookmark(rv(5)));
    watch.items.push(Item::Bookmark(rv(9)));
    assert_eq!(check_watch(&history(), &is_red, &watch), Ok(()));
}

fn listing(at: u64, items: Vec<Version>) -> Listing {
    Listing { at: rv(at), items, left: 0, not_older_than: rv(0) }
}

#[test]
fn lists_are_the_collection_at_their_revision() {
    let history = history();
    for at in 0..=8 {
        let items = history.snapshot(rv(at)).into_iter().filter(is_red).collect();
        assert_eq!(check_list(&history, &is_red, &listing(at, items)), Ok(()), "{at}");
    }
}

#[test]
fn a_list_mixed_from_two_revisions_is_found() {
    let mixed = vec![version("a", 2, "red"), version("b", 3, "red"), version("c", 8, "red")];
    let everything = |_: &Version| true;
    assert!(matches!(
        check_list(&history(), &everything, &listing(4, mixed)),
        Err(Fault::NotTheSnapshot { place: 2, .. })
    ));
}

#[test]
fn a_list_that_is_short_or_long_or_out_of_order_is_found() {
    let history = history();
    let whole: Vec<_> = history.snapshot(rv(4));
    let everything = |_: &Version| true;
    let is_wrong = |items: Vec<Version>| {
        matches!(check_list(&history, &everything, &listing(4, items)), Err(Fault::NotTheSnapshot { .. }))
    };
    assert!(is_wrong(whole[..2].to_vec()));
    assert!(is_wrong([&whole[..], &whole[2..]].concat()));
    assert!(is_wrong(vec![whole[1].clone(), whole[0].clone(), whole[2].clone()]));
    let page = Listing { left: 1, ..listing(4, whole[..2].to_vec()) };
    assert_eq!(check_list(&history, &everything, &page), Ok(()));
}

#[test]
fn an_old_list_is_found() {
    let list = Listing { not_older_than: rv(5), ..listing(4, Vec::new()) };
    let found = check_list(&history(), &|_| false, &list).unwrap_err();
    assert_eq!(found, Fault::OldList { at: rv(4), not_older_than: rv(5) });
}
