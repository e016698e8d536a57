//! A feed of the model: it reads upstream's log at its own pace, brings what late subscribers lack beside it, lists when it
//! has to, and keeps the real ring. It makes no difference to the ring whether tasks or dice move its reader.

use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;
use weir_core::message::{Change, FeedMessage, ListChunk, ListId};
use weir_core::statement::Statement;
use weir_core::{History, Object, ResourceVersion, SourceId};
use weir_shard_node::feed::ring::{Ring, RingBounds, bytes_of, bytes_of_statement, statement_of};
use weir_tests::model::Upstream;

use crate::reached::Reached;

/// A feed.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) ring: Ring,
    source: SourceId,
    /// Which of upstream's histories it has verified.
    epoch: usize,
    /// How likely it is not to have a connection yet on which it would see that another history began.
    slowness: f64,
    listing: Option<List>,
    lists: u64,
    /// Where the backfill stands.
    backfill: Option<ResourceVersion>,
    must_list: bool,
}

#[derive(Debug)]
struct List {
    id: ListId,
    at: ResourceVersion,
    seq: u32,
    objects: Vec<Arc<Object>>,
    /// Whether the main watch begins behind it.
    is_main: bool,
}

/// What upstream is, for a feed.
pub(crate) struct Reading<'a> {
    pub(crate) upstream: &'a Upstream,
    pub(crate) epoch: usize,
    /// Upstream has no log from before this.
    pub(crate) compacted: ResourceVersion,
    pub(crate) rng: &'a mut StdRng,
    pub(crate) reached: &'a mut Reached,
}

// === impl Feed ===

impl Feed {
    pub(crate) fn new(index: usize, bounds: RingBounds) -> Self {
        Self {
            ring: Ring::new(bounds),
            source: SourceId(1 + index as u64),
            epoch: 0,
            slowness: if index == 0 { 0.7 } else { 0.99 },
            listing: None,
            lists: index as u64 * 1_000,
            backfill: None,
            must_list: false,
        }
    }

    /// One step of reading. False when there was nothing to read.
    pub(crate) fn read(&mut self, reading: &mut Reading<'_>) -> bool {
        let missed = self.ring.wanted().history;
        if self.epoch != reading.epoch && missed.is_none() && reading.rng.random_bool(self.slowness) {
            // Its connection is lost, and it takes a while to find another.
            return true;
        }
        if self.epoch != reading.epoch || missed.is_some() {
            reading.reached.told_by_subscribers += usize::from(missed.is_some());
            self.restored(reading.epoch);
            return true;
        }
        if let Some(ahead) = self.ring.wanted().ahead {
            let revision = reading.upstream.revision();
            assert!(revision >= ahead, "a subscriber is ahead of upstream in the same history");
            self.ring.vouch(revision);
        }
        let steps = [Self::read_main, Self::read_backfill, Self::read_late_list];
        let first = reading.rng.random_range(0..steps.len());
        (0..steps.len()).any(|turn| steps[(first + turn) % steps.len()](self, reading))
    }

    /// The connection is lost; what comes next is vouched for by another.
    pub(crate) fn reconnect(&mut self) {
        self.source = SourceId(self.source.0 + 10);
        self.listing = None;
        self.backfill = None;
        self.ring.disconnect();
    }

    /// The log behind the main watch is gone at every instance.
    pub(crate) fn relist(&mut self) {
        self.must_list = self.ring.position().is_some();
    }

    fn restored(&mut self, epoch: usize) {
        self.reconnect();
        self.epoch = epoch;
        self.must_list = false;
        self.ring.restored(History::new(epoch as u64));
    }

    /// The main watch, or the list that it begins with.
    fn read_main(&mut self, reading: &mut Reading<'_>) -> bool {
        if self.listing.as_ref().is_some_and(|list| list.is_main) {
            return self.read_page(reading);
        }
        let wanted = self.ring.wanted();
        let position = self.ring.position();
        match position.or(wanted.log) {
            Some(after) if self.must_list || after < reading.compacted => {
                self.reconnect();
                self.ring.lost(after);
                self.begin_list(reading.upstream, true);
            }
            Some(after) if position.is_none() => {
                reading.reached.begun_with_log += 1;
                self.ring.begin(after);
            }
            Some(after) => {
                let Some(statement) = self.said(after, reading) else { return false };
                self.ring.push(statement);
            }
            None if wanted.list => self.begin_list(reading.upstream, true),
            None => return false,
        }
        true
    }

    fn read_backfill(&mut self, reading: &mut Reading<'_>) -> bool {
        if self.ring.position().is_none() {
            return false;
        }
        let Some(after) = self.backfill else {
            let Some(after) = self.ring.wanted().log else { return false };
            reading.reached.backfills += 1;
            self.ring.begin_backfill(after);
            self.backfill = Some(after);
            return true;
        };
        if after < reading.compacted {
            reading.reached.backfills_expired += 1;
            self.ring.expire_backfill();
            self.backfill = None;
            return true;
        }
        let Some(statement) = self.said(after, reading) else {
            self.backfill = None;
            self.ring.end_backfill();
            return true;
        };
        if !self.ring.has_backfill_room(bytes_of_statement(&statement)) {
            return false;
        }
        let to = statement.to();
        self.backfill = (!self.ring.push_backfill(statement)).then_some(to);
        true
    }

    /// A list beside the main watch.
    fn read_late_list(&mut self, reading: &mut Reading<'_>) -> bool {
        if self.listing.is_some() {
            return self.listing.as_ref().is_some_and(|list| !list.is_main) && self.read_page(reading);
        }
        if self.ring.position().is_none() || !self.ring.wanted().list {
            return false;
        }
        reading.reached.late_lists += 1;
        self.begin_list(reading.upstream, false);
        true
    }

    fn begin_list(&mut self, upstream: &Upstream, is_main: bool) {
        self.lists += 1;
        let (id, at) = (ListId(self.lists), upstream.revision());
        self.listing = Some(List { id, at, seq: 0, objects: upstream.objects(at), is_main });
        self.ring.begin_list(id);
    }

    fn read_page(&mut self, reading: &mut Reading<'_>) -> bool {
        let Some(list) = &mut self.listing else { return false };
        let length = list.objects.len().min(reading.rng.random_range(1..=4));
        let objects = list.objects[..length].to_vec();
        let is_last = length == list.objects.len();
        let chunk = ListChunk { list: list.id, at: list.at, seq: list.seq, is_last, objects };
        if !self.ring.has_list_room(bytes_of(&FeedMessage::List(chunk.clone()))) {
            return false;
        }
        list.objects.drain(..length);
        list.seq += 1;
        self.ring.push_list(chunk);
        if let Some(List { at, is_main: true, .. }) = self.listing.take_if(|_| is_last) {
            self.must_list = false;
            self.ring.begin(at);
        }
        true
    }

    /// What upstream's log says behind `after`.
    fn said(&self, after: ResourceVersion, reading: &mut Reading<'_>) -> Option<Statement<Change>> {
        let revision = reading.upstream.revision();
        if after >= revision {
            return None;
        }
        let unread = reading.upstream.changes(after, revision);
        let changes = unread[..unread.len().min(reading.rng.random_range(1..=4))].to_vec();
        let bookmark = (changes.len() == unread.len()).then_some(revision);
        Some(statement_of(self.source, after, changes, bookmark).expect("upstream's log rises"))
    }
}
