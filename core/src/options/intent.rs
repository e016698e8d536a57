//! What a request asks for, after all checks: the state to show, or the position to go on from. Of the options only this
//! decides how it is served. A `limit` is part of it, because upstream ignores the limit of some lists.

use std::num::NonZeroU64;

use super::ListOptions;
use super::defaults::{EXACT, NOT_OLDER_THAN};
use crate::go_text::{NumberError, parse_u64, quote};
use crate::query::Query;
use crate::resource_version::ResourceVersion;
use crate::status::Status;

/// How new the state shown must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Any state.
    Any,
    /// No older than the moment of the request.
    Consistent,
    /// No older than this version.
    NotOlderThan(ResourceVersion),
}

/// What a list asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListIntent {
    /// The state to show.
    pub at: ListAt,
    /// How many objects at most, where upstream honours it.
    pub limit: Option<PageLimit>,
}

/// The state that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListAt {
    /// A recent one.
    Latest(Freshness),
    /// That of exactly this version.
    Exact(ResourceVersion),
    /// That of a token, from its key on.
    Continue(Continuation),
}

/// The token of a list that goes on. It can be had only by decoding it, which puts two errors into upstream's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    token: String,
    has_version: bool,
}

/// The most objects of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageLimit(NonZeroU64);

/// Whether a list can find more than one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A collection or a namespace of it.
    Collection,
    /// One object: the selector names it, and its namespace is known or it has none.
    Object,
}

/// How the path asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathForm {
    /// The path of a collection or object; the query decides whether it is a watch.
    Plain,
    /// The deprecated path with `/watch/`: always a watch.
    Watch,
}

/// What a watch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchIntent {
    /// The state as ADDED events, then the changes after it.
    State {
        /// How new the state must be.
        freshness: Freshness,
        /// Whether a bookmark marks its end.
        has_end_bookmark: bool,
    },
    /// The changes after a state that is not shown.
    Changes {
        /// How new that state must be.
        freshness: Freshness,
    },
    /// The changes after this version.
    After(ResourceVersion),
}

/// What a get of one object asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GetIntent {
    /// A state of the collection that is new enough.
    Point(Freshness),
    /// Something that upstream refuses, each resource in its own words.
    Refused,
}

/// A `resourceVersion` that is no version; the text is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resourceVersion: Invalid value: {}: {source}", quote(text))]
struct VersionError {
    text: String,
    source: NumberError,
}

// === impl ListOptions ===

impl ListOptions {
    /// Whether the request is a watch.
    pub fn is_watch(&self, path: PathForm) -> bool {
        self.watch || path == PathForm::Watch
    }

    /// What the list asks for; 400 for a bad `resourceVersion`. Call it after [`ListOptions::validate`].
    pub fn list_intent(&self, reach: Reach) -> Result<ListIntent, Status> {
        let limit = PageLimit::new(self.limit);
        if !self.continue_token.is_empty() {
            return Ok(self.continued(limit));
        }
        if self.resource_version.is_empty() {
            return Ok(ListIntent { at: ListAt::Latest(Freshness::Consistent), limit });
        }
        let version = self
            .version()
            .map_err(|error| Status::bad_request(format!("invalid resource version: {error}")))?;
        let is_exact = match self.resource_version_match.as_str() {
            EXACT => true,
            NOT_OLDER_THAN => false,
            _ => limit.is_some() && self.resource_version != "0" && reach == Reach::Collection,
        };
        let at = match (is_exact, version.is_zero()) {
            (true, false) => ListAt::Exact(version),
            // Not the text "0": upstream looks at its storage and finds no version to be exact about.
            (true, true) => ListAt::Latest(Freshness::Consistent),
            (false, true) => ListAt::Latest(Freshness::Any),
            (false, false) => ListAt::Latest(Freshness::NotOlderThan(version)),
        };
        Ok(ListIntent { at, limit: limit.filter(|_| self.resource_version != "0") })
    }

    /// What the watch asks for; 400 for a bad `resourceVersion`. Call it after [`ListOptions::validate`].
    pub fn watch_intent(&self) -> Result<WatchIntent, Status> {
        if self.resource_version.is_empty() {
            // Without defaults the oldest form is not even made consistent.
            let freshness =
                if self.send_initial_events.is_some() { Freshness::Consistent } else { Freshness::Any };
            return Ok(self.watch_of(freshness));
        }
        let version = self.version().map_err(|error| Status::bad_request(error.to_string()))?;
        if version.is_zero() {
            return Ok(self.watch_of(Freshness::Any));
        }
        if self.send_initial_events == Some(true) {
            return Ok(self.watch_of(Freshness::NotOlderThan(version)));
        }
        Ok(WatchIntent::After(version))
    }

    fn continued(&self, limit: Option<PageLimit>) -> ListIntent {
        let has_version = !matches!(self.resource_version.as_str(), "" | "0");
        let at = ListAt::Continue(Continuation { token: self.continue_token.clone(), has_version });
        ListIntent { at, limit: limit.filter(|_| self.resource_version != "0") }
    }

    fn watch_of(&self, freshness: Freshness) -> WatchIntent {
        match self.send_initial_events {
            Some(false) => WatchIntent::Changes { freshness },
            Some(true) => WatchIntent::State { freshness, has_end_bookmark: self.allow_watch_bookmarks },
            None => WatchIntent::State { freshness, has_end_bookmark: false },
        }
    }

    fn version(&self) -> Result<ResourceVersion, VersionError> {
        parse_version(&self.resource_version)
    }
}

// === impl Continuation ===

impl Continuation {
    /// Decodes the token. A `resourceVersion` beside a good one is refused with 400.
    pub fn decode<T>(&self, decode: impl FnOnce(&str) -> Result<T, Status>) -> Result<T, Status> {
        let token = decode(&self.token)?;
        if self.has_version {
            return Err(Status::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        Ok(token)
    }
}

// === impl PageLimit ===

impl PageLimit {
    /// The limit; nothing up to 0 limits.
    pub fn new(limit: i64) -> Option<Self> {
        u64::try_from(limit).ok().and_then(NonZeroU64::new).map(Self)
    }

    /// The number of objects, at least 1.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

// === impl GetIntent ===

impl GetIntent {
    /// What a get with this query asks for. A get has no other options, and does not look at those of lists.
    pub fn of(query: &Query) -> Self {
        let is_export = query.get("export").is_some_and(super::is_true);
        match query.get("resourceVersion").unwrap_or_default() {
            _ if is_export => Self::Refused,
            "" => Self::Point(Freshness::Consistent),
            text => match parse_version(text) {
                Ok(ResourceVersion::ZERO) => Self::Point(Freshness::Any),
                Ok(version) => Self::Point(Freshness::NotOlderThan(version)),
                Err(_) => Self::Refused,
            },
        }
    }
}

fn parse_version(text: &str) -> Result<ResourceVersion, VersionError> {
    parse_u64(text).map(ResourceVersion::new).map_err(|source| VersionError { text: text.to_owned(), source })
}
