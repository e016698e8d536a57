//! What a peer may ask of feeds, and what it is answered.

use tonic::transport::Channel;
use tonic::{Code, Status};
use weir_core::object::ObjectSchema;
use weir_core::{GroupVersionResource, History, SlotSet};
use weir_daemon::Lifecycle;
use weir_daemon::peer::Dialer;
use weir_proto::feed::{FeedAnswer, Proof, Prove, Subscribe};
use weir_proto::wire::feed_client::FeedClient;
use weir_proto::{MirrorRange, Spoken, wire};

use crate::world::{Node, World, pods, until};

async fn client(node: &Node) -> FeedClient<Channel> {
    let dialer = Dialer::new(None, Lifecycle::new());
    FeedClient::new(dialer.connect(&node.address.to_string()).await.unwrap())
}

async fn prove(node: &Node, wants_entries: bool) -> Result<Proof, Status> {
    let prove = Prove { wants_entries, ..Prove::revision(pods()) };
    let answer = client(node).await.prove(wire::Prove::from(&prove)).await?;
    Ok(answer.into_inner().try_into().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_feed_that_runs_proves_and_a_question_starts_none() {
    let world = World::start(21).await;
    let node = world.node(World::ports(1).remove(0), World::plan(SlotSet::ALL, &[])).await;
    let refused = prove(&node, false).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(node.host.feeds().is_empty());
    node.pods().await;
    world.compare(&[&node]).await;
    world.write(50);
    world.compare(&[&node]).await;
    let head = world.sim.read(|cluster| cluster.log().head());
    let feed = node.host.feeds().running(&pods()).unwrap();
    until("the feed watches", || feed.handle.source().is_some()).await;
    let proof = prove(&node, false).await.unwrap();
    assert_eq!((proof.revision, proof.entries), (head, None));
    assert!(proof.asked_at <= head && Some(proof.source) == feed.handle.source());
    let proof = prove(&node, true).await.unwrap();
    let entries = proof.entries.unwrap();
    let (truth, _) = world.truth(&SlotSet::ALL);
    let proved: Vec<_> = entries.iter().map(|entry| (entry.key.to_string(), entry.rv.get())).collect();
    assert_eq!(proved, truth.into_iter().collect::<Vec<_>>());
    assert_eq!(proof.revision, head);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_is_doubted_ends_once_whoever_says_so() {
    let world = World::start(23).await;
    let node = world.node(World::ports(1).remove(0), World::plan(SlotSet::ALL, &[])).await;
    node.pods().await;
    world.compare(&[&node]).await;
    let feed = node.host.feeds().running(&pods()).unwrap();
    let first = feed.handle.history();
    until("the feed watches", || feed.handle.source().is_some()).await;
    for _ in 0..3 {
        let prove = Prove { doubted: Some(first), ..Prove::revision(pods()) };
        // Whether the question is answered makes no difference: the feed drops its connection meanwhile.
        let _ = client(&node).await.prove(wire::Prove::from(&prove)).await;
        until("another history", || feed.handle.history() > first).await;
        world.compare(&[&node]).await;
        until("the feed watches", || feed.handle.source().is_some()).await;
    }
    assert_eq!(feed.handle.history(), first.next());
    world.write(20);
    world.compare(&[&node]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_is_told_first_what_it_subscribes_to() {
    let world = World::start(22).await;
    let node = world.node(World::ports(1).remove(0), World::plan(SlotSet::ALL, &[])).await;
    let mut client = client(&node).await;
    let subscribe = |mirror| {
        let range = MirrorRange { mirror, slots: SlotSet::of_shard(1, 4) };
        let subscribe = Subscribe { spoken: Spoken::OURS, range, after: None, history: History::FIRST };
        wire::Subscribe::from(&subscribe)
    };
    let mut answers = client.subscribe(subscribe(pods())).await.unwrap().into_inner();
    let first = answers.message().await.unwrap().unwrap().open().unwrap();
    let FeedAnswer::Subscribed(told) = FeedAnswer::read(first, &ObjectSchema::bare()).unwrap() else {
        panic!("not told")
    };
    assert_eq!((&told.spec.resource, &*told.spec.kind), (&pods(), "Pod"));
    let mut listed = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        match FeedAnswer::read(answer.open().unwrap(), &told.spec.schema).unwrap() {
            FeedAnswer::List { chunk, .. } => {
                listed
                    .extend(chunk.objects.iter().map(|object| (object.key().to_string(), object.rv().get())));
                if chunk.is_last {
                    break;
                }
            }
            FeedAnswer::Facts(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let (truth, _) = world.truth(&SlotSet::of_shard(1, 4));
    assert_eq!(listed, truth.into_iter().collect::<Vec<_>>());
    let unknown = client.subscribe(subscribe(GroupVersionResource::new("", "v1", "widgets"))).await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
}
