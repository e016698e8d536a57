//! Logs over the wire: statements that join, up to what the node has and no further.

use std::sync::Arc;
use std::time::Duration;

use tonic::Code;
use weir_core::interest::{Interest, Scope};
use weir_core::message::{InterestEvent, LogRequest, Unanswered};
use weir_core::statement::Statement;
use weir_core::{History, SlotSet, WindowBounds};
use weir_daemon::peer::Caller;
use weir_proto::limits::BATCH_BYTES;
use weir_proto::read::{Log, LogAnswer};
use weir_proto::{MirrorRange, wire};

use super::super::testing::{Mirror, Node, of, resource, schema};
use crate::testing::{Pod, rv, table};

fn request(interest: &Interest, (after, to): (u64, u64)) -> LogRequest {
    LogRequest {
        history: History::FIRST,
        interest: Arc::new(interest.clone()),
        slots: SlotSet::ALL,
        after: rv(after),
        to: rv(to),
    }
}

fn wired(plural: &str, request: &LogRequest) -> wire::Log {
    (&Log::of(&resource(plural), request, &table()).unwrap()).into()
}

pub(super) fn question(interest: &Interest, interval: (u64, u64)) -> wire::Log {
    wired("pods", &request(interest, interval))
}

/// The statements of an answer, and the reason if it ended with one.
async fn replay(node: &Node, log: wire::Log) -> (Vec<Statement<InterestEvent>>, Option<Unanswered>) {
    let mut answers = node.client().log(of(Caller::Proxy, log)).await.unwrap().into_inner();
    let mut statements = Vec::new();
    while let Some(answer) = answers.message().await.unwrap() {
        match LogAnswer::read(answer, &schema()).unwrap() {
            LogAnswer::Unanswered(unanswered) => return (statements, Some(unanswered)),
            LogAnswer::Statement { range, statement } => {
                assert_eq!(range, MirrorRange { mirror: resource("pods"), slots: SlotSet::ALL });
                statements.push(statement);
            }
        }
    }
    (statements, None)
}

/// Checks that the statements join from `after` on; where they end, and the positions of all events.
fn joined(after: u64, statements: &[Statement<InterestEvent>]) -> (u64, Vec<u64>) {
    let mut at = rv(after);
    for statement in statements {
        assert_eq!(statement.after(), at, "each begins where the one before it ended");
        at = statement.to();
    }
    let events = statements.iter().flat_map(Statement::events).map(|event| event.rv.get());
    (at.get(), events.collect())
}

