//! Nodes as they are written and as DNS answers, under paused time: a scripted resolver is asked when its time comes, and
//! what it answers is handed to it by the test.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

use super::{Fault, Members, NodeAddress, Resolve, StaticNode, StaticNodeError, SystemResolver};
use crate::{Lifecycle, StopCause};

/// Longer than anything here takes; time is paused, so it costs nothing.
const NEVER: Duration = Duration::from_secs(600);

type Answer = io::Result<Vec<SocketAddr>>;

/// Passes every question to the test.
struct Script(mpsc::Sender<oneshot::Sender<Answer>>);

impl Resolve for Script {
    async fn resolve(&self, name: &NodeAddress) -> Answer {
        assert_eq!(name.as_str(), "nodes.test:7443");
        let (answer, answered) = oneshot::channel();
        self.0.send(answer).await.unwrap();
        answered.await.unwrap()
    }
}

/// Members over a script, and the questions.
fn scripted(lifecycle: &Lifecycle) -> (Members, mpsc::Receiver<oneshot::Sender<Answer>>) {
    let (ask, asked) = mpsc::channel(1);
    let name = "nodes.test:7443".parse().unwrap();
    (Members::dns(name, 4, Script(ask), lifecycle), asked)
}

fn answer(addresses: &[&str]) -> Answer {
    Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
}

fn texts(addresses: &[NodeAddress]) -> Vec<&str> {
    addresses.iter().map(NodeAddress::as_str).collect()
}

fn nodes(texts: &[&str]) -> Vec<StaticNode> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_node_is_read_as_it_is_written() {
    for text in ["0/1=localhost:1", "3/4=[::1]:7443", "255/256=10.0.0.1:7443", "4/4=a:1"] {
        assert_eq!(text.parse::<StaticNode>().unwrap().to_string(), text);
    }
    for text in ["", "0/4", "0=a:1", "/4=a:1", "0/=a:1", "a/4=a:1", "-1/4=a:1", "0/4/1=a:1", "0/4:a=1"] {
        assert_eq!(text.parse::<StaticNode>(), Err(StaticNodeError::Form), "{text}");
    }
    for (text, count) in [("0/0=a:1", 0), ("0/257=a:1", 257)] {
        assert_eq!(text.parse::<StaticNode>(), Err(StaticNodeError::Count(count)), "{text}");
    }
    assert_eq!("0/4=a".parse::<StaticNode>().unwrap_err().to_string(), "an address is HOST:PORT");
    assert_eq!(StaticNodeError::Count(0).to_string(), "the number of shards is from 1 to 256, not 0");
}

#[tokio::test(start_paused = true)]
async fn fixed_nodes_are_sorted_and_never_change() {
    let members =
        Members::fixed(nodes(&["1/2=c:1", "0/2=b:1", "1/2=a:1"])).expect("two shards, one with two replicas");
    assert_eq!(members.shards(), 2);
    let mut addresses = members.addresses();
    assert_eq!(texts(&addresses.borrow_and_update().clone()), ["a:1", "b:1", "c:1"]);
    assert!(timeout(NEVER, addresses.changed()).await.is_err(), "waiting is neither a change nor an error");
}

