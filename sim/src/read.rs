//! Lists and gets: which state a request asks for, and what an instance answers from where it stands.
//!
//! An instance waits for a revision rather than answer with an older one; nothing here waits, it only says
//! [`Step::Wait`]. A page made by the cache and one made by the log itself differ in the spelling of their tokens.

use std::sync::Arc;

use weir_core::continue_token::{ContinueToken, KeySpelling, TokenVersion};
use weir_core::{ResourceVersion, Status};

use crate::catalog::{ResourceId, ResourceInfo};
use crate::instance::Instance;
use crate::log::Log;
use crate::object::{Object, StoreKey};
use crate::refusal::{self, TooOld};
use crate::selection::Selection;

/// What a question to an instance comes to.
#[derive(Debug, Clone)]
pub enum Step<T> {
    /// The answer.
    Ready(T),
    /// The instance has to reach this revision first.
    Wait(ResourceVersion),
}

/// What a caller does when an instance is not far enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It can wait still.
    Waits,
    /// It has waited as long as it may.
    Exhausted,
}

/// The state that a list asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListVersion {
    /// Whatever the instance has; a limit is ignored.
    Any,
    /// At least this revision.
    NotOlderThan(ResourceVersion),
    /// At least the log's revision when the question was asked.
    Consistent(ResourceVersion),
    /// Exactly this revision.
    Exact(ResourceVersion),
    /// Exactly the revision of a token; with `resourceVersion=0` a cache ignores the limit.
    Token {
        /// The token's revision.
        at: ResourceVersion,
        /// Whether `resourceVersion=0` came with it.
        any: AnyState,
    },
    /// The current state of the log, past all caches.
    Direct,
}

/// Whether a request with a token also said `resourceVersion=0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnyState {
    /// It did.
    Asked,
    /// It did not.
    NotAsked,
}

/// One list request.
#[derive(Debug, Clone)]
pub struct ListQuery {
    /// The collection.
    pub resource: ResourceId,
    /// One namespace of it, or all.
    pub namespace: Option<String>,
    /// What is wanted of it.
    pub selection: Selection,
    /// The state that is asked for.
    pub version: ListVersion,
    /// How many items at most.
    pub limit: Option<usize>,
    /// The first key that may be in the answer, relative to the collection or namespace, without a slash before it.
    pub start: String,
}

/// Where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextPage {
    /// The token.
    pub token: ContinueToken,
    /// How it is written, which shows who made the page: a cache puts a slash before the key, the log does not.
    pub spelling: KeySpelling,
}

/// The answer to a list.
#[derive(Debug, Clone)]
pub struct Page {
    /// The objects, in the order of their keys.
    pub items: Vec<Arc<Object>>,
    /// The revision of the list.
    pub rv: ResourceVersion,
    /// Set when there may be more.
    pub next: Option<NextPage>,
    /// How many more, where that is told.
    pub remaining: Option<u64>,
}

/// An instance and what it reads from, for the time of one question.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) log: &'a Log,
    pub(crate) instance: &'a mut Instance,
    pub(crate) info: &'a ResourceInfo,
}

// === impl ListVersion ===

impl ListVersion {
    /// The lowest revision that an instance must have reached.
    fn needs(self) -> ResourceVersion {
        match self {
            Self::Any | Self::Direct => ResourceVersion::ZERO,
            Self::NotOlderThan(rv) | Self::Consistent(rv) | Self::Exact(rv) | Self::Token { at: rv, .. } => {
                rv
            }
        }
    }

    fn exact(self) -> Option<ResourceVersion> {
        match self {
            Self::Exact(at) | Self::Token { at, .. } => Some(at),
            Self::Any | Self::NotOlderThan(_) | Self::Consistent(_) | Self::Direct => None,
        }
    }
}

// === impl ListQuery ===

impl ListQuery {
    fn prefix(&self) -> String {
        self.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"))
    }
}

// === impl Reader ===

