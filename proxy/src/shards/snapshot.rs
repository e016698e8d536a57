//! A snapshot over all nodes: their key-ordered pieces merged, a chunk at a time. Memory is one chunk a node, whatever the
//! size of the collection and however slow its reader.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_core::interest::Interest;
use weir_core::message::{SnapshotRequest, SnapshotStart, Unanswered};
use weir_core::{History, Object, ResourceVersion, SlotSet};
use weir_shard_node::node::cell::NodeCell;

/// Objects that one piece of one node holds: references, 8 bytes each.
const PIECE: usize = 512;

/// A snapshot that is being read.
#[derive(Debug)]
pub struct Snapshot {
    interest: Arc<Interest>,
    at: ResourceVersion,
    parts: Vec<Part>,
}

/// One node's part.
#[derive(Debug)]
struct Part {
    node: Arc<NodeCell>,
    slots: SlotSet,
    /// The history that the revision is of.
    history: History,
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
    pub(super) fn open(
        nodes: Vec<(Arc<NodeCell>, SlotSet)>,
        interest: Arc<Interest>,
        (history, at, from): (History, ResourceVersion, Option<SnapshotStart>),
    ) -> Result<Self, Unanswered> {
        let parts = nodes.into_iter().map(|(node, slots)| Part {
            node,
            slots,
            history,
            ready: VecDeque::new(),
            next: Ahead::From(from.clone()),
        });
        let mut snapshot = Self { interest, at, parts: parts.collect() };
        // The first piece of every node is read at once, so that a refusal comes before the first byte of an answer.
        for part in &mut snapshot.parts {
            part.fill(&snapshot.interest, at)?;
        }
        Ok(snapshot)
    }

    /// The revision.
    pub fn at(&self) -> ResourceVersion {
        self.at
    }

    /// The next objects in key order, at most `max`; empty at the end.
    pub fn next(&mut self, max: usize) -> Result<Vec<Arc<Object>>, Unanswered> {
        let mut objects = Vec::new();
        while objects.len() < max {
            for part in &mut self.parts {
                part.fill(&self.interest, self.at)?;
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
}

// === impl Part ===

impl Part {
    fn head(&self) -> Option<&str> {
        self.ready.front().map(|object| object.key().as_str())
    }

    /// Reads pieces until one holds an object, or to the end.
    fn fill(&mut self, interest: &Arc<Interest>, at: ResourceVersion) -> Result<(), Unanswered> {
        while self.ready.is_empty() {
            let Ahead::From(from) = &self.next else { return Ok(()) };
            let chunk = self.node.snapshot(&SnapshotRequest {
                history: self.history,
                interest: interest.clone(),
                slots: self.slots,
                at,
                from: from.clone(),
                max_objects: PIECE,
            })?;
            self.ready.extend(chunk.objects);
            self.next = chunk.next.map_or(Ahead::End, |key| Ahead::From(Some(SnapshotStart::Behind(key))));
        }
        Ok(())
    }
}
