//! The task of one subscription. It ends when the subscriber is gone or reads no more, when the ring has passed it, or when
//! the process stops.

use std::sync::Arc;

use tonic::Status;
use weir_core::message::FeedMessage;
use weir_core::statement::SourceId;
use weir_proto::feed::{FeedAnswer, Subscribed};
use weir_proto::{Encoded, MirrorRange, Protocol, wire};

use super::encode::Encodings;
use crate::feeds::{FeedLost, LocalSubscription, Said};
use crate::rpc::out::{Lost, Out};

/// A subscription on its way to another process.
struct Carrying {
    range: MirrorRange,
    encodings: Arc<Encodings>,
    out: Out<Encoded<wire::FeedAnswer>>,
    /// The number of the next part of the list that is being sent.
    next_part: u32,
}

/// Why a subscription ends.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error(transparent)]
    Behind(#[from] FeedLost),
}

/// Carries what the feed says.
pub(super) async fn run(
    subscription: LocalSubscription,
    (range, protocol): (MirrorRange, Protocol),
    encodings: Arc<Encodings>,
    out: Out<Encoded<wire::FeedAnswer>>,
) {
    let mut carrying = Carrying { range, encodings, out, next_part: 0 };
    let end = carrying.carry(subscription, protocol).await;
    carrying.out.end(end.into()).await;
}

// === impl Carrying ===

impl Carrying {
    async fn carry(&mut self, subscription: LocalSubscription, protocol: Protocol) -> End {
        let Err(end) = self.carry_all(subscription, protocol).await;
        end
    }

    async fn carry_all(
        &mut self,
        mut subscription: LocalSubscription,
        protocol: Protocol,
    ) -> Result<std::convert::Infallible, End> {
        self.say(&FeedAnswer::Subscribed(welcome(&subscription, protocol))).await?;
        loop {
            let said = tokio::select! {
                biased;
                () = self.out.stopping() => return Err(Lost::Stopping.into()),
                () = self.out.gone() => return Err(Lost::Gone.into()),
                said = subscription.next() => said?,
            };
            match said {
                Said::Facts(facts) => self.say(&FeedAnswer::Facts((*facts).clone())).await?,
                Said::Message(message) => {
                    let source = subscription.feed().handle.source().unwrap_or(SourceId(0));
                    self.pass_on(&message, source).await?;
                }
            }
        }
    }

    async fn pass_on(&mut self, message: &Arc<FeedMessage>, source: SourceId) -> Result<(), Lost> {
        if matches!(&**message, FeedMessage::List(chunk) if chunk.seq == 0) {
            self.next_part = 0;
        }
        let parts = self.encodings.of(message, &self.range, (source, self.next_part));
        for part in parts.get().into_iter().flatten() {
            self.out.send(part.clone()).await?;
            if let FeedMessage::List(_) = **message {
                self.next_part += 1;
            }
        }
        Ok(())
    }

    async fn say(&self, answer: &FeedAnswer) -> Result<(), Lost> {
        self.out.send(Encoded::Message(answer.into())).await
    }
}

/// What a subscriber is told first. Facts that are known already follow by themselves.
fn welcome(subscription: &LocalSubscription, protocol: Protocol) -> Subscribed {
    let feed = subscription.feed();
    Subscribed {
        protocol,
        source: feed.handle.source().unwrap_or(SourceId(0)),
        at: feed.handle.position().unwrap_or_default(),
        spec: (*feed.spec).clone(),
        facts: feed.handle.facts().borrow().as_deref().cloned(),
        history: feed.handle.history(),
    }
}

impl From<End> for Status {
    fn from(end: End) -> Self {
        match end {
            End::Lost(lost) => lost.into(),
            End::Behind(behind) => Self::out_of_range(behind.to_string()),
        }
    }
}
