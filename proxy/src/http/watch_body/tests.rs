//! How a watch ends when its client is to leave, over one node in this process and under paused time.

use std::sync::Arc;

use http_body_util::BodyExt;
use serde_json::Value;
use tokio::task::JoinSet;
use weir_core::interest::Interest;
use weir_core::message::{Change, ChangeKind, FeedMessage, ListChunk, ListId};
use weir_core::object::ObjectSchema;
use weir_core::selector::FieldTable;
use weir_core::{GroupVersionResource, SlotSet, SourceId, Statement, WindowBounds};
use weir_shard_node::node::cell::NodeCell;

use super::*;
use crate::drain::Drain;
use crate::hub::fanout::Fanout;
use crate::shards::Shards;

const LENGTH: Duration = Duration::from_secs(30);
/// Where the list of 100 objects is.
const LISTED: u64 = 100;

/// A mirror of config maps, and how its clients leave.
struct Mirrored {
    spec: MirrorSpec,
    node: Arc<NodeCell>,
    fanout: Arc<Fanout>,
    drain: Drain,
    _tasks: JoinSet<()>,
}

/// What a watch asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Changes after the list.
    Changes,
    /// The same, with bookmarks.
    Bookmarks,
    /// The state, an end mark, and then changes.
    State,
}

fn rv(number: u64) -> ResourceVersion {
    ResourceVersion::new(number)
}

// === impl Mirrored ===

impl Mirrored {
    async fn listed() -> Self {
        let resource = GroupVersionResource::new("", "v1", "configmaps");
        let schema = ObjectSchema::new(FieldTable::of(&resource, None).unwrap()).unwrap();
        let (kind, is_namespaced, form) = ("ConfigMap".into(), true, JsonForm::BuiltIn);
        let spec = MirrorSpec { resource, kind, is_namespaced, form, schema: Arc::new(schema) };
        let node = Arc::new(NodeCell::new(SlotSet::of_shard(0, 1), WindowBounds::default()));
        let fanout = Arc::new(Fanout::new(Shards::local(vec![node.clone()])));
        let mut tasks = JoinSet::new();
        tasks.spawn(fanout.clone().run());
        let mirrored = Self { spec, node, fanout, drain: Drain::new(), _tasks: tasks };
        let objects = (1..=LISTED).map(|number| mirrored.object(number, number)).collect();
        let (list, at) = (ListId(1), rv(LISTED));
        mirrored.feed(FeedMessage::List(ListChunk { list, at, seq: 0, is_last: true, objects }));
        mirrored.reached(LISTED).await;
        mirrored
    }

    fn object(&self, number: u64, at: u64) -> Arc<Object> {
        let json = format!(
            r#"{{"metadata":{{"name":"o{number:03}","namespace":"ns","uid":"u{number}","resourceVersion":"{at}"}}}}"#
        );
        Arc::new(Object::parse(json.as_bytes(), &self.spec.schema).unwrap())
    }

    fn feed(&self, message: FeedMessage) {
        self.node.on_feed(message, Default::default()).unwrap();
    }

    /// Says that the first object changed at these revisions, and nothing else up to the last.
    async fn changed(&self, changes: &[u64], (after, to): (u64, u64)) {
        let changes = changes.iter().map(|at| Change {
            rv: rv(*at),
            kind: ChangeKind::Put,
            object: self.object(1, *at),
        });
        let statement = Statement::new(SourceId(1), rv(after), rv(to), changes.collect()).unwrap();
        self.feed(FeedMessage::Statement(statement));
        self.reached(to).await;
    }

    async fn reached(&self, at: u64) {
        self.fanout.frontier().wait_for(|frontier| *frontier >= rv(at)).await.unwrap();
    }

    /// A watch for five minutes.
    async fn watch(&self, asked: Asked) -> Sending {
        let interest = Arc::new(Interest::everything());
        let lease = self.fanout.follow(&interest);
        let shards = self.fanout.shards();
        let initial = match asked {
            Asked::State => Some(shards.snapshot(&interest, rv(LISTED), None).await.unwrap()),
            Asked::Changes | Asked::Bookmarks => None,
        };
        let takes_bookmarks = asked != Asked::Changes;
        Sending::new(WatchPlan {
            frames: Frames::new(&self.spec),
            initial: initial.map(Into::into),
            has_end_bookmark: asked == Asked::State,
            follower: Follower::new(lease, rv(LISTED), shards.history()),
            bookmarks: takes_bookmarks.then(|| BookmarkTemplate::composed(&self.spec)),
            deadline: Instant::now() + Duration::from_secs(300),
            turn: self.drain.turn(),
        })
    }
}

