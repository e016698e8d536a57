//! What a feed says, encoded once for all subscribers of the same slots: the replicas of a shard. They read the ring at
//! about the same time, so a short memory of the last messages is enough; one that reads later encodes again.
//!
//! Parts of a list are numbered for each reader. All readers of the same slots begin a list at its beginning and cut it
//! alike, so they number alike.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use weir_core::message::{Change, FeedMessage, ListChunk};
use weir_core::statement::{SourceId, Statement};
use weir_core::{Object, SlotSet};
use weir_proto::feed::FeedAnswer;
use weir_proto::limits::BATCH_BYTES;
use weir_proto::{Encoded, MirrorRange, wire};

/// Messages whose encodings are kept. Statements of one event at 1,000 events a second and 16 shards are 64 ms of it.
const MAX_KEPT: usize = 1_024;
/// Their content; over it the oldest go sooner. One page of a list may be larger.
const MAX_BYTES: usize = 16 << 20;

/// A message in bytes; a large one in several parts.
pub(super) type Parts = Arc<OnceLock<Vec<Encoded<wire::FeedAnswer>>>>;

/// Which message, by the address of the allocation that is kept beside it, and whose slots.
type Key = (usize, SlotSet);

/// The last encodings.
#[derive(Debug, Default)]
pub(super) struct Encodings(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    parts: HashMap<Key, Parts>,
    order: VecDeque<Entry>,
    bytes: usize,
}

/// One entry; the message is kept so that its address is no other one's.
#[derive(Debug)]
struct Entry {
    key: Key,
    bytes: usize,
    _message: Arc<FeedMessage>,
}

// === impl Encodings ===

impl Encodings {
    /// What a subscriber of the range is sent; `next_part` numbers the first part, if it is one of a list.
    pub(super) fn of(
        &self,
        message: &Arc<FeedMessage>,
        range: &MirrorRange,
        (source, next_part): (SourceId, u32),
    ) -> Parts {
        let parts = self.0.lock().entry(message, range.slots);
        // Outside of the lock: the same message waits for whoever is first, and no other message waits.
        parts.get_or_init(|| encode(message, range, (source, next_part)));
        parts
    }
}

// === impl Kept ===

impl Kept {
    fn entry(&mut self, message: &Arc<FeedMessage>, slots: SlotSet) -> Parts {
        let key = (Arc::as_ptr(message).addr(), slots);
        if let Some(parts) = self.parts.get(&key) {
            return parts.clone();
        }
        let (parts, bytes) = (Parts::default(), bytes_of(message, &slots));
        self.parts.insert(key, parts.clone());
        self.order.push_back(Entry { key, bytes, _message: message.clone() });
        self.bytes += bytes;
        while self.order.len() > MAX_KEPT || (self.bytes > MAX_BYTES && self.order.len() > 1) {
            if let Some(oldest) = self.order.pop_front() {
                self.bytes -= oldest.bytes;
                self.parts.remove(&oldest.key);
            }
        }
        parts
    }
}

fn bytes_of(message: &FeedMessage, slots: &SlotSet) -> usize {
    let mine = |object: &&Arc<Object>| slots.contains(object.slot());
    match message {
        FeedMessage::Statement(statement) => {
            statement.events().iter().map(|change| &change.object).filter(mine).map(size).sum()
        }
        FeedMessage::List(chunk) => chunk.objects.iter().filter(mine).map(size).sum(),
        FeedMessage::Restored(_) => 0,
    }
}

fn size(object: &Arc<Object>) -> usize {
    object.bytes().len() + object.key().as_str().len()
}

fn encode(
    message: &FeedMessage,
    range: &MirrorRange,
    (source, next_part): (SourceId, u32),
) -> Vec<Encoded<wire::FeedAnswer>> {
    let parts = match message.narrowed(&range.slots) {
        FeedMessage::Statement(statement) => {
            cut_statement(&statement).into_iter().map(FeedMessage::Statement).collect()
        }
        FeedMessage::List(chunk) => cut_list(chunk, next_part).into_iter().map(FeedMessage::List).collect(),
        FeedMessage::Restored(history) => vec![FeedMessage::Restored(history)],
    };
    let encode = |part| Encoded::once(&wire::FeedAnswer::from(&FeedAnswer::of(part, range.clone(), source)));
    parts.into_iter().map(encode).collect()
}

/// Statements of bounded size, of which each begins where the one before it ended.
fn cut_statement(whole: &Statement<Change>) -> Vec<Statement<Change>> {
    let mut parts = Vec::new();
    let (mut after, mut left) = (whole.after(), whole.events());
    loop {
        let (part, rest) = left.split_at(fitting(left.iter().map(|change| &change.object)));
        let to = part.last().filter(|_| !rest.is_empty()).map_or(whole.to(), |last| last.rv);
        let part = Statement::new(whole.source(), after, to, part.to_vec());
        parts.push(part.expect("a part of what rises strictly rises"));
        if rest.is_empty() {
            return parts;
        }
        (after, left) = (to, rest);
    }
}

/// Chunks of bounded size. One without objects remains one, since its number counts.
fn cut_list(whole: ListChunk, first_part: u32) -> Vec<ListChunk> {
    let ListChunk { list, at, seq: _, is_last, objects } = whole;
    let mut parts = Vec::new();
    let mut left = objects.as_slice();
    for seq in first_part.. {
        let (part, rest) = left.split_at(fitting(left.iter()));
        let is_last = is_last && rest.is_empty();
        parts.push(ListChunk { list, at, seq, is_last, objects: part.to_vec() });
        left = rest;
        if left.is_empty() {
            break;
        }
    }
    parts
}

/// How many objects fill a message.
fn fitting<'a>(objects: impl Iterator<Item = &'a Arc<Object>>) -> usize {
    let mut bytes = 0;
    let has_room = |object: &&Arc<Object>| {
        let has_room = bytes < BATCH_BYTES;
        bytes += size(object);
        has_room
    };
    objects.take_while(has_room).count()
}

#[cfg(test)]
mod tests;
