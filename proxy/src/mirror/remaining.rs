//! How many objects are left behind a page, kept from page to page of a list: the first page counts, the others subtract.
//! Counting at every page would make paging quadratic.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_core::ResourceVersion;

/// Lists that are being paged at once; the count of another is made again. 1,024 × about 200 bytes.
const MAX_KEPT: usize = 1_024;

/// The counts of lists that are being paged.
#[derive(Debug, Default)]
pub struct Remaining(Mutex<VecDeque<(Place, usize)>>);

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The revision of the list.
    pub at: ResourceVersion,
    /// The namespace listed, or all of them.
    pub namespace: Option<Arc<str>>,
    /// The lowest key that the next page may hold.
    pub from: Arc<str>,
}

// === impl Remaining ===

impl Remaining {
    /// How many objects there are from the place on, if it is known.
    pub fn from(&self, place: &Place) -> Option<usize> {
        self.0.lock().iter().find(|(known, _)| known == place).map(|(_, count)| *count)
    }

    /// Remembers how many there are from the place on.
    pub fn remember(&self, place: Place, count: usize) {
        let mut kept = self.0.lock();
        kept.retain(|(known, _)| *known != place);
        if kept.len() == MAX_KEPT {
            kept.pop_front();
        }
        kept.push_back((place, count));
    }

    /// Forgets everything: the numbers are of a history that is over.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at: u64, namespace: Option<&str>, from: &str) -> Place {
        Place { at: ResourceVersion::new(at), namespace: namespace.map(Arc::from), from: from.into() }
    }

    #[test]
    fn a_place_is_known_by_revision_namespace_and_key_until_it_is_forgotten() {
        let remaining = Remaining::default();
        remaining.remember(place(5, None, "a/b\0"), 7);
        assert_eq!(remaining.from(&place(5, None, "a/b\0")), Some(7));
        for other in [place(6, None, "a/b\0"), place(5, Some("a"), "a/b\0"), place(5, None, "a/c\0")] {
            assert_eq!(remaining.from(&other), None, "{other:?}");
        }
        for number in 0..MAX_KEPT {
            remaining.remember(place(9, None, &number.to_string()), number);
        }
        assert_eq!(remaining.from(&place(5, None, "a/b\0")), None, "the oldest goes first");
        remaining.clear();
        assert_eq!(remaining.from(&place(9, None, "3")), None);
    }
}