/// The next events as type and revision; `None` at the end.
async fn next(sending: &mut Sending) -> Option<Vec<String>> {
    let mut piece = sending.next().await.unwrap()?;
    let length = piece.len();
    let text = bytes::Buf::copy_to_bytes(&mut piece, length);
    let events = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Some(
        events
            .map(|line| {
                let event: Value = serde_json::from_slice(line).unwrap();
                let at = event["object"]["metadata"]["resourceVersion"].as_str().unwrap();
                format!("{} {at}", event["type"].as_str().unwrap())
            })
            .collect(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_client_leaves_behind_what_there_is_and_how_far_that_is() {
    let mirrored = Mirrored::listed().await;
    let mut with = mirrored.watch(Asked::Bookmarks).await;
    let mut without = mirrored.watch(Asked::Changes).await;
    mirrored.changed(&[103, 105], (100, 110)).await;
    mirrored.drain.begin(Duration::ZERO);
    assert_eq!(next(&mut with).await.unwrap(), ["MODIFIED 103", "MODIFIED 105", "BOOKMARK 105"]);
    assert_eq!(next(&mut with).await, None);
    assert_eq!(next(&mut without).await.unwrap(), ["MODIFIED 103", "MODIFIED 105"]);
    assert_eq!(next(&mut without).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_quiet_client_leaves_with_a_bookmark_if_there_is_news() {
    let mirrored = Mirrored::listed().await;
    let mut quiet = mirrored.watch(Asked::Bookmarks).await;
    let mut waiting = mirrored.watch(Asked::Bookmarks).await;
    let start = Instant::now();
    let end = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        mirrored.drain.begin(LENGTH);
    };
    let (none, ()) = tokio::join!(next(&mut quiet), end);
    assert_eq!(none, None, "a bookmark at the position that it began at would say nothing");
    assert!(start.elapsed() > Duration::from_secs(1) && start.elapsed() <= LENGTH);
    mirrored.changed(&[], (100, 110)).await;
    assert_eq!(next(&mut waiting).await.unwrap(), ["BOOKMARK 110"]);
    assert_eq!(next(&mut waiting).await, None);
}

#[tokio::test(start_paused = true)]
async fn events_without_end_do_not_keep_a_client() {
    let mirrored = Mirrored::listed().await;
    let mut busy = mirrored.watch(Asked::Changes).await;
    mirrored.drain.begin(LENGTH);
    let (mut at, start) = (LISTED, Instant::now());
    loop {
        mirrored.changed(&[at + 1], (at, at + 1)).await;
        at += 1;
        let Some(events) = next(&mut busy).await else { break };
        assert_eq!(events, [format!("MODIFIED {at}")]);
        assert!(start.elapsed() <= LENGTH, "it is still there");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_shown_the_state_leaves_behind_its_end_mark() {
    let mirrored = Mirrored::listed().await;
    let mut showing = mirrored.watch(Asked::State).await;
    assert_eq!(next(&mut showing).await.unwrap().len(), PIECE);
    mirrored.drain.begin(LENGTH);
    // By now it would have had to leave, were it done.
    tokio::time::sleep(LENGTH.mul_f64(0.92)).await;
    let mut rest = Vec::new();
    while let Some(events) = next(&mut showing).await {
        rest.extend(events);
    }
    assert_eq!(rest.len(), 100 - PIECE + 1, "{rest:?}");
    assert_eq!(rest.last().unwrap(), "BOOKMARK 100");
}

#[tokio::test(start_paused = true)]
async fn who_is_shown_the_state_too_long_leaves_without_a_bookmark() {
    let mirrored = Mirrored::listed().await;
    let mut showing = mirrored.watch(Asked::State).await;
    assert_eq!(next(&mut showing).await.unwrap().len(), PIECE);
    mirrored.changed(&[103], (100, 110)).await;
    mirrored.drain.begin(LENGTH);
    tokio::time::sleep(LENGTH.mul_f64(0.96)).await;
    assert_eq!(next(&mut showing).await, None);
    let body = watch(mirrored.watch(Asked::State).await.plan).collect().await.unwrap().to_bytes();
    assert!(body.is_empty(), "there is no time for another");
}
