//! Lists that are still coming in. Half a list is never content, and chunks of two lists never mix; but two feeds may list
//! at the same time, so a list does not push out the other, or neither would ever be whole.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_core::message::{ListChunk, ListId};
use weir_core::{Object, ResourceVersion};

/// Lists staged at once: one a feed, of which a mirror has one or two; the one that began first makes room.
const MAX_LISTS: usize = 4;

/// The chunks so far of each list.
#[derive(Debug, Default)]
pub(super) struct Staging(VecDeque<Staged>);

#[derive(Debug)]
struct Staged {
    list: ListId,
    at: ResourceVersion,
    next_seq: u32,
    objects: Vec<Arc<Object>>,
}

/// What a chunk made of its list.
#[derive(Debug)]
pub(super) enum Added {
    /// More chunks are to come.
    Part,
    /// The list is whole.
    Whole(Vec<Arc<Object>>),
    /// The chunk does not continue what is staged.
    OutOfTurn,
}

// === impl Staging ===

impl Staging {
    /// Adds a chunk.
    pub(super) fn add(&mut self, chunk: ListChunk) -> Added {
        let Some(staged) = self.list(&chunk) else { return Added::OutOfTurn };
        if chunk.seq != staged.next_seq {
            return Added::OutOfTurn;
        }
        staged.next_seq += 1;
        staged.objects.extend(chunk.objects);
        if !chunk.is_last {
            return Added::Part;
        }
        let objects = std::mem::take(&mut staged.objects);
        self.0.retain(|staged| staged.list != chunk.list);
        Added::Whole(objects)
    }

    /// Drops the lists that a store at `frontier` no longer wants.
    pub(super) fn drop_up_to(&mut self, frontier: ResourceVersion) {
        self.0.retain(|staged| staged.at > frontier);
    }

    /// The list of the chunk; its first chunk begins it.
    fn list(&mut self, chunk: &ListChunk) -> Option<&mut Staged> {
        if !self.0.iter().any(|staged| staged.list == chunk.list) && chunk.seq == 0 {
            self.0.truncate(MAX_LISTS - 1);
            self.0.push_front(Staged { list: chunk.list, at: chunk.at, next_seq: 0, objects: Vec::new() });
        }
        self.0.iter_mut().find(|staged| staged.list == chunk.list)
    }
}
