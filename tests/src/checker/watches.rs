//! Watches: order, completeness, no repeat, truth of each event, and bookmarks that promise no more than was sent.

use std::collections::BTreeSet;

use weir_core::ResourceVersion;

use super::{Fault, History, Seen, Selection, describe};

/// What one client saw of one watch, over all its reconnects: a client that resumes goes on in the same record.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Where the client began; it had everything up to here.
    pub after: ResourceVersion,
    /// What it saw, in order.
    pub items: Vec<Item>,
    /// Up to where it must have seen everything; for a watch that ended, where it began says nothing more.
    pub complete_to: ResourceVersion,
}

/// Something that came on a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event.
    Event(Seen),
    /// A bookmark.
    Bookmark(ResourceVersion),
}

/// How far a watch has been read.
struct Reading<'a> {
    history: &'a History,
    selection: Selection<'a>,
    after: ResourceVersion,
    position: ResourceVersion,
    came: BTreeSet<ResourceVersion>,
    later: BTreeSet<ResourceVersion>,
}

/// Judges a watch.
pub fn check_watch(history: &History, selection: Selection<'_>, watch: &Watch) -> Result<(), Fault> {
    if watch.after < history.start() {
        return Err(Fault::BeyondHistory(watch.after));
    }
    let later = watch.items.iter().filter_map(|item| match item {
        Item::Event(seen) => Some(seen.version.rv),
        Item::Bookmark(_) => None,
    });
    let mut reading = Reading {
        history,
        selection,
        after: watch.after,
        position: watch.after,
        came: BTreeSet::new(),
        later: later.collect(),
    };
    for item in &watch.items {
        match item {
            Item::Event(seen) => reading.event(seen)?,
            Item::Bookmark(promised) => reading.bookmark(*promised)?,
        }
    }
    match reading.next_missing(watch.complete_to) {
        Some(missing) => Err(Fault::Silent { missing, to: watch.complete_to }),
        None => Ok(()),
    }
}

// === impl Watch ===

impl Watch {
    /// A record of a client that begins at `after`.
    pub fn starting_at(after: ResourceVersion) -> Self {
        Self { after, items: Vec::new(), complete_to: ResourceVersion::ZERO }
    }

    /// Where the client would resume.
    pub fn position(&self) -> ResourceVersion {
        self.items.last().map_or(self.after, |item| match item {
            Item::Event(seen) => seen.version.rv,
            Item::Bookmark(at) => *at,
        })
    }
}

// === impl Reading ===

impl Reading<'_> {
    fn event(&mut self, seen: &Seen) -> Result<(), Fault> {
        let rv = seen.version.rv;
        if self.came.contains(&rv) {
            return Err(Fault::Repeated(rv));
        }
        if rv <= self.after {
            return Err(Fault::Stale { rv, after: self.after });
        }
        if rv <= self.position {
            return Err(Fault::OutOfOrder { late: rv, behind: self.position });
        }
        let mut expected = self.history.events(self.selection, self.position, rv);
        match expected.next() {
            None => return Err(Fault::Invented(rv)),
            Some(first) if first.version.rv < rv => {
                let missing = first.version.rv;
                let is_late = self.later.contains(&missing);
                return Err(match is_late {
                    true => Fault::OutOfOrder { late: missing, behind: rv },
                    false => Fault::Dropped { missing, next: rv },
                });
            }
            Some(first) if first != *seen => {
                let (saw, expected) = (seen.describe(), first.describe());
                return Err(Fault::Differs { rv, saw, expected });
            }
            Some(_) => {}
        }
        self.came.insert(rv);
        self.position = rv;
        Ok(())
    }

    fn bookmark(&mut self, promised: ResourceVersion) -> Result<(), Fault> {
        if promised < self.position {
            return Err(Fault::BookmarkBehind { promised, position: self.position });
        }
        if let Some(missing) = self.next_missing(promised) {
            return Err(Fault::Promised { promised, missing });
        }
        self.position = promised;
        Ok(())
    }

    fn next_missing(&self, to: ResourceVersion) -> Option<ResourceVersion> {
        self.history.events(self.selection, self.position, to).next().map(|seen| seen.version.rv)
    }
}

// === impl Seen ===

impl Seen {
    fn describe(&self) -> String {
        format!("{:?} {}", self.kind, describe(&self.version))
    }
}