/// One pod that changes at every revision up to `last`.
fn changing(mirror: &Mirror, (after, last): (u64, u64), padding: usize) {
    for at in after + 1..=last {
        mirror.state((at - 1, at), vec![Pod { padding, ..Pod::new("ns", "a", "u") }.put(at)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_goes_over_many_pieces_and_ends_where_it_was_asked_to() {
    let (node, mirror) = Node::with_pods(Vec::new());
    changing(&mirror, (10, 9_000), 0);
    let everything = Interest::everything();
    let (statements, unanswered) = replay(&node, question(&everything, (10, 8_000))).await;
    assert_eq!(joined(10, &statements), (8_000, (11..=8_000).collect()));
    assert_eq!(unanswered, None);
    let scope = Scope { namespace: Some("elsewhere".into()), name: None };
    let nothing = Interest::new(scope, everything.labels.clone(), Vec::new(), None);
    let (statements, unanswered) = replay(&node, question(&nothing, (10, 9_000))).await;
    assert_eq!((joined(10, &statements), unanswered), ((9_000, Vec::new()), None));
}

#[tokio::test(start_paused = true)]
async fn messages_of_a_log_are_bounded() {
    let (node, mirror) = Node::with_pods(Vec::new());
    changing(&mirror, (10, 1_010), 2_000);
    let (statements, _) = replay(&node, question(&Interest::everything(), (10, 1_010))).await;
    let size = |statement: &Statement<InterestEvent>| -> usize {
        statement.events().iter().map(|event| event.object.bytes().len()).sum()
    };
    assert!(statements.iter().all(|statement| size(statement) <= BATCH_BYTES + 3_000));
    assert!((8..20).contains(&statements.len()), "{} messages for 2.2 MB", statements.len());
    assert_eq!(joined(10, &statements), (1_010, (11..=1_010).collect()));
}

#[tokio::test(start_paused = true)]
async fn g3_a_node_that_lags_says_no_more_than_it_has() {
    let (node, mirror) = Node::with_pods(Vec::new());
    let everything = Interest::everything();
    // It stands where the peer stands, and so has nothing to say about what comes.
    let (statements, unanswered) = replay(&node, question(&everything, (10, 20))).await;
    assert_eq!((joined(10, &statements), unanswered), ((10, Vec::new()), None));
    assert_eq!(statements.len(), 1);
    changing(&mirror, (10, 12), 0);
    let (statements, unanswered) = replay(&node, question(&everything, (10, 20))).await;
    assert_eq!((joined(10, &statements), unanswered), ((12, vec![11, 12]), None));
    // Behind the peer it says so.
    let (statements, unanswered) = replay(&node, question(&everything, (15, 20))).await;
    assert_eq!((statements.len(), unanswered), (0, Some(Unanswered::NotReached { frontier: rv(12) })));
}

/// A window of a few thousand events under a log that is being read.
fn small_window() -> (Node, Mirror) {
    let bounds = WindowBounds { max_events: 6_000, min_age: Duration::ZERO, ..WindowBounds::default() };
    let node = Node::new(SlotSet::ALL);
    let mirror = node.mirror_within("pods", 1, bounds);
    mirror.list(10, Vec::new());
    changing(&mirror, (10, 6_000), 0);
    (node, mirror)
}

#[tokio::test(start_paused = true)]
async fn g4_the_floor_is_checked_for_every_piece() {
    let (node, mirror) = small_window();
    let log = question(&Interest::everything(), (10, 6_000));
    let mut answers = node.client().log(of(Caller::Proxy, log)).await.unwrap().into_inner();
    let mut statements = Vec::new();
    let mut unanswered = None;
    while let Some(answer) = answers.message().await.unwrap() {
        match LogAnswer::read(answer, &schema()).unwrap() {
            LogAnswer::Statement { statement, .. } => statements.push(statement),
            LogAnswer::Unanswered(why) => unanswered = Some(why),
        }
        if statements.len() == 1 {
            changing(&mirror, (6_000, 12_500), 0);
        }
    }
    let (to, events) = joined(10, &statements);
    assert!(to < 6_000 && events == (11..=to).collect::<Vec<_>>(), "what was said until then holds");
    let floor = mirror.cell().window().unwrap().floor;
    assert_eq!(unanswered, Some(Unanswered::TooOld { floor }));
}

#[tokio::test(start_paused = true)]
async fn g5_a_log_that_begins_below_the_floor_says_nothing_else() {
    let (node, mirror) = small_window();
    changing(&mirror, (6_000, 9_000), 0);
    let floor = mirror.cell().window().unwrap().floor;
    let (statements, unanswered) = replay(&node, question(&Interest::everything(), (10, 9_000))).await;
    assert_eq!((statements.len(), unanswered), (0, Some(Unanswered::TooOld { floor })));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_replayed_is_said() {
    let node = Node::new(SlotSet::of_shard(0, 2));
    node.mirror("pods", 1).list(10, Vec::new());
    node.mirror("empties", 2);
    let everything = Interest::everything();
    let mine = LogRequest { slots: SlotSet::of_shard(0, 2), ..request(&everything, (10, 20)) };
    let later = LogRequest { history: History::new(1), ..mine.clone() };
    for (plural, request, expected) in [
        ("pods", request(&everything, (10, 20)), Unanswered::NotMine),
        ("nothings", mine.clone(), Unanswered::Empty),
        ("empties", mine, Unanswered::Empty),
        ("pods", later, Unanswered::Empty),
    ] {
        let (statements, unanswered) = replay(&node, wired(plural, &request)).await;
        assert_eq!((statements.len(), unanswered), (0, Some(expected)), "{plural}");
    }
    let reversed = wire::Log { after: 30, ..wired("pods", &request(&everything, (10, 20))) };
    let refused = node.client().log(of(Caller::Proxy, reversed)).await;
    assert_eq!(refused.err().unwrap().code(), Code::InvalidArgument);
}
