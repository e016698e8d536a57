//! A list that is still coming in. Chunks of another list, or a chunk out of turn, start it again: half a list is never
//! content.

use std::sync::Arc;

use weir_core::Object;
use weir_core::message::{ListChunk, ListId};

/// The chunks so far of one list.
#[derive(Debug, Default)]
pub(super) struct Staging {
    list: Option<ListId>,
    next_seq: u32,
    objects: Vec<Arc<Object>>,
}

// === impl Staging ===

impl Staging {
    /// Adds a chunk; false when it does not continue what is staged.
    pub(super) fn add(&mut self, chunk: ListChunk) -> bool {
        if self.list != Some(chunk.list) {
            *self = Self { list: Some(chunk.list), next_seq: 0, objects: Vec::new() };
        }
        if chunk.seq != self.next_seq {
            return false;
        }
        self.next_seq += 1;
        self.objects.extend(chunk.objects);
        true
    }

    /// The whole list; staging is empty afterwards.
    pub(super) fn take(&mut self) -> Vec<Arc<Object>> {
        std::mem::take(self).objects
    }
}
