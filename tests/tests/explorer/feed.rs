//! A feed of the model: it reads upstream's log at its own pace, lists when it has to, and keeps the real ring.

use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use weir_core::message::{FeedMessage, ListChunk, ListId};
use weir_core::{History, Object, ResourceVersion, SourceId};
use weir_shard_node::feed::ring::{Lack, Ring, statement_of};
use weir_tests::model::Upstream;

/// A feed.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) ring: Ring,
    source: SourceId,
    /// Which of upstream's histories it has verified.
    pub(crate) epoch: usize,
    position: Option<ResourceVersion>,
    listing: Option<List>,
    lists: u64,
    /// What a subscriber lacks: the log from here on, once the list under way is over.
    wanted: Option<ResourceVersion>,
    must_list: bool,
}

#[derive(Debug)]
struct List {
    id: ListId,
    at: ResourceVersion,
    seq: u32,
    objects: Vec<Arc<Object>>,
}

/// What upstream is, for a feed.
pub(crate) struct Reading<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) epoch: usize,
    /// Upstream has no log from before this.
    pub(crate) compacted: ResourceVersion,
}

// === impl Feed ===

impl Feed {
    pub(crate) fn new(index: usize, ring_bytes: usize) -> Self {
        Self {
            ring: Ring::new(ring_bytes),
            source: SourceId(1 + index as u64),
            epoch: 0,
            position: None,
            listing: None,
            lists: index as u64 * 1_000,
            wanted: None,
            must_list: false,
        }
    }

    /// One step of reading. False when there was nothing to read.
    pub(crate) fn read(&mut self, reading: &Reading<'_>, rng: &mut StdRng) -> bool {
        if self.epoch != reading.epoch {
            self.notice_restore(reading.epoch);
            return true;
        }
        if self.listing.is_some() {
            return self.read_page(rng);
        }
        if rng.random_bool(0.7) {
            self.go_back();
        }
        match self.position.filter(|position| *position >= reading.compacted && !self.must_list) {
            Some(position) => self.read_log(position, reading.upstream, rng),
            None => {
                self.begin_list(reading.upstream);
                true
            }
        }
    }

    /// The connection is lost; what comes next is vouched for by another.
    pub(crate) fn reconnect(&mut self) {
        self.source = SourceId(self.source.0 + 10);
        self.listing = None;
    }

    /// The log at the feed's instance is gone.
    pub(crate) fn relist(&mut self) {
        self.position = None;
    }

    /// A subscriber lacks what the ring no longer has.
    pub(crate) fn lack(&mut self, lack: Lack) {
        match lack {
            Lack::Log(after) => self.wanted = Some(self.wanted.map_or(after, |wanted| wanted.min(after))),
            Lack::List => self.must_list = true,
        }
    }

    fn go_back(&mut self) {
        if let (Some(wanted), Some(position)) = (self.wanted.take(), &mut self.position) {
            *position = wanted.min(*position);
        }
    }

    fn notice_restore(&mut self, epoch: usize) {
        self.reconnect();
        self.epoch = epoch;
        self.position = None;
        self.wanted = None;
        self.ring.push(FeedMessage::Restored(History::new(epoch as u64)));
    }

    fn begin_list(&mut self, upstream: &Upstream) {
        self.lists += 1;
        self.must_list = false;
        let at = upstream.revision();
        self.listing = Some(List { id: ListId(self.lists), at, seq: 0, objects: upstream.objects(at) });
    }

    fn read_page(&mut self, rng: &mut StdRng) -> bool {
        let Some(list) = self.listing.as_mut().filter(|_| self.ring.has_room()) else { return false };
        let rest = list.objects.split_off(list.objects.len().min(rng.random_range(1..=4)));
        let objects = std::mem::replace(&mut list.objects, rest);
        let is_last = list.objects.is_empty();
        self.ring.push(FeedMessage::List(ListChunk {
            list: list.id,
            at: list.at,
            seq: list.seq,
            is_last,
            objects,
        }));
        list.seq += 1;
        if is_last {
            self.position = Some(list.at);
            self.listing = None;
        }
        true
    }

    fn read_log(&mut self, position: ResourceVersion, upstream: &Upstream, rng: &mut StdRng) -> bool {
        let revision = upstream.revision();
        if position >= revision {
            return self.wanted.is_some();
        }
        let unread = upstream.changes(position, revision);
        let changes = unread[..unread.len().min(rng.random_range(1..=4))].to_vec();
        let bookmark = (changes.len() == unread.len()).then_some(revision);
        let statement = statement_of(self.source, position, changes, bookmark).expect("upstream's log rises");
        self.position = Some(statement.to());
        self.ring.push(FeedMessage::Statement(statement));
        true
    }
}
