//! A snapshot over all shards: their key-ordered pieces merged, a chunk at a time. Memory is one piece a shard, whatever the
//! size of the collection and however slow its reader. A replica that is lost on the way is followed by another one from the
//! last key on: at one revision all replicas hold the same.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::try_join_all;
use weir_core::interest::Interest;
use weir_core::message::{SnapshotChunk, SnapshotRequest, SnapshotStart, Unanswered};
use weir_core::{History, Object, ResourceVersion, SlotSet};

use super::Shards;
use crate::link::Link;

/// Objects that one piece of one node in this process holds: references, 8 bytes each.
const PIECE: usize = 512;
/// Bytes that a piece of a node in another process is to have, roughly, and the objects of the first one.
const REMOTE_PIECE_BYTES: usize = 256 << 10;
const REMOTE_FIRST: usize = 64;

/// A snapshot that is being read.
#[derive(Debug)]
pub struct Snapshot {
    shards: Shards,
    interest: Arc<Interest>,
    at: ResourceVersion,
    history: History,
    parts: Vec<Part>,
}

/// One shard's part.
#[derive(Debug)]
struct Part {
    /// The slots of the shard.
    of: SlotSet,
    /// Those that are wanted.
    slots: SlotSet,
    /// Who is read, as long as it answers.
    link: Option<Link>,
    max_objects: usize,
    ready: VecDeque<Arc<Object>>,
    next: Ahead,
}

/// What of a part has not been read.
#[derive(Debug)]
enum Ahead {
    From(Option<SnapshotStart>),
    End,
}

// === impl Snapshot ===

impl Snapshot {
    pub(super) async fn open(
        shards: &Shards,
        interest: Arc<Interest>,
        (history, at, from): (History, ResourceVersion, Option<SnapshotStart>),
    ) -> Result<Self, Unanswered> {
        let wanted = interest.slots();
        let slots = shards.slots().iter().map(|of| (*of, of.intersection(&wanted)));
        let parts = slots.filter(|(_, slots)| !slots.is_empty()).map(|(of, slots)| Part {
            of,
            slots,
            link: None,
            max_objects: REMOTE_FIRST,
            ready: VecDeque::new(),
            next: Ahead::From(from.clone()),
        });
        let mut snapshot = Self { shards: shards.clone(), interest, at, history, parts: parts.collect() };
        // The first piece of every shard is read at once, so that a refusal comes before the first byte of an answer.
        snapshot.fill().await?;
        Ok(snapshot)
    }

    /// The revision.
    pub fn at(&self) -> ResourceVersion {
        self.at
    }

    /// The next objects in key order, at most `max`; empty at the end.
    pub async fn next(&mut self, max: usize) -> Result<Vec<Arc<Object>>, Unanswered> {
        let mut objects = Vec::new();
        while objects.len() < max {
            if self.parts.iter().any(Part::is_dry) {
                self.fill().await?;
            }
            let first = self
                .parts
                .iter_mut()
                .filter(|part| !part.ready.is_empty())
                .min_by(|a, b| a.head().cmp(&b.head()));
            let Some(object) = first.and_then(|part| part.ready.pop_front()) else { break };
            objects.push(object);
        }
        Ok(objects)
    }

    /// Reads the next piece of every shard that has nothing ready, all at once.
    async fn fill(&mut self) -> Result<(), Unanswered> {
        let Self { shards, interest, at, history, parts } = self;
        let request = SnapshotRequest {
            history: *history,
            interest: interest.clone(),
            slots: SlotSet::EMPTY,
            at: *at,
            from: None,
            max_objects: PIECE,
        };
        let dry = parts.iter_mut().filter(|part| part.is_dry());
        try_join_all(dry.map(|part| part.fill(shards, request.clone()))).await?;
        Ok(())
    }
}

// === impl Part ===

impl Part {
    fn head(&self) -> Option<&str> {
        self.ready.front().map(|object| object.key().as_str())
    }

    fn is_dry(&self) -> bool {
        self.ready.is_empty() && matches!(self.next, Ahead::From(_))
    }

    /// Reads pieces until one holds an object, or to the end.
    async fn fill(&mut self, shards: &Shards, mut request: SnapshotRequest) -> Result<(), Unanswered> {
        request.slots = self.slots;
        while self.ready.is_empty() {
            let Ahead::From(from) = &self.next else { return Ok(()) };
            request.from.clone_from(from);
            let chunk = self.read(shards, &mut request).await?;
            let bytes: usize = chunk.objects.iter().map(|object| object.bytes().len()).sum();
            let fitting = (REMOTE_PIECE_BYTES * chunk.objects.len()).checked_div(bytes);
            self.max_objects = fitting.map_or(self.max_objects, |fitting| fitting.clamp(1, PIECE));
            self.ready.extend(chunk.objects);
            self.next = chunk.next.map_or(Ahead::End, |key| Ahead::From(Some(SnapshotStart::Behind(key))));
        }
        Ok(())
    }

    /// A piece of the replica that was read before, or else of any.
    async fn read(
        &mut self,
        shards: &Shards,
        request: &mut SnapshotRequest,
    ) -> Result<SnapshotChunk, Unanswered> {
        if let Some(link) = &self.link {
            request.max_objects = self.max_of(link);
            match link.snapshot(request).await {
                Ok(chunk) => return Ok(chunk),
                Err(_) => self.link = None,
            }
        }
        let answer = shards.ask((&self.of, request.at), |link| {
            let request = SnapshotRequest { max_objects: self.max_of(&link), ..request.clone() };
            async move { Ok((link.snapshot(&request).await?, link)) }
        });
        let (chunk, link) = answer.await?;
        self.link = Some(link);
        Ok(chunk)
    }

    fn max_of(&self, link: &Link) -> usize {
        match link {
            Link::Local(_) => PIECE,
            Link::Remote(_) => self.max_objects,
        }
    }
}
