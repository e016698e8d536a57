//! What clients of an interest see when a node begins anew, over one node in this process and under paused time.

use std::sync::Arc;

use tokio::task::JoinSet;
use weir_core::interest::Interest;
use weir_core::message::{Change, ChangeKind, FeedMessage, ListChunk, ListId};
use weir_core::object::{Object, ObjectSchema};
use weir_core::selector::FieldTable;
use weir_core::{GroupVersionResource, SourceId, Statement, WindowBounds};
use weir_shard_node::node::cell::NodeCell;

use super::*;
use crate::hub::fanout::Fanout;
use crate::shards::Shards;

/// Config maps of one node.
struct Mirrored {
    schema: ObjectSchema,
    node: Arc<NodeCell>,
    fanout: Arc<Fanout>,
    _tasks: JoinSet<()>,
}

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

// === impl Mirrored ===

impl Mirrored {
    async fn listed(at: u64) -> Self {
        let resource = GroupVersionResource::new("", "v1", "configmaps");
        let schema = ObjectSchema::new(FieldTable::of(&resource, None).unwrap()).unwrap();
        let node = Arc::new(NodeCell::new(SlotSet::of_shard(0, 1), WindowBounds::default()));
        let fanout = Arc::new(Fanout::new(Shards::local(vec![node.clone()])));
        let mut tasks = JoinSet::new();
        tasks.spawn(fanout.clone().run());
        let mirrored = Self { schema, node, fanout, _tasks: tasks };
        mirrored.list(1, at);
        mirrored.fanout.frontier().wait_for(|frontier| *frontier >= rv(at)).await.unwrap();
        mirrored
    }

    fn object(&self, at: u64) -> Arc<Object> {
        let json = format!(
            r#"{{"metadata":{{"name":"one","namespace":"ns","uid":"one","resourceVersion":"{at}"}}}}"#
        );
        Arc::new(Object::parse(json.as_bytes(), &self.schema).unwrap())
    }

    fn list(&self, list: u64, at: u64) {
        let (list, objects) = (ListId(list), vec![self.object(at)]);
        self.feed(FeedMessage::List(ListChunk { list, at: rv(at), seq: 0, is_last: true, objects }));
    }

    fn change(&self, source: u64, (after, at): (u64, u64)) {
        let change = Change { rv: rv(at), kind: ChangeKind::Put, object: self.object(at) };
        let statement = Statement::new(SourceId(source), rv(after), rv(at), vec![change]).unwrap();
        self.feed(FeedMessage::Statement(statement));
    }

    fn feed(&self, message: FeedMessage) {
        self.node.on_feed(message, Default::default()).unwrap();
    }

    fn follower(&self, after: u64) -> Follower {
        let lease = self.fanout.follow(&Arc::new(Interest::everything()));
        Follower::new(lease, rv(after), self.fanout.shards().history())
    }
}

/// What comes that is something.
async fn next(follower: &mut Follower) -> Result<Vec<u64>, End> {
    loop {
        match follower.advance().await {
            Next::Events(events) => return Ok(events.iter().map(|event| event.rv.get()).collect()),
            Next::Nothing(_) => follower.changed().await,
            Next::Ended(end) => return Err(end),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_listed_since_goes_on_where_an_older_one_ends() {
    let mirrored = Mirrored::listed(100).await;
    let mut old = mirrored.follower(100);
    tokio::task::yield_now().await;
    mirrored.list(2, 200);
    // The list can be read before the merges have heard of it: the hub begins where they are.
    let mut new = mirrored.follower(200);
    mirrored.change(1, (200, 205));
    assert_eq!(next(&mut old).await, Err(End::TooOld));
    assert_eq!(next(&mut new).await, Ok(vec![205]));
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_no_client_goes_on_whatever_its_position() {
    let mirrored = Mirrored::listed(100).await;
    let mut client = mirrored.follower(100);
    tokio::task::yield_now().await;
    mirrored.feed(FeedMessage::Restored(History::new(2)));
    mirrored.list(2, 50);
    assert_eq!(next(&mut client).await, Err(End::Restored));
}
