//! Lists from upstream, staged for the subscribers that have nothing, or nothing that upstream still leads on from. One is
//! read at a time; the one before it may still have slow readers.
//!
//! Bounded in bytes: over the bound only what every reader of a list has read may go, and otherwise reading it waits. So a
//! list larger than the bound passes nobody in its middle; it only cannot take in who comes after its beginning is gone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use weir_core::ResourceVersion;
use weir_core::message::{FeedMessage, ListChunk, ListId};

/// How long a whole list is kept for others that come without content: who lost everything together needs one list.
pub const KEEP_LIST: Duration = Duration::from_secs(10);

/// The lists.
#[derive(Debug)]
pub(super) struct Lists {
    max_bytes: usize,
    bytes: usize,
    staged: Vec<Staged>,
}

/// Where a reader of a list stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// In which list.
    pub(super) list: ListId,
    /// At which chunk.
    pub(super) seq: u32,
}

#[derive(Debug)]
struct Staged {
    id: ListId,
    /// Known with the first chunk.
    at: Option<ResourceVersion>,
    /// The number of the first chunk that is still here.
    first: u32,
    chunks: VecDeque<(Arc<FeedMessage>, usize)>,
    is_whole: bool,
    /// Whether others may still begin with it.
    is_open: bool,
    /// When the end was noticed.
    ended: Option<Duration>,
}

// === impl Lists ===

impl Lists {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, staged: Vec::new() }
    }

    /// A list is going to be read. No other can be begun with from now on.
    pub(super) fn begin(&mut self, id: ListId) {
        self.staged.iter_mut().for_each(|list| list.is_open = false);
        self.staged.push(Staged {
            id,
            at: None,
            first: 0,
            chunks: VecDeque::new(),
            is_whole: false,
            is_open: true,
            ended: None,
        });
    }

    /// Whether one is being read.
    pub(super) fn is_reading(&self) -> bool {
        self.staged.last().is_some_and(|list| !list.is_whole)
    }

    /// Adds a chunk of the list that is being read.
    pub(super) fn push(&mut self, chunk: ListChunk) {
        let Some(list) = self.staged.last_mut().filter(|list| list.id == chunk.list) else { return };
        list.at = Some(chunk.at);
        list.is_whole = chunk.is_last;
        let message = FeedMessage::List(chunk);
        let bytes = super::bytes_of(&message);
        self.bytes += bytes;
        list.chunks.push_back((Arc::new(message), bytes));
    }

    /// The list that is being read came to nothing. Returns its name.
    pub(super) fn give_up(&mut self) -> Option<ListId> {
        let list = self.staged.pop_if(|list| !list.is_whole)?;
        self.bytes -= list.bytes();
        Some(list.id)
    }

    /// Where a reader that has everything up to `position`, or nothing, may begin.
    pub(super) fn beginning(&self, position: Option<ResourceVersion>) -> Option<Place> {
        let list = self.staged.last().filter(|list| list.is_open && list.first == 0)?;
        list.is_news(position).then_some(Place { list: list.id, seq: 0 })
    }

    /// Whether a list has anything for a reader that has everything up to `position`.
    pub(super) fn is_news(&self, id: ListId, position: Option<ResourceVersion>) -> bool {
        self.staged.iter().any(|list| list.id == id && list.is_news(position))
    }

    /// The chunk at this place, if it is there.
    pub(super) fn chunk(&self, place: Place) -> Option<&Arc<FeedMessage>> {
        let list = self.staged.iter().find(|list| list.id == place.list)?;
        list.chunks.get(place.seq.checked_sub(list.first)? as usize).map(|(message, _)| message)
    }

    /// Makes room for so many bytes out of what all `readers` have read. False if more must be read first.
    pub(super) fn make_room(&mut self, bytes: usize, readers: &[Place]) -> bool {
        while self.bytes > 0 && self.bytes.saturating_add(bytes) > self.max_bytes {
            let Some(list) = self.staged.iter_mut().find(|list| list.is_front_read(readers)) else {
                return false;
            };
            self.bytes -= list.pop();
        }
        true
    }

    /// Closes what was kept long enough, and drops what is closed and read.
    pub(super) fn pass_time(&mut self, now: Duration, readers: &[Place]) {
        for list in &mut self.staged {
            if list.is_whole {
                let ended = *list.ended.get_or_insert(now);
                list.is_open &= now.saturating_sub(ended) < KEEP_LIST;
            }
            while !list.is_open && list.is_front_read(readers) {
                self.bytes -= list.pop();
            }
        }
        self.staged.retain(|list| list.is_open || !list.is_whole || !list.chunks.is_empty());
    }

    pub(super) fn clear(&mut self) {
        self.staged.clear();
        self.bytes = 0;
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

// === impl Staged ===

impl Staged {
    /// True while its revision is not known.
    fn is_news(&self, position: Option<ResourceVersion>) -> bool {
        position.zip(self.at).is_none_or(|(position, at)| at > position)
    }

    /// Whether there is a first chunk and no reader of this list still needs it.
    fn is_front_read(&self, readers: &[Place]) -> bool {
        let needs_it = |reader: &Place| reader.list == self.id && reader.seq <= self.first;
        !self.chunks.is_empty() && !readers.iter().any(needs_it)
    }

    fn pop(&mut self) -> usize {
        self.first += 1;
        self.chunks.pop_front().map_or(0, |(_, bytes)| bytes)
    }

    fn bytes(&self) -> usize {
        self.chunks.iter().map(|(_, bytes)| bytes).sum()
    }
}
