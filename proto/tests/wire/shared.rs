//! Services over the codec: what was encoded once arrives at everyone as the message that it was.

use std::pin::Pin;

use futures_util::stream::{self, Stream, StreamExt};
use prost::Message;
use tonic::{Code, Request, Response, Status};
use weir_core::statement::SourceId;
use weir_proto::feed::{Proof, Prove, Subscribe};
use weir_proto::wire::feed_client::FeedClient;
use weir_proto::wire::feed_server::{Feed, FeedServer};
use weir_proto::{Encoded, MirrorRange, Spoken, wire};

use crate::kinds::Any;
use crate::samples::{pods, rv, samples};

/// Says the same to everyone.
struct Repeater(Vec<Encoded<wire::FeedAnswer>>);

#[tonic::async_trait]
impl Feed for Repeater {
    type SubscribeStream = Pin<Box<dyn Stream<Item = Result<Encoded<wire::FeedAnswer>, Status>> + Send>>;

    async fn subscribe(
        &self,
        request: Request<wire::Subscribe>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let Subscribe { spoken, .. } = request.into_inner().try_into()?;
        Spoken::OURS.agree(spoken)?;
        Ok(Response::new(Box::pin(stream::iter(self.0.clone().into_iter().map(Ok)))))
    }

    async fn prove(&self, request: Request<wire::Prove>) -> Result<Response<wire::Proof>, Status> {
        let Prove { .. } = request.into_inner().try_into()?;
        let proof =
            Proof { source: SourceId(1), revision: rv(2), asked_at: rv(1), entries: None, can_tick: false };
        Ok(Response::new((&proof).into()))
    }
}

fn answers() -> Vec<wire::FeedAnswer> {
    let answer = |sample: &Any| match sample {
        Any::FeedAnswer(answer) => Some(wire::FeedAnswer::from(answer)),
        _ => None,
    };
    samples().iter().filter_map(answer).collect()
}

fn subscribe(spoken: Spoken) -> wire::Subscribe {
    let range = MirrorRange { mirror: pods(), slots: weir_core::SlotSet::ALL };
    (&Subscribe { spoken, range, after: None, history: weir_core::History::FIRST }).into()
}

#[tokio::test]
async fn what_was_encoded_once_arrives_whole_at_everyone() {
    let answers = answers();
    let mixed = answers.iter().enumerate().map(|(index, answer)| match index % 2 {
        0 => Encoded::once(answer),
        _ => Encoded::Message(answer.clone()),
    });
    let client = FeedClient::new(FeedServer::new(Repeater(mixed.collect())));
    for _ in 0..3 {
        let request = subscribe(Spoken::OURS);
        let received = client.clone().subscribe(request).await.unwrap().into_inner();
        let received: Vec<_> = received.map(|answer| answer.unwrap().open().unwrap()).collect().await;
        assert_eq!(received, answers);
    }
}

#[tokio::test]
async fn a_peer_that_speaks_nothing_of_ours_is_refused() {
    let mut client = FeedClient::new(FeedServer::new(Repeater(Vec::new())));
    let refusal = client.subscribe(subscribe(Spoken::new(2, 3).unwrap())).await.unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition, "{refusal:?}");
    assert!(client.subscribe(subscribe(Spoken::new(1, 3).unwrap())).await.is_ok());

    let refusal = client.prove(wire::Prove::default()).await.unwrap_err();
    assert_eq!(refusal.code(), Code::InvalidArgument, "{refusal:?}");
    let prove = Prove::revision(pods());
    assert!(client.prove(wire::Prove::from(&prove)).await.is_ok());
}

#[test]
fn encoding_once_copies_no_message() {
    for answer in answers() {
        let once = Encoded::once(&answer);
        let (Encoded::Bytes(first), Encoded::Bytes(second)) = (once.clone(), once.clone()) else {
            panic!("encoded")
        };
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert_eq!(once.size(), answer.encoded_len());
        assert_eq!(Encoded::Message(answer.clone()).size(), once.size());
        assert_eq!(once.open(), Ok(answer));
    }
}
