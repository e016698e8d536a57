//! Answers to lists: at which revision, whose objects, up to where. An answer that cannot be exact is not given here.

use std::sync::Arc;

use weir_core::continue_token::{ContinueToken, KeySpelling, TokenVersion};
use weir_core::interest::{Interest, Scope};
use weir_core::message::{SnapshotStart, Unanswered};
use weir_core::options::{Freshness, ListAt, ListIntent, PageLimit, Reach};
use weir_core::{Object, ObjectKey, ResourceVersion, Status};

use super::fresh::{self, Fresh, NotFresh, Otherwise};
use super::list_body::{Items, ListMeta};
use crate::mirror::Mirror;
use crate::mirror::proofs::Proof;
use crate::mirror::remaining::Place;
use crate::passthrough::Passed;

/// What comes of a list.
#[derive(Debug)]
pub enum Listed {
    /// The mirror answers, and what proved it where it had to be fresh.
    Answer(ListMeta, Items, Option<Proof>),
    /// Upstream has to answer.
    Pass(Passed),
    /// Neither may: this is the answer.
    Refuse(Status),
}

/// A list that is being answered.
#[derive(Debug)]
pub struct Listing<'a> {
    /// The mirror.
    pub mirror: &'a Mirror,
    /// What is listed.
    pub interest: Arc<Interest>,
    /// The namespace that tokens are relative to.
    pub namespace: Option<&'a str>,
    /// Whether it can find more than one object.
    pub reach: Reach,
    /// Who answers if the mirror does not prove in time that it is fresh.
    pub otherwise: Otherwise,
}

// === impl Listing ===