#[test]
fn faults_are_reported_together() {
    let error = Members::fixed(nodes(&["0/4=a:1", "3/4=b:1", "5/4=c:1", "0/4=A:1", "3/4=a:1"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "5/4=c:1: shards are counted from 0, so the last of 4 is 3; a:1 is named more than once; \
         shard 1 of 4 has no node; shard 2 of 4 has no node"
    );
    let error = Members::fixed(nodes(&["0/2=a:1", "1/3=b:1", "1/2=c:1", "7/3=d:1"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "7/3=d:1: shards are counted from 0, so the last of 3 is 2; \
         nodes are of different numbers of shards: 0/2=a:1 1/3=b:1"
    );
    assert_eq!(Members::fixed(Vec::new()).unwrap_err().faults, [Fault::NoNodes]);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_looked_up_at_once_and_then_every_five_seconds() {
    let lifecycle = Lifecycle::new();
    let (members, mut asked) = scripted(&lifecycle);
    let mut addresses = members.addresses();
    assert_eq!(
        (members.shards(), addresses.borrow().len()),
        (4, 0),
        "nobody is known before the first answer"
    );
    let start = Instant::now();
    asked.recv().await.unwrap().send(answer(&["10.0.0.2:7443", "10.0.0.1:7443", "10.0.0.2:7443"])).unwrap();
    addresses.changed().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(texts(&addresses.borrow_and_update().clone()), ["10.0.0.1:7443", "10.0.0.2:7443"]);
    for look in 1..4 {
        let asked = asked.recv().await.unwrap();
        assert_eq!(start.elapsed(), look * Duration::from_secs(5));
        asked.send(answer(&["10.0.0.2:7443", "10.0.0.1:7443"])).unwrap();
    }
    let asked = asked.recv().await.unwrap();
    assert!(!addresses.has_changed().unwrap(), "the same addresses in another order are no change");
    asked.send(answer(&["10.0.0.3:7443", "10.0.0.1:7443"])).unwrap();
    addresses.changed().await.unwrap();
    assert_eq!(
        texts(&addresses.borrow_and_update().clone()),
        ["10.0.0.1:7443", "10.0.0.3:7443"],
        "2 is gone"
    );
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_last_addresses_stay() {
    let lifecycle = Lifecycle::new();
    let (members, mut asked) = scripted(&lifecycle);
    let mut addresses = members.addresses();
    asked.recv().await.unwrap().send(answer(&["10.0.0.1:7443"])).unwrap();
    addresses.changed().await.unwrap();
    let known = Arc::clone(&addresses.borrow_and_update());
    asked.recv().await.unwrap().send(Err(io::Error::other("not found"))).unwrap();
    asked.recv().await.unwrap().send(answer(&[])).unwrap();
    let many: Vec<_> = (1..=1_025).map(|port| SocketAddr::from(([10, 0, 0, 9], port))).collect();
    asked.recv().await.unwrap().send(Ok(many.clone())).unwrap();
    // This one is never answered; the next question comes when its limit is over.
    let start = Instant::now();
    let unanswered = asked.recv().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    let next = asked.recv().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert!(unanswered.is_closed());
    assert!(!addresses.has_changed().unwrap());
    assert!(Arc::ptr_eq(&known, &addresses.borrow()));
    next.send(Ok(many[..1_024].to_vec())).unwrap();
    addresses.changed().await.unwrap();
    assert_eq!(addresses.borrow().len(), 1_024, "the most that is taken");
}

#[tokio::test(start_paused = true)]
async fn a_node_of_both_families_counts_once() {
    let lifecycle = Lifecycle::new();
    let (members, mut asked) = scripted(&lifecycle);
    let mut addresses = members.addresses();
    let both = ["[2001:db8::1]:7443", "10.0.0.1:7443", "[::ffff:10.0.0.2]:7443"];
    asked.recv().await.unwrap().send(answer(&both)).unwrap();
    addresses.changed().await.unwrap();
    assert_eq!(texts(&addresses.borrow_and_update().clone()), ["10.0.0.1:7443", "10.0.0.2:7443"]);
    asked.recv().await.unwrap().send(answer(&both[..1])).unwrap();
    addresses.changed().await.unwrap();
    assert_eq!(texts(&addresses.borrow_and_update().clone()), ["[2001:db8::1]:7443"]);
}

#[tokio::test(start_paused = true)]
async fn looking_ends_when_nobody_follows() {
    let lifecycle = Lifecycle::new();
    let (members, mut asked) = scripted(&lifecycle);
    let addresses = members.addresses();
    drop(members);
    asked.recv().await.unwrap().send(answer(&["10.0.0.1:7443"])).unwrap();
    let question = asked.recv().await.expect("somebody still follows");
    drop(addresses);
    assert!(asked.recv().await.is_none());
    assert!(question.is_closed(), "also in the middle of a question");
    assert!(!lifecycle.is_stopping());
}

#[tokio::test(start_paused = true)]
async fn looking_ends_with_the_process() {
    let lifecycle = Lifecycle::new();
    let (_members, mut asked) = scripted(&lifecycle);
    let _question = asked.recv().await.unwrap();
    lifecycle.stop(StopCause::Asked);
    let start = Instant::now();
    assert!(lifecycle.stopped(NEVER).await.left.is_empty());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn the_system_knows_localhost() {
    let found = SystemResolver.resolve(&"localhost:7443".parse().unwrap()).await.unwrap();
    assert!(
        !found.is_empty() && found.iter().all(|address| address.ip().is_loopback() && address.port() == 7443)
    );
}
