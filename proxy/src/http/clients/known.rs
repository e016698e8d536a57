//! What is remembered of clients, of a bounded number of them: in two generations. When the young one is full it becomes the
//! old one, and the old one is forgotten; who is looked for is young again. So who was looked for within the last half of the
//! bound is there, at the price of two lookups and of no clock.

use std::collections::HashMap;

/// Values by client.
#[derive(Debug)]
pub(super) struct Known<T> {
    max_young: usize,
    young: HashMap<u64, T>,
    old: HashMap<u64, T>,
}

// === impl Known ===

impl<T> Known<T> {
    /// Nobody, and room for so many.
    pub(super) fn new(max: usize) -> Self {
        Self { max_young: max / 2, young: HashMap::new(), old: HashMap::new() }
    }

    /// What is remembered of a client.
    pub(super) fn find(&mut self, client: u64) -> Option<&mut T> {
        if let Some(value) = self.old.remove(&client) {
            self.make_room();
            self.young.insert(client, value);
        }
        self.young.get_mut(&client)
    }

    /// The same, remembered from now on.
    pub(super) fn get_or_insert(&mut self, client: u64, first: impl FnOnce() -> T) -> &mut T {
        if self.find(client).is_none() {
            self.make_room();
        }
        self.young.entry(client).or_insert_with(first)
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
            assert!(known.find(0).is_some(), "looked for all the time");
            assert_eq!(known.find(client), Some(&mut client.clone()));
        }
        assert_eq!(known.find(500), None);
    }
}