impl Listing<'_> {
    /// The answer to a list with this intent.
    pub async fn answer(&self, intent: &ListIntent) -> Listed {
        let (at, start) = match self.place(&intent.at).await {
            Ok(place) => place,
            Err(other) => return other,
        };
        let read = match intent.limit {
            None => self.whole(at, start).await,
            Some(limit) => self.page(at, start, limit).await,
        };
        read.map_or_else(
            |unanswered| self.unanswered(unanswered, at.content),
            |(meta, items)| Listed::Answer(meta, items, at.proof),
        )
    }

    /// At which revision, and from which key on.
    async fn place(&self, at: &ListAt) -> Result<(Fresh, Option<SnapshotStart>), Listed> {
        match at {
            ListAt::Latest(freshness) => Ok((self.newest(*freshness).await?, None)),
            ListAt::Exact(at) => Ok((self.exactly(*at).await?, None)),
            ListAt::Continue(continuation) => {
                let token = continuation.decode(ContinueToken::decode).map_err(Listed::Refuse)?;
                let start = Some(self.start(&token));
                match token.rv {
                    TokenVersion::At(at) => Ok((self.exactly(at).await?, start)),
                    TokenVersion::Latest => Ok((self.newest(Freshness::Consistent).await?, start)),
                }
            }
        }
    }

    /// The newest state, once it is fresh enough.
    async fn newest(&self, freshness: Freshness) -> Result<Fresh, Listed> {
        let scope = &self.interest.scope;
        fresh::reach(self.mirror, scope, freshness, self.otherwise).await.map_err(|not_fresh| match not_fresh
        {
            NotFresh::Pass(why) => Listed::Pass(why),
            NotFresh::Refuse(status) => Listed::Refuse(*status),
        })
    }

    /// A given revision, which may be one that the mirror has yet to come to. Upstream looks a single object up in its
    /// storage, and has other words for a revision that is yet to come.
    async fn exactly(&self, at: ResourceVersion) -> Result<Fresh, Listed> {
        if self.reach == Reach::Object && self.mirror.newest().is_none_or(|newest| newest < at) {
            return Err(Listed::Pass(Passed::NotReached));
        }
        match fresh::come_to(self.mirror, at).await {
            Ok(()) => Ok(Fresh::at(at)),
            Err(NotFresh::Pass(why)) => Err(Listed::Pass(why)),
            Err(NotFresh::Refuse(status)) => Err(Listed::Refuse(*status)),
        }
    }

    fn start(&self, token: &ContinueToken) -> SnapshotStart {
        SnapshotStart::At(match self.namespace {
            Some(namespace) => format!("{namespace}/{}", token.start).into(),
            None => token.start.as_str().into(),
        })
    }

    /// Everything from the start on, read while it is sent.
    async fn whole(&self, at: Fresh, start: Option<SnapshotStart>) -> Result<(ListMeta, Items), Unanswered> {
        let snapshot = self.mirror.shards().snapshot(&self.interest, at.content, start).await?;
        Ok((self.meta(at.label), Items::Rest(snapshot)))
    }

    /// At most `limit` objects, and the token of what follows. There is a token as soon as there is another object in the
    /// scope, whether or not the selectors would let it through.
    async fn page(
        &self,
        at: Fresh,
        start: Option<SnapshotStart>,
        limit: PageLimit,
    ) -> Result<(ListMeta, Items), Unanswered> {
        let limit = usize::try_from(limit.get()).unwrap_or(usize::MAX);
        let shards = self.mirror.shards();
        let known = start.as_ref().and_then(|start| self.mirror.remaining().from(&self.place_of(at, start)?));
        let objects = shards.snapshot(&self.interest, at.content, start).await?.next(limit).await?;
        let mut meta = self.meta(at.label);
        let Some(last) = objects.get(limit - 1).map(|object| object.key().clone()) else {
            return Ok((meta, Items::Page(objects)));
        };
        if self.reach == Reach::Object {
            // Upstream looks up one key here, and knows of no other.
            return Ok((meta, Items::Page(objects)));
        }
        let behind = SnapshotStart::Behind(last.clone());
        if self.has_more(at.content, behind.clone()).await? {
            meta.continue_token = self.token(&last, at.label).encode(KeySpelling::Slash);
            if self.interest.has_no_selector() {
                let count = match known {
                    Some(known) => known.saturating_sub(limit),
                    None => {
                        let from = (at.content, Some(&behind));
                        shards.count(&self.interest.scope, from, usize::MAX).await?
                    }
                };
                let next = SnapshotStart::At(format!("{last}\0").into());
                if let Some(place) = self.place_of(at, &next) {
                    self.mirror.remaining().remember(place, count);
                }
                meta.remaining = Some(count);
            }
        }
        Ok((meta, Items::Page(objects)))
    }

    /// The place of a page that a token begins.
    fn place_of(&self, at: Fresh, start: &SnapshotStart) -> Option<Place> {
        let SnapshotStart::At(from) = start else { return None };
        Some(Place { at: at.label, namespace: self.interest.scope.namespace.clone(), from: from.clone() })
    }

    async fn has_more(&self, at: ResourceVersion, behind: SnapshotStart) -> Result<bool, Unanswered> {
        let scope = Scope { namespace: self.interest.scope.namespace.clone(), name: None };
        let everything = Arc::new(Interest::new(scope, Default::default(), Vec::new(), None));
        let mut rest = self.mirror.shards().snapshot(&everything, at, Some(behind)).await?;
        let next: Vec<Arc<Object>> = rest.next(1).await?;
        Ok(!next.is_empty())
    }

    fn token(&self, last: &ObjectKey, at: ResourceVersion) -> ContinueToken {
        let key = match self.namespace {
            Some(_) => last.name(),
            None => last.as_str(),
        };
        ContinueToken::after(key, at)
    }

    fn meta(&self, at: ResourceVersion) -> ListMeta {
        let shard = self.interest.shard.as_ref().map(ToString::to_string);
        ListMeta { at, continue_token: String::new(), remaining: None, shard }
    }

    /// What the mirror no longer or not yet has, upstream may have.
    fn unanswered(&self, unanswered: Unanswered, at: ResourceVersion) -> Listed {
        tracing::debug!(%unanswered, %at, resource = %self.mirror.spec().resource, "list not in the window");
        match unanswered {
            Unanswered::TooOld { .. } => Listed::Pass(Passed::TooOld),
            Unanswered::NotReached { .. } => Listed::Pass(Passed::NotReached),
            Unanswered::NotMine | Unanswered::Empty => Listed::Pass(Passed::Loading),
        }
    }
}
