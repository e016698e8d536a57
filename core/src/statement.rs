//! The one form in which log content travels: "these are all events of the range in (after, to]". Repeats, reordering,
//! two senders and stale streams need no rule beyond [`Progress::take`].
//!
//! A receiver that skipped this check and believed `to` would lose what lies before `after` without noticing.

use crate::resource_version::ResourceVersion;

/// The upstream watch that vouches for a statement: a random number for each connection to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u64);

/// Something that happened at one position of the log.
pub trait Event {
    /// Its position.
    fn rv(&self) -> ResourceVersion;
}

/// All events of one range in (after, to], in rising order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement<E> {
    source: SourceId,
    after: ResourceVersion,
    to: ResourceVersion,
    events: Vec<E>,
}

/// A statement whose events do not rise strictly inside (after, to], or whose interval is reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("statement ({after}, {to}] has an event at {at} out of order or out of its interval")]
pub struct Malformed {
    after: ResourceVersion,
    to: ResourceVersion,
    at: ResourceVersion,
}

/// A statement begins after the receiver's position: nothing was changed; subscribe again from `position`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("statement begins after {after}, receiver stands at {position}")]
pub struct Gap {
    /// Where the receiver stands.
    pub position: ResourceVersion,
    /// Where the statement begins, exclusive.
    pub after: ResourceVersion,
}

/// How far a receiver of statements has come. Nothing but [`Progress::take`] moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Progress(ResourceVersion);

// === impl Statement ===

impl<E: Event> Statement<E> {
    /// Checks order and interval; what came over a network passes through here.
    pub fn new(
        source: SourceId,
        after: ResourceVersion,
        to: ResourceVersion,
        events: Vec<E>,
    ) -> Result<Self, Malformed> {
        let mut last = after;
        for event in &events {
            let at = event.rv();
            if at <= last || at > to {
                return Err(Malformed { after, to, at });
            }
            last = at;
        }
        if after > to {
            return Err(Malformed { after, to, at: to });
        }
        Ok(Self { source, after, to, events })
    }

    /// "Nothing of the range happened in (after, to]."
    pub fn nothing(source: SourceId, after: ResourceVersion, to: ResourceVersion) -> Self {
        Self { source, after, to: to.max(after), events: Vec::new() }
    }

    /// Who vouches.
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// The exclusive start.
    pub fn after(&self) -> ResourceVersion {
        self.after
    }

    /// The inclusive end.
    pub fn to(&self) -> ResourceVersion {
        self.to
    }

    /// The events.
    pub fn events(&self) -> &[E] {
        &self.events
    }

    /// The same interval with each event mapped, or left out where it is not of the receiver's range.
    pub fn filter_map<F: Event>(&self, map: impl FnMut(&E) -> Option<F>) -> Statement<F> {
        Statement {
            source: self.source,
            after: self.after,
            to: self.to,
            events: self.events.iter().filter_map(map).collect(),
        }
    }
}

// === impl Progress ===

impl Progress {
    /// A receiver that has everything up to `at`: the list that it began with, or a copy.
    pub fn starting_at(at: ResourceVersion) -> Self {
        Self(at)
    }

    /// How far it has come.
    pub fn position(self) -> ResourceVersion {
        self.0
    }

    /// Takes a statement: the events beyond the position, in order, after which the position is at least `to`; or a
    /// gap, with nothing changed.
    pub fn take<E: Event>(
        &mut self,
        statement: Statement<E>,
    ) -> Result<impl Iterator<Item = E> + use<E>, Gap> {
        let position = self.0;
        if statement.after > position {
            return Err(Gap { position, after: statement.after });
        }
        self.0 = position.max(statement.to);
        Ok(statement.events.into_iter().skip_while(move |event| event.rv() <= position))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Event for u64 {
        fn rv(&self) -> ResourceVersion {
            ResourceVersion::new(*self)
        }
    }

    fn rv(n: u64) -> ResourceVersion {
        ResourceVersion::new(n)
    }

    /// What a truthful sender says of `log` about (after, to].
    fn truth(log: &[u64], source: u64, after: u64, to: u64) -> Statement<u64> {
        let events = log.iter().copied().filter(|e| after < *e && *e <= to).collect();
        Statement::new(SourceId(source), rv(after), rv(to), events).unwrap()
    }

    proptest! {
        /// Any mix of true statements, in any order, from any number of sources, leaves a prefix of the log.
        #[test]
        fn any_mix_leaves_a_prefix(
            log in proptest::collection::btree_set(1u64..60, 0..30),
            start in 0u64..10,
            said in proptest::collection::vec((0u64..4, 0u64..60, 0u64..20), 0..60),
        ) {
            let log: Vec<u64> = log.into_iter().collect();
            let mut progress = Progress::starting_at(rv(start));
            let mut got = Vec::new();
            for (source, after, length) in said {
                let before = progress;
                match progress.take(truth(&log, source, after, after + length)) {
                    Ok(events) => got.extend(events),
                    Err(_) => prop_assert_eq!(before, progress),
                }
                prop_assert!(progress >= before);
            }
            let reached = progress.position().get();
            let expected: Vec<u64> = log.into_iter().filter(|e| start < *e && *e <= reached).collect();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn f1_a_frontier_without_its_interval_is_refused() {
        let mut shard = Progress::starting_at(rv(0));
        assert!(shard.take(truth(&[1, 2], 1, 1, 2)).is_err(), "said from 1 on to a receiver at 0");
        assert_eq!(shard.position(), rv(0));
    }

    #[test]
    fn malformed_statements_are_refused() {
        for (after, to, events) in
            [(0, 5, vec![3, 3]), (0, 5, vec![4, 3]), (3, 5, vec![3]), (0, 5, vec![6]), (5, 4, vec![])]
        {
            assert!(Statement::new(SourceId(0), rv(after), rv(to), events).is_err());
        }
    }
}
