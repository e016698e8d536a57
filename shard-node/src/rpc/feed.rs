//! The gRPC feed service: subscriptions of shard nodes, and proofs. A subscription may start a feed in this process, which
//! reads upstream; a question for a proof never does, since a feed that begins has nothing to prove and another node may
//! have one that runs.
//!
//! A subscriber that stops reading holds up nobody: the ring goes past it, and its stream ends with a word.

mod encode;
mod subscribe;

use std::sync::Arc;

use tonic::{Request, Response, Status};
use weir_core::SlotSet;
use weir_core::statement::SourceId;
use weir_daemon::Lifecycle;
use weir_daemon::peer::Caller;
use weir_proto::feed::{Entry, Proof, Prove, Subscribe};
use weir_proto::{Encoded, MirrorRange, Spoken, wire};

use self::encode::Encodings;
use super::out::{self, Answers};
use crate::feed::handle::FeedHandle;
use crate::feed::ring::Standing;
use crate::feed::scope::{self, Detail};
use crate::feeds::{Feeds, NoFeed};
use crate::refusal;

/// Serves the feeds of this process. Clones serve the same.
#[derive(Clone, Debug)]
pub struct FeedService(Arc<Serving>);

#[derive(Debug)]
struct Serving {
    feeds: Arc<Feeds>,
    lifecycle: Lifecycle,
    encodings: Arc<Encodings>,
}

// === impl FeedService ===

impl FeedService {
    /// A service over these feeds; subscriptions are tasks of `lifecycle` and end when it stops.
    pub fn new(feeds: Arc<Feeds>, lifecycle: Lifecycle) -> Self {
        Self(Arc::new(Serving { feeds, lifecycle, encodings: Arc::default() }))
    }
}

#[tonic::async_trait]
impl wire::feed_server::Feed for FeedService {
    type SubscribeStream = Answers<Encoded<wire::FeedAnswer>>;

    async fn subscribe(
        &self,
        request: Request<wire::Subscribe>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let Serving { feeds, lifecycle, encodings } = &*self.0;
        let caller = caller(request.extensions())?;
        let Subscribe { spoken, range, after, history } = request.into_inner().try_into()?;
        let protocol = Spoken::OURS.agree(spoken)?;
        may_subscribe(caller, &range.slots)?;
        let subscribed = feeds.subscribe(&range.mirror, Standing { history, after }).await;
        let subscription = subscribed.map_err(|why| refused(why, &range))?;
        let (out, answers) = out::channel(lifecycle);
        let task = subscribe::run(subscription, (range, protocol), encodings.clone(), out);
        lifecycle.spawn("subscription", task);
        Ok(Response::new(answers))
    }

    async fn prove(&self, request: Request<wire::Prove>) -> Result<Response<wire::Proof>, Status> {
        // Everybody who is known may ask how new a mirror is: it tells no content. They may doubt, too: a history is dropped
        // once, however many say so.
        caller(request.extensions())?;
        let prove = Prove::try_from(request.into_inner())?;
        let running = self.0.feeds.running(&prove.mirror);
        let running =
            running.ok_or_else(|| Status::failed_precondition("no feed of the mirror runs here"))?;
        let proof = prove_at(&running.handle, &prove).await;
        let proof = proof.ok_or_else(|| Status::unavailable("the feed cannot prove it now"))?;
        Ok(Response::new((&proof).into()))
    }
}

/// The position is taken before the question is sent, so it is no higher than the feed's was then.
async fn prove_at(feed: &FeedHandle, prove: &Prove) -> Option<Proof> {
    let asked_at = feed.position().unwrap_or_default();
    let source = feed.source().unwrap_or(SourceId(0));
    let of = |revision, entries| Proof { source, revision, asked_at, entries, can_tick: feed.can_tick() };
    if let Some(history) = prove.doubted {
        feed.doubt(history);
    }
    if prove.wants_tick {
        return Some(of(feed.tick().await?, None));
    }
    if !prove.wants_entries {
        return Some(of(feed.newest(prove.wants_catch_up).await?, None));
    }
    let detail = if prove.wants_digests { Detail::Bytes } else { Detail::Metadata };
    let content = feed.scope(prove.scope.clone(), detail).await?;
    let entries = content.entries().iter().cloned();
    let entries =
        entries.map(|scope::Entry { key, uid, rv, digest }| Entry { key, uid, rv, digest }).collect();
    content.is_whole().then(|| of(content.revision(), Some(entries)))
}

fn caller(extensions: &http::Extensions) -> Result<Caller, Status> {
    Caller::of(extensions).ok_or_else(|| Status::unauthenticated("the caller is not known"))
}

/// A shard node gets its own slots; a proxy holds no objects and gets none.
fn may_subscribe(caller: Caller, slots: &SlotSet) -> Result<(), Status> {
    match caller {
        Caller::Trusted => Ok(()),
        Caller::Shard { index, count } if SlotSet::of_shard(index, count).covers(slots) => Ok(()),
        Caller::Shard { .. } => Err(Status::permission_denied("a shard subscribes to its own slots")),
        Caller::Proxy => Err(Status::permission_denied("subscriptions are for shard nodes")),
    }
}

fn refused(why: NoFeed, range: &MirrorRange) -> Status {
    match why {
        NoFeed::Unmirrored(reason) => refusal::write(&range.mirror, reason),
        NoFeed::Unreachable | NoFeed::Stopping => Status::unavailable(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn a_shard_subscribes_to_its_own_slots_and_a_proxy_to_none() {
        let (own, all) = (SlotSet::of_shard(1, 4), SlotSet::ALL);
        let shard = Caller::Shard { index: 1, count: 4 };
        let half = Caller::Shard { index: 0, count: 2 };
        for (caller, slots, is_allowed) in [
            (Caller::Trusted, all, true),
            (shard, own, true),
            (shard, SlotSet::of_shard(2, 8), true),
            (shard, SlotSet::of_shard(2, 4), false),
            (shard, all, false),
            (half, own, true),
            (Caller::Proxy, own, false),
            (Caller::Proxy, SlotSet::EMPTY, false),
        ] {
            let refused = may_subscribe(caller, &slots).err().map(|status| status.code());
            let expected = (!is_allowed).then_some(Code::PermissionDenied);
            assert_eq!(refused, expected, "{caller} {slots:?}");
        }
        let unknown = caller(&http::Extensions::new()).unwrap_err();
        assert_eq!(unknown.code(), Code::Unauthenticated);
    }
}
