//! A subscription that stands, at a feed of this process or of another. What both say is the same, narrowed to the slots of
//! this node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use weir_core::message::FeedMessage;
use weir_core::mirror::{MirrorFacts, MirrorSpec};
use weir_core::object::ObjectSchema;
use weir_core::{GroupVersionResource, History, ResourceVersion, SlotSet};
use weir_daemon::members::NodeAddress;
use weir_daemon::peer::DialError;
use weir_proto::feed::{FeedAnswer, Subscribe, Subscribed};
use weir_proto::session::Unmirrored;
use weir_proto::{Encoded, MirrorRange, ProtocolError, Spoken, wire};

use crate::feed::ring::Standing;
use crate::feeds::{FeedLost, Feeds, LocalSubscription, NoFeed, Said};
use crate::nodes::{self, Nodes};
use crate::refusal;

/// How long a feed may take for its first answer. One that begins asks upstream first what the resource is.
const FIRST_ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Why a feed cannot be followed, or not any longer.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// There is no connection to its node.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// There is no feed in this process.
    #[error("no feed in this process")]
    Local(#[source] NoFeed),
    /// It has said for good that it does not carry the mirror.
    #[error("not mirrored: {0:?}")]
    Unmirrored(Unmirrored),
    /// Its node refused, or was lost.
    #[error("subscription")]
    Lost(#[source] Box<Status>),
    /// What it says cannot be read.
    #[error("message of the feed")]
    Protocol(#[from] ProtocolError),
    /// It ended the subscription without a word.
    #[error("the feed has ended the subscription")]
    Ended,
    /// It has not answered.
    #[error("no answer of the feed within {FIRST_ANSWER_LIMIT:?}")]
    Silent,
    /// It went on without this node.
    #[error(transparent)]
    Passed(#[from] FeedLost),
}

/// What is subscribed to.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) mirror: GroupVersionResource,
    pub(super) slots: SlotSet,
    pub(super) standing: Standing,
}

/// What a feed says.
#[derive(Debug)]
pub(super) enum Heard {
    Message(FeedMessage),
    Facts(Arc<MirrorFacts>),
}

/// A subscription that stands.
#[derive(Debug)]
pub(super) struct Stream {
    /// Whose feed it is.
    pub(super) address: NodeAddress,
    pub(super) spec: Arc<MirrorSpec>,
    /// The history of what it says next.
    pub(super) history: History,
    /// How far the feed had come when it was subscribed to.
    pub(super) at: ResourceVersion,
    /// How far it leads: what it has said, or where it stands if that is no further than its subscriber.
    pub(super) reached: ResourceVersion,
    range: MirrorRange,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Here(LocalSubscription),
    There(Streaming<Encoded<wire::FeedAnswer>>),
}

// === impl Stream ===

impl Stream {
    /// Subscribes at the feed of a node.
    pub(super) async fn open(
        (nodes, feeds): (&Nodes, &Arc<Feeds>),
        address: &NodeAddress,
        wanted: &Wanted,
    ) -> Result<Self, FollowError> {
        if address == nodes.own() {
            return Self::open_here(feeds, address, wanted).await;
        }
        let channel = nodes.dial(address).await?;
        Self::open_over(channel, address, wanted).await
    }

    /// Subscribes at the feed of this process.
    pub(super) async fn open_here(
        feeds: &Arc<Feeds>,
        address: &NodeAddress,
        wanted: &Wanted,
    ) -> Result<Self, FollowError> {
        let Wanted { mirror, slots, standing } = wanted.clone();
        let subscription = feeds.subscribe(&mirror, standing).await.map_err(|why| match why {
            NoFeed::Unmirrored(reason) => FollowError::Unmirrored(reason),
            NoFeed::Unreachable | NoFeed::Stopping => FollowError::Local(why),
        })?;
        let feed = subscription.feed();
        let at = feed.handle.position().unwrap_or_default();
        Ok(Self {
            address: address.clone(),
            spec: feed.spec.clone(),
            history: feed.handle.history().max(standing.history),
            at,
            reached: reached(at, standing),
            range: MirrorRange { mirror, slots },
            source: Source::Here(subscription),
        })
    }

    /// Subscribes over a connection to another node.
    pub(super) async fn open_over(
        channel: Channel,
        address: &NodeAddress,
        wanted: &Wanted,
    ) -> Result<Self, FollowError> {
        let opening = Self::subscribe(channel, address, wanted);
        timeout(FIRST_ANSWER_LIMIT, opening).await.unwrap_or(Err(FollowError::Silent))
    }

    async fn subscribe(
        channel: Channel,
        address: &NodeAddress,
        wanted: &Wanted,
    ) -> Result<Self, FollowError> {
        let Wanted { mirror, slots, standing: Standing { history, after } } = wanted.clone();
        let range = MirrorRange { mirror, slots };
        let subscribe = Subscribe { spoken: Spoken::OURS, range: range.clone(), after, history };
        let request = wire::Subscribe::from(&subscribe);
        let mut answers = nodes::feed(channel).subscribe(request).await.map_err(lost)?.into_inner();
        let first = answers.message().await.map_err(lost)?.ok_or(FollowError::Ended)?;
        let FeedAnswer::Subscribed(subscribed) = FeedAnswer::read(first.open()?, &ObjectSchema::bare())?
        else {
            return Err(ProtocolError::Missing("subscribed").into());
        };
        let Subscribed { protocol: _, source: _, at, spec, facts: _, history: feeds } = subscribed;
        if spec.resource != range.mirror {
            return Err(ProtocolError::Invalid("subscribed.spec").into());
        }
        Ok(Self {
            address: address.clone(),
            spec: Arc::new(spec),
            // A feed that has missed a restore says nothing before it is where its subscriber is.
            history: feeds.max(history),
            at,
            reached: reached(at, wanted.standing),
            range,
            source: Source::There(answers),
        })
    }

    /// What the feed says next; waits for it. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Heard, FollowError> {
        let heard = match &mut self.source {
            Source::Here(subscription) => match subscription.next().await? {
                Said::Message(message) => Heard::Message(message.narrowed(&self.range.slots)),
                Said::Facts(facts) => Heard::Facts(facts),
            },
            Source::There(answers) => {
                let answer = answers.message().await.map_err(lost)?.ok_or(FollowError::Ended)?;
                read(FeedAnswer::read(answer.open()?, &self.spec.schema)?, &self.range)?
            }
        };
        match &heard {
            Heard::Message(FeedMessage::Restored(history)) => {
                self.history = self.history.max(*history);
                self.reached = ResourceVersion::ZERO;
            }
            Heard::Message(FeedMessage::Statement(statement)) => {
                self.reached = self.reached.max(statement.to());
            }
            Heard::Message(FeedMessage::List(chunk)) if chunk.is_last => {
                self.reached = self.reached.max(chunk.at);
            }
            Heard::Message(FeedMessage::List(_)) | Heard::Facts(_) => {}
        }
        Ok(heard)
    }
}

/// A feed that is ahead of its subscriber has to lead it on first.
fn reached(at: ResourceVersion, standing: Standing) -> ResourceVersion {
    if standing.after.is_some_and(|after| at <= after) { at } else { ResourceVersion::ZERO }
}

fn read(answer: FeedAnswer, range: &MirrorRange) -> Result<Heard, ProtocolError> {
    Ok(match answer {
        FeedAnswer::Statement { range: of, statement } => {
            if of != *range {
                return Err(ProtocolError::Invalid("feed_statement.slots"));
            }
            Heard::Message(FeedMessage::Statement(statement))
        }
        FeedAnswer::List { source: _, chunk } => Heard::Message(FeedMessage::List(chunk)),
        FeedAnswer::Restored(history) => Heard::Message(FeedMessage::Restored(history)),
        FeedAnswer::Facts(facts) => Heard::Facts(Arc::new(facts)),
        FeedAnswer::Subscribed(_) => return Err(ProtocolError::Invalid("feed_answer.subscribed")),
    })
}

fn lost(status: Status) -> FollowError {
    match refusal::read(&status) {
        Some(reason) => FollowError::Unmirrored(reason),
        None => FollowError::Lost(Box::new(status)),
    }
}
