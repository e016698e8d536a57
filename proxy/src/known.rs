//! What is remembered by name, of a bounded number of names: in two generations. When the young one is full it becomes the old
//! one, and the old one is forgotten; what is looked for is young again. So what was looked for within the last half of the
//! bound is there, at the price of two lookups and of no clock.

use std::collections::HashMap;
use std::hash::Hash;

/// Values by name.
#[derive(Debug)]
pub(crate) struct Known<K, T> {
    max_young: usize,
    young: HashMap<K, T>,
    old: HashMap<K, T>,
}

// === impl Known ===

impl<K: Eq + Hash, T> Known<K, T> {
    /// Nothing, and room for so much.
    pub(crate) fn new(max: usize) -> Self {
        Self { max_young: max / 2, young: HashMap::new(), old: HashMap::new() }
    }

    /// What is remembered of a name.
    pub(crate) fn find(&mut self, name: &K) -> Option<&mut T> {
        if let Some((name, value)) = self.old.remove_entry(name) {
            self.make_room();
            self.young.insert(name, value);
        }
        self.young.get_mut(name)
    }

    /// The same, remembered from now on.
    pub(crate) fn get_or_insert(&mut self, name: K, first: impl FnOnce() -> T) -> &mut T {
        if self.find(&name).is_none() {
            self.make_room();
        }
        self.young.entry(name).or_insert_with(first)
    }

    fn make_room(&mut self) {
        if self.young.len() >= self.max_young {
            self.old = std::mem::take(&mut self.young);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_remembered_than_there_is_room_for_and_who_is_looked_for_stays() {
        let mut known = Known::new(10);
        known.get_or_insert(0, || 0);
        for client in 1..1_000 {
            *known.get_or_insert(client, || 0) += client;
            assert!(known.young.len() + known.old.len() <= 10);
            assert!(known.find(&0).is_some(), "looked for all the time");
            assert_eq!(known.find(&client), Some(&mut client.clone()));
        }
        assert_eq!(known.find(&500), None);
    }
}
