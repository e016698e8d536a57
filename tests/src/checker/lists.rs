//! Lists: one state of the collection, in key order, however many pages it took, and not older than what had to be shown.

use weir_core::ResourceVersion;

use super::{Fault, History, Selection, Version, describe};

/// What one client saw of one list, its pages joined.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The revision that the list carries.
    pub at: ResourceVersion,
    /// The items in the order in which they came.
    pub items: Vec<Version>,
    /// How many items were left when the client stopped reading; 0 after the last page.
    pub left: usize,
    /// The lowest revision that may be shown: what the client knew, or what upstream had acknowledged.
    pub not_older_than: ResourceVersion,
}

/// Judges a list.
pub fn check_list(history: &History, selection: Selection<'_>, list: &Listing) -> Result<(), Fault> {
    if list.at < history.start() {
        return Err(Fault::BeyondHistory(list.at));
    }
    if list.at < list.not_older_than {
        return Err(Fault::OldList { at: list.at, not_older_than: list.not_older_than });
    }
    let expected: Vec<Version> =
        history.snapshot(list.at).into_iter().filter(|version| selection(version)).collect();
    let (at, end) = (list.at, || "the end".to_owned());
    let length = list.items.len().max(expected.len().saturating_sub(list.left));
    for place in 0..length {
        let (saw, wanted) = (list.items.get(place), expected.get(place));
        if saw != wanted {
            let (saw, expected) = (saw.map_or_else(end, describe), wanted.map_or_else(end, describe));
            return Err(Fault::NotTheSnapshot { at, place, saw, expected });
        }
    }
    Ok(())
}
