//! A run of statements whose ends rise, bounded in bytes. Who reads it is led by position: the first statement that ends
//! behind the reader's position is its next one, if it begins at or before it; otherwise nothing here leads it on.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_core::ResourceVersion;
use weir_core::message::{Change, FeedMessage};
use weir_core::statement::Statement;

/// The statements, oldest first.
#[derive(Debug)]
pub(super) struct Log {
    max_bytes: usize,
    bytes: usize,
    said: VecDeque<Said>,
}

/// One statement.
#[derive(Debug)]
struct Said {
    message: Arc<FeedMessage>,
    after: ResourceVersion,
    to: ResourceVersion,
    bytes: usize,
}

/// A statement that leads a reader on.
#[derive(Debug)]
pub(super) struct Lead {
    /// The statement.
    pub(super) message: Arc<FeedMessage>,
    /// Where it leads.
    pub(super) to: ResourceVersion,
}

// === impl Log ===

impl Log {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, bytes: 0, said: VecDeque::new() }
    }

    /// Adds a statement; the oldest go when there are too many bytes. One that ends no later than the last is no news.
    pub(super) fn push(&mut self, statement: Statement<Change>) {
        let (after, to) = (statement.after(), statement.to());
        if self.said.back().map_or(after, |last| last.to) >= to {
            return;
        }
        let message = FeedMessage::Statement(statement);
        let bytes = super::bytes_of(&message);
        self.bytes += bytes;
        self.said.push_back(Said { message: Arc::new(message), after, to, bytes });
        while self.bytes > self.max_bytes && self.said.len() > 1 {
            self.pop();
        }
    }

    /// What comes next for a reader that has everything up to `position`.
    pub(super) fn lead_from(&self, position: ResourceVersion) -> Option<Lead> {
        let index = self.said.partition_point(|said| said.to <= position);
        let said = self.said.get(index).filter(|said| said.after <= position)?;
        Some(Lead { message: said.message.clone(), to: said.to })
    }

    /// Whether something here leads on from `position`.
    pub(super) fn leads_from(&self, position: ResourceVersion) -> bool {
        self.lead_from(position).is_some()
    }

    /// Where the last statement ends.
    pub(super) fn end(&self) -> Option<ResourceVersion> {
        self.said.back().map(|said| said.to)
    }

    /// Whether so many bytes more can be added without loss.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.said.is_empty() || self.bytes.saturating_add(bytes) <= self.max_bytes
    }

    /// Whether at most half of the bound is taken.
    pub(super) fn is_half_empty(&self) -> bool {
        self.bytes * 2 <= self.max_bytes
    }

    /// Drops what leads nobody on who has everything up to `position`.
    pub(super) fn drop_up_to(&mut self, position: ResourceVersion) {
        while self.said.front().is_some_and(|said| said.to <= position) {
            self.pop();
        }
    }

    /// The same, but keeps half of the bound for those who come later.
    pub(super) fn shrink(&mut self, position: ResourceVersion) {
        while !self.is_half_empty() && self.said.front().is_some_and(|said| said.to <= position) {
            self.pop();
        }
    }

    pub(super) fn clear(&mut self) {
        self.said.clear();
        self.bytes = 0;
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn pop(&mut self) {
        if let Some(said) = self.said.pop_front() {
            self.bytes -= said.bytes;
        }
    }
}