impl Reader<'_> {
    /// Answers a list.
    ///
    /// # Errors
    /// 410 for a state that is gone, 504 for one that has not come.
    pub(crate) fn list(
        &mut self,
        resource: ResourceId,
        query: &ListQuery,
        patience: Patience,
    ) -> Result<Step<Page>, Status> {
        let needs = query.version.needs();
        if !self.info.is_cached() {
            return self.list_uncached(query).map(Step::Ready);
        }
        self.catch_up(resource, query.version);
        if self.instance.shown(self.log, resource) < needs {
            return match (patience, query.version) {
                (Patience::Waits, _) => Ok(Step::Wait(needs)),
                (Patience::Exhausted, ListVersion::Consistent(_)) => Ok(Step::Ready(self.current(query))),
                (Patience::Exhausted, _) => Err(self.too_new(resource, needs)),
            };
        }
        if let Some(at) = query.version.exact() {
            return self.list_exact(query, at).map(Step::Ready);
        }
        if query.version == ListVersion::Direct {
            return Ok(Step::Ready(self.current(query)));
        }
        let at = self.instance.shown(self.log, resource);
        let limit = query.limit.filter(|_| query.version != ListVersion::Any);
        Ok(Step::Ready(self.page(query, at, (limit, KeySpelling::Slash))))
    }

    /// Answers a get of one key; `version` is never exact.
    ///
    /// # Errors
    /// 404 for a missing object, 504 for a state that has not come.
    pub(crate) fn get(
        &mut self,
        resource: ResourceId,
        (key, version): (&StoreKey, ListVersion),
        patience: Patience,
    ) -> Result<Step<Arc<Object>>, Status> {
        let needs = version.needs();
        if !self.info.is_cached() && needs > self.log.head() {
            return Err(refusal::too_new(needs, self.log.head(), 0));
        }
        let is_direct = version == ListVersion::Direct || !self.info.is_cached();
        if !is_direct {
            self.catch_up(resource, version);
            if self.instance.shown(self.log, resource) < needs {
                return match patience {
                    Patience::Waits => Ok(Step::Wait(needs)),
                    Patience::Exhausted => Err(self.too_new(resource, needs)),
                };
            }
        }
        let at = if is_direct { self.log.head() } else { self.instance.applied() };
        let object = self.log.get(resource, key, at).map(Arc::clone);
        object.map(Step::Ready).ok_or_else(|| refusal::not_found(self.info, key.name()))
    }

    /// Whoever asks for a revision that the collection does not show yet makes the instance ask for progress.
    pub(crate) fn catch_up(&mut self, resource: ResourceId, version: ListVersion) {
        if self.instance.shown(self.log, resource) < version.needs() {
            self.instance.notice(resource);
        }
    }

    pub(crate) fn too_new(&self, resource: ResourceId, wanted: ResourceVersion) -> Status {
        refusal::too_new(wanted, self.instance.shown(self.log, resource), 1)
    }

    fn list_uncached(&self, query: &ListQuery) -> Result<Page, Status> {
        let needs = query.version.needs();
        if needs > self.log.head() {
            return Err(refusal::too_new(needs, self.log.head(), 0));
        }
        match query.version.exact() {
            Some(at) => self.list_log_at(query, at),
            None => Ok(self.current(query)),
        }
    }

    /// An exact state: from a snapshot of the cache where one is kept, else from the log.
    fn list_exact(&self, query: &ListQuery, at: ResourceVersion) -> Result<Page, Status> {
        if !self.has_snapshot(query.resource, at) {
            return self.list_log_at(query, at);
        }
        let ignores_limit = matches!(query.version, ListVersion::Token { any: AnyState::Asked, .. });
        let limit = query.limit.filter(|_| !ignores_limit);
        Ok(self.page(query, at, (limit, KeySpelling::Slash)))
    }

    fn list_log_at(&self, query: &ListQuery, at: ResourceVersion) -> Result<Page, Status> {
        if at >= self.log.compacted() {
            return Ok(self.page(query, at, (query.limit, KeySpelling::Bare)));
        }
        Err(refusal::expired(match query.version {
            ListVersion::Token { .. } => {
                let token = ContinueToken { rv: TokenVersion::Latest, start: query.start.clone() };
                TooOld::Page { fresh: token.encode(KeySpelling::Bare) }
            }
            ListVersion::Any
            | ListVersion::NotOlderThan(_)
            | ListVersion::Consistent(_)
            | ListVersion::Exact(_)
            | ListVersion::Direct => TooOld::List,
        }))
    }

    /// A snapshot is made by each event of the collection, and by the cache's first list; compaction drops those
    /// from before it.
    fn has_snapshot(&self, resource: ResourceId, at: ResourceVersion) -> bool {
        let (started, compacted) = (self.instance.started(), self.log.compacted());
        let first = (started >= compacted).then_some(started).filter(|first| *first <= at);
        let after = ResourceVersion::new(started.max(compacted).get().saturating_sub(1));
        first.or_else(|| self.log.newest(resource, after, at)).is_some()
    }

    fn current(&self, query: &ListQuery) -> Page {
        self.page(query, self.log.head(), (query.limit, KeySpelling::Bare))
    }

    fn page(
        &self,
        query: &ListQuery,
        at: ResourceVersion,
        (limit, spelling): (Option<usize>, KeySpelling),
    ) -> Page {
        let prefix = query.prefix();
        let from = format!("{prefix}{}", query.start);
        let mut candidates = self.log.scan(query.resource, (&prefix, &from), at);
        let wanted = candidates.by_ref().filter(|object| query.selection.matches(object));
        let items: Vec<_> = wanted.take(limit.unwrap_or(usize::MAX)).map(Arc::clone).collect();
        let left = if limit == Some(items.len()) { candidates.count() as u64 } else { 0 };
        let last = items.last().filter(|_| left > 0);
        let next = last.map(|last| NextPage {
            token: ContinueToken::after(&last.key().as_str()[prefix.len()..], at),
            spelling,
        });
        let remaining = next.as_ref().filter(|_| query.selection.is_everything()).map(|_| left);
        Page { items, rv: at, next, remaining }
    }
}
